package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/internal/rest"
)

// outgoing is what to send to servers next.
type outgoing struct {
	send  func(context.Context) error // nil: nothing now
	what  string                      // for the log, with how many there are
	count int
	next  time.Time // without send: when there may be something, zero if only a wake says so
}

// keepReporting sends servers what next returns, until ctx ends. It calls next
// when it is woken, at the time that next gave, and after everything that was
// sent. What fails is tried again for ever, at growing intervals.
func (a *Agent) keepReporting(ctx context.Context, wake <-chan struct{}, next func(now time.Time) outgoing) error {
	select { // before, servers would not know whose they are
	case <-a.registered:
	case <-ctx.Done():
		return ctx.Err()
	}
	for failures := 0; ; {
		// Asked again after every failure: what is to be sent may have changed.
		n := next(time.Now())
		if n.send == nil {
			if err := await(ctx, wake, n.next); err != nil {
				return err
			}
			continue
		}
		err := n.send(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			a.log.Warn("servers do not take "+n.what+"; trying again", n.what, n.count, "error", err)
			if err := backoff(ctx, failures, firstRetry, lastRetry); err != nil {
				return err
			}
			failures++
			continue
		}
		failures = 0
		if err := rest.For(ctx, reportEvery); err != nil {
			return err
		}
	}
}

// await waits for a wake, until a time that is not zero, or until ctx ends.
func await(ctx context.Context, wake <-chan struct{}, until time.Time) error {
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-wake:
		return nil
	case <-alarm:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff waits before the nth try in a row: longer each time, up to most, and
// never at the same moment as other agents. It returns ctx's error if that
// ends first.
func backoff(ctx context.Context, n int, first, most time.Duration) error {
	d := most
	if n < 20 {
		d = min(most, first<<n)
	}
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
