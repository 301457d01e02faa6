package cli

import "berth/internal/daemon"

// superviseCommand is the process that agents start for each allocation.
func superviseCommand() *command {
	return &command{
		name: "supervise", args: "<allocation>", synopsis: "Own the tasks of one allocation", hidden: true, local: true, min: 1, max: 1,
		help: "Agents start this process for each allocation. It owns the allocation's tasks, their output and their exit status, so that they outlive a restart of the agent. It is of no use by hand.",
		raw:  daemon.Supervise,
	}
}
