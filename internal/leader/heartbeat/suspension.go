package heartbeat

import (
	"time"

	"golang.org/x/sys/unix"
)

// A machine can stand still: the lid of a laptop is closed, a virtual machine is
// paused, a process is stopped. A server on it hears no heartbeat in that time,
// and a node on the same machine sends none, so the time must not count against
// the nodes. Two clocks show it. A loop that should run every second finds that
// more time has passed, which shows a process that was stopped. And the clock
// that goes on while a machine sleeps has left the one behind that does not.

const (
	// tick is how often the monitor looks at the clocks.
	tick = time.Second
	// late is how much later than that it may look before the time between
	// counts as a suspension. A busy machine is often late by less.
	late = time.Second
)

// Clock is the time as a monitor sees it.
type Clock interface {
	// Now returns the time. Its monotonic part goes on while the process is
	// stopped, and stands still while the machine sleeps.
	Now() time.Time
	// Asleep returns for how long the machine has slept since it was started.
	Asleep() time.Duration
}

// SystemClock is the clock of the operating system.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// Asleep implements Clock. Without the two clocks it returns 0.
func (SystemClock) Asleep() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}

// presence knows when this process was last running.
type presence struct {
	last   time.Time
	asleep time.Duration
}

// absence returns for how long nothing can have been heard since the last call,
// 0 if this process was running: stopped is the part that the clock counted,
// slept the part that it did not.
func (p *presence) absence(now time.Time, asleep time.Duration) (stopped, slept time.Duration) {
	was := *p
	*p = presence{now, asleep}
	if was.last.IsZero() {
		return 0, 0
	}
	if d := now.Sub(was.last) - tick; d >= late {
		stopped = d
	}
	if d := asleep - was.asleep; d >= late {
		slept = d
	}
	return stopped, slept
}

// returned gives all nodes back the time for which this process was not running.
// After a long absence their connections are broken, so they get as much time
// to come back as when a term begins. The lock is held.
func (m *Monitor) returned(now time.Time) {
	stopped, slept := m.presence.absence(now, m.clock.Asleep())
	if stopped+slept == 0 {
		return
	}
	m.Logger.Warn("this server was suspended; the time does not count as silence of the nodes", "for", (stopped + slept).Round(time.Millisecond))
	var least time.Time
	if stopped+slept >= m.opts.Grace {
		least = now.Add(m.patience(len(m.deadlines.byNode)))
	}
	m.deadlines.shift(stopped, least)
	m.limiter.postpone(now)
	m.failover.unheard = nil
}

// shift moves all deadlines by d, and to least if they would be before it.
func (c *deadlines) shift(d time.Duration, least time.Time) {
	for _, x := range c.items {
		x.at = x.at.Add(d)
		// Equal times stay in order, so the heap is one still.
		if x.at.Before(least) {
			x.at = least
		}
	}
}
