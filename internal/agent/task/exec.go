package task

import (
	"context"

	"berth"
	"berth/internal/agent/driver"
)

// Execer returns what runs a command beside the task. The command is ended when
// the task's present launch has ended. It is an error if the task does not run,
// or its driver can run no commands.
func (r *Runner) Execer() (func(context.Context, *driver.Exec) (code int, err error), error) {
	r.mu.Lock()
	h, over, phase := r.handle, r.over, r.state.Phase
	r.mu.Unlock()
	if h == nil || phase != Running {
		return nil, berth.Errorf(berth.Invalid, "Task not running: task %q has not been started, or is being stopped", r.c.Name)
	}
	x, ok := h.(driver.Execer)
	if !ok {
		return nil, berth.Errorf(berth.Invalid, "the driver %s of task %q cannot run commands beside its tasks", r.c.Driver.Name(), r.c.Name)
	}
	return func(ctx context.Context, e *driver.Exec) (int, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			select {
			case <-over:
				cancel(berth.Errorf(berth.Unavailable, "the command was ended because task %q has ended", r.c.Name))
			case <-ctx.Done():
			}
		}()
		return x.Exec(ctx, e)
	}, nil
}
