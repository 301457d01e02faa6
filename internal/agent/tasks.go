package agent

import (
	"context"

	"berth"
	"berth/op"
)

// Restart starts tasks of an allocation again where they are, as if they had
// ended, but by no count of their restart policies. node must be this one.
func (a *Agent) Restart(_ context.Context, node berth.NodeID, in *op.RestartAlloc) error {
	r, err := a.runner(node, in.AllocID)
	if err != nil {
		return err
	}
	if in.AllTasks && in.TaskName != "" {
		return berth.Errorf(berth.Invalid, "TaskName: %q is one task, and AllTasks is set; give one of the two", in.TaskName)
	}
	return r.Restart(in.TaskName, in.AllTasks)
}

// Signal sends a signal to a task of an allocation, or to all that run. node
// must be this one.
func (a *Agent) Signal(_ context.Context, node berth.NodeID, in *op.SignalAlloc) error {
	r, err := a.runner(node, in.AllocID)
	if err != nil {
		return err
	}
	return r.Signal(in.Task, in.Signal)
}

// acts is what a runner can be asked to do to its tasks.
type acts interface {
	Restart(task string, all bool) error
	Signal(task, signal string) error
	Pause(task, state string) error
	PauseState(task string) (string, error)
}

// servePause answers what the schedules of tasks are made to do.
func (a *Agent) servePause(s *serving) {
	onCall(s, op.AgentPauseTask, func(_ context.Context, q *op.PauseAlloc) (*op.Nothing, error) {
		r, err := a.runner(a.id, q.AllocID)
		if err == nil {
			err = q.Check()
		}
		if err != nil {
			return nil, err
		}
		return &op.Nothing{}, r.Pause(q.Task, q.ScheduleState)
	})
	onCall(s, op.AgentReadPause, func(_ context.Context, q *op.PauseQuery) (*op.PauseState, error) {
		r, err := a.runner(a.id, q.AllocID)
		if err != nil {
			return nil, err
		}
		state, err := r.PauseState(q.Task)
		return &op.PauseState{ScheduleState: state}, err
	})
}

// runner returns the running allocation that a request is about. A request for
// another node, or for an allocation that has ended, is refused.
func (a *Agent) runner(node berth.NodeID, id string) (acts, error) {
	if node != a.id {
		return nil, berth.Errorf(berth.NotFound, "node %s is not this one, %s", node, a.id)
	}
	_, runner, err := a.find(id)
	if err != nil {
		return nil, err
	}
	if runner == nil {
		return nil, berth.Errorf(berth.Invalid, "allocation %s has ended, so none of its tasks runs", id)
	}
	return runner, nil
}
