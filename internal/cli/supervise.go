package cli

import "berth/internal/daemon"

// superviseCommand is the process that agents start for each allocation.
func superviseCommand() *command {
	return &command{
		name: "supervise", args: "<allocation>", synopsis: "Supervise the tasks of an allocation", hidden: true, local: true, min: 1, max: 1,
		help: "Agents start this process for each allocation. It is the parent of the allocation's tasks and keeps their output and exit status, so tasks survive a restart of the agent. Do not run it by hand.",
		raw:  daemon.Supervise,
	}
}
