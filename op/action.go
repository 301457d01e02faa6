package op

import (
	"berth"
	"berth/internal/acl"
)

// JobAction is a command that a task of a job declares by a name, as the HTTP API
// of Nomad lists it.
type JobAction struct {
	Name          string
	Command       string
	Args          []string
	TaskName      string
	TaskGroupName string
}

// RunAction asks for an action to be run beside a running task of an allocation.
// Over HTTP it is a websocket with the messages of ExecTask.
type RunAction struct {
	JobID     string
	Action    string `query:"action"`
	AllocID   string `query:"allocID"`
	Group     string `query:"group"`        // "" is that of the allocation
	Task      string `query:"task"`         // "" if only one task of the group has the action
	TTY       bool   `query:"tty"`          // give it a terminal
	Handshake bool   `query:"ws_handshake"` // see ExecTask
	Command   string `query:"command"`      // Nomad's client sends it and it means nothing: the job has the command
	Query
}

// ActionsOf returns the actions that the tasks of a job declare, in its order.
func ActionsOf(j *berth.Job) []JobAction {
	out := []JobAction{}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			for _, a := range t.Actions {
				out = append(out, JobAction{Name: a.Name, Command: a.Command, Args: a.Args, TaskName: t.Name, TaskGroupName: g.Name})
			}
		}
	}
	return out
}

// The operations on actions.
var (
	JobActions = define[JobRef, []JobAction]("job.actions", "GET /v1/job/{JobID}/actions", "", acl.ReadJob, acl.QuerySpace)
	DoAction   = define[RunAction, Nothing]("job.action", "GET /v1/job/{JobID}/action", "", acl.AllocExec, acl.QuerySpace, local)
)
