package task

import (
	"context"
	"testing"
	"testing/synctest"

	"berth/internal/agent/driver"
)

// stuck is a driver whose handles release nothing until their context ends, as
// with a supervisor that does not answer.
type stuck struct {
	driver.Driver
	asked chan struct{}
}

func (d *stuck) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	h, err := d.Driver.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	return &stuckHandle{h, d.asked}, nil
}

type stuckHandle struct {
	driver.Handle
	asked chan struct{}
}

func (h *stuckHandle) Release(ctx context.Context) error {
	close(h.asked)
	<-ctx.Done()
	return context.Cause(ctx)
}

// An agent that is told to end does not wait for the release of a task that
// never comes.
func TestAReleaseThatHangsDoesNotKeepTheAgent(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1m"},"RestartPolicy":{"Attempts":0,"Interval":"1h","Delay":"10s","Mode":"fail"}}`)
	b.alloc.Job.Type = "batch"
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		b.c.Driver = &stuck{b.c.Driver, asked}
		r, end := b.agent(t)
		<-asked
		synctest.Wait()
		if s := r.State(); s.Phase != Dead {
			t.Errorf("the task is %v, want dead", s.Phase)
		}
		if err := end(); err != nil {
			t.Errorf("the runner ended: %v", err)
		}
	})
}
