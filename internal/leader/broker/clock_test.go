package broker_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/state/statetest"
)

// An evaluation waits as long as it was meant to, also if the clock says that
// this is tomorrow: it was put back, or another server created the evaluation by
// a clock that is ahead.
func TestNoWaitIsLongerThanItWasMeant(t *testing.T) {
	created := time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what  string
		clock time.Duration // of the leader, when it learns of the evaluation
		wait  time.Duration
	}{
		{"the clock goes right", 0, time.Minute},
		{"some of the time has passed", 40 * time.Second, 20 * time.Second},
		{"the clock was put back a little", -time.Second, time.Minute},
		{"the clock was put back a day", -24 * time.Hour, time.Minute},
		{"the clock is ahead", time.Hour, 0},
	} {
		q, now := broker.NewQueue(broker.DefaultLimits), created.Add(c.clock)
		q.Add(&berth.Eval{
			ID: statetest.ID[berth.Eval](1), JobID: "web", Namespace: "default", Type: "service", Status: berth.EvalPending,
			CreateTime: created.UnixNano(), WaitUntil: created.Add(time.Minute).UnixNano(),
		}, now)
		next := q.Tick(now)
		if list := q.Next([]string{"service"}, 1, now); (c.wait == 0) != (len(list) == 1) || c.wait > 0 && next.Sub(now) != c.wait {
			t.Errorf("%s: it is due after %v, not %v", c.what, next.Sub(now), c.wait)
			continue
		}
		if c.wait > 0 {
			now = now.Add(c.wait)
			q.Tick(now)
			if len(q.Next([]string{"service"}, 1, now)) != 1 {
				t.Errorf("%s: it is not handed out when it is due", c.what)
			}
		}
	}
}
