package task

import (
	"context"
	"errors"
	"time"

	"berth/internal/agent/driver"
)

// What the loop does about a launch that was started: find it again, wait for
// its end, stop it, let the driver forget it.

// look asks the driver for the newest launch.
func (l *loop) look(ctx context.Context) {
	if l.c.Driver == nil {
		l.post(NotFound{})
		return
	}
	h, err := l.recover(ctx)
	if err == nil {
		if err := l.openAPI(); err != nil {
			l.c.Log.Warn("the socket of the Task API cannot be made again", "task", l.c.Name, "error", err)
		}
		l.hold(h)
		l.post(Found{h.Launch(), h.State()})
		return
	}
	l.gone(ctx, err, l.look)
}

// recover tells the driver what it needs of the task.
func (l *loop) recover(ctx context.Context) (driver.Handle, error) {
	at := l.attempt()
	for _, h := range hooks { // those that only work out values; errors show when it is started again
		switch h.name {
		case "environment", "user", "config", "logs":
			_ = h.run(ctx, at)
		}
	}
	s := l.State()
	at.out.Launch = s.Launch // one that is not found by its number is not started any more
	return l.c.Driver.Recover(ctx, at.out, s.Handle)
}

// gone tells of a launch that cannot be found, or tries again.
func (l *loop) gone(ctx context.Context, err error, again func(context.Context)) {
	switch {
	case driver.Detaching(ctx):
	case errors.Is(err, driver.ErrReboot):
		l.post(Lost{Why: err.Error(), Reboot: true})
	case errors.Is(err, driver.ErrLost):
		l.post(Lost{Why: err.Error()})
	case errors.Is(err, driver.ErrUnknown):
		l.post(NotFound{})
	default:
		l.c.Log.Warn("what became of a task cannot be found out; trying again", "task", l.c.Name, "error", err)
		select {
		case <-time.After(time.Second):
			again(ctx)
		case <-ctx.Done():
		}
	}
}

// await waits for the end of the launch and posts Exited, or what gone makes of
// the error.
func (l *loop) await(ctx context.Context, h driver.Handle) {
	x, err := h.Wait(ctx)
	if err == nil {
		l.ended(h)
		l.post(Exited{*x})
		return
	}
	l.gone(ctx, err, func(ctx context.Context) { l.await(ctx, h) })
}

// stop asks until the driver has understood.
func (l *loop) stop(ctx context.Context, h driver.Handle, a DoStop) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := h.Stop(ctx, a.Signal, a.Timeout)
		if err == nil || ctx.Err() != nil || l.State().Phase != Stopping {
			return
		}
		l.c.Log.Warn("a task cannot be stopped; trying again", "task", l.c.Name, "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// release may fail: then the supervisor stays a little longer, and the next
// start or agent releases it.
func (l *loop) release(ctx context.Context, h driver.Handle, launch uint64) {
	if h == nil && l.c.Driver != nil {
		found, err := l.recover(ctx)
		if err != nil || found.Launch() != launch {
			return
		}
		h = found
	}
	if h == nil || h.Launch() != launch {
		return
	}
	if err := h.Release(ctx); err != nil {
		l.c.Log.Debug("an exit cannot be released", "task", l.c.Name, "error", err)
	}
}
