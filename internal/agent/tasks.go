package agent

import (
	"context"

	"berth"
	"berth/op"
)

// acts is what a runner can be asked to do to its tasks.
type acts interface {
	Restart(task string, all bool) error
	Signal(task, signal string) error
	Pause(task, state string) error
	PauseState(task string) (string, error)
}

// serveTasks answers what people do to tasks.
func (a *Agent) serveTasks(s *serving) {
	// Tasks start again where they are, as if they had ended, but by no count of
	// their restart policies.
	onCall(s, op.AgentRestartTask, func(_ context.Context, q *op.RestartAlloc) (*op.Nothing, error) {
		r, err := a.runner(q.AllocID)
		if err != nil {
			return nil, err
		}
		if q.AllTasks && q.TaskName != "" {
			return nil, berth.Errorf(berth.Invalid, "TaskName: %q is one task, and AllTasks is set; give one of the two", q.TaskName)
		}
		return &op.Nothing{}, r.Restart(q.TaskName, q.AllTasks)
	})
	onCall(s, op.AgentSignalTask, func(_ context.Context, q *op.SignalAlloc) (*op.Nothing, error) {
		r, err := a.runner(q.AllocID)
		if err != nil {
			return nil, err
		}
		return &op.Nothing{}, r.Signal(q.Task, q.Signal)
	})
	onCall(s, op.AgentPauseTask, func(_ context.Context, q *op.PauseAlloc) (*op.Nothing, error) {
		r, err := a.runner(q.AllocID)
		if err == nil {
			err = q.Check()
		}
		if err != nil {
			return nil, err
		}
		return &op.Nothing{}, r.Pause(q.Task, q.ScheduleState)
	})
	onCall(s, op.AgentReadPause, func(_ context.Context, q *op.PauseQuery) (*op.PauseState, error) {
		r, err := a.runner(q.AllocID)
		if err != nil {
			return nil, err
		}
		state, err := r.PauseState(q.Task)
		return &op.PauseState{ScheduleState: state}, err
	})
}

// runner returns the running allocation that a request is about. A request for
// another node, or for an allocation that has ended, is refused.
func (a *Agent) runner(id string) (acts, error) {
	_, runner, err := a.find(id)
	if err != nil {
		return nil, err
	}
	if runner == nil {
		return nil, berth.Errorf(berth.Invalid, "allocation %s has ended, so none of its tasks runs", id)
	}
	return runner, nil
}
