package task

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// counting is a driver that counts the releases of its tasks.
type counting struct {
	driver.Driver
	released atomic.Int32
}

func (d *counting) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	h, err := d.Driver.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	return &countingHandle{h, d}, nil
}

type countingHandle struct {
	driver.Handle
	of *counting
}

func (h *countingHandle) Release(ctx context.Context) error {
	h.of.released.Add(1)
	return h.Handle.Release(ctx)
}

// The driver keeps an exit until it is recorded: if the agent is killed before, the
// next one must find it.
func TestAnExitIsReleasedWhenItIsRecorded(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1m","exit_code":1},"RestartPolicy":{"Attempts":1,"Interval":"1h","Delay":"10s","Mode":"fail"}}`)
	synctest.Test(t, func(t *testing.T) {
		d := &counting{Driver: b.c.Driver}
		b.c.Driver = d
		r, end := b.agent(t)
		for launch := int32(1); launch <= 2; launch++ {
			for r.State().Phase != Running {
				time.Sleep(time.Second)
			}
			b.failSaves(errors.New("no space left on device"))
			for r.State().Phase == Running {
				time.Sleep(time.Second)
			}
			time.Sleep(5 * time.Second)
			if n := d.released.Load(); n != launch-1 {
				t.Errorf("launch %d: %d exits are released, the last of them is not recorded", launch, n)
			}
			b.failSaves(nil)
			time.Sleep(2 * time.Second)
			if n := d.released.Load(); n != launch {
				t.Errorf("launch %d: %d exits are released, all are recorded", launch, n)
			}
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		if n := d.released.Load(); n != 2 {
			t.Errorf("%d releases of 2 launches", n)
		}
	})
}
