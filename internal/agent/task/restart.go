package task

import (
	"fmt"
	"time"

	"berth"
)

// Window counts restarts in the interval of a restart policy. An interval
// begins with the first restart after the last one ended.
type Window struct {
	Start time.Time `json:",omitzero"`
	Count int       `json:",omitempty"`
}

// Next reports whether a task that failed now may be started again, after which
// delay, and why or why not.
func (w Window) Next(p *berth.RestartPolicy, now time.Time, chance float64) (next Window, delay time.Duration, ok bool, why string) {
	// A clock that was set back does not make the interval longer than it is.
	if w.Count == 0 || !now.Before(w.Start.Add(p.Interval)) || now.Before(w.Start) {
		w = Window{Start: now}
	}
	if w.Count < p.Attempts {
		w.Count++
		return w, p.Delay + time.Duration(chance*float64(p.Delay)/4), true, "restart within policy"
	}
	// The words are those that scripts for Nomad look for.
	limit := fmt.Sprintf("Exceeded allowed attempts %d in interval %v and mode is %q", p.Attempts, p.Interval, p.Mode)
	switch {
	case p.Mode == berth.RestartDelay:
		return w, w.Start.Add(p.Interval).Sub(now), true, limit
	case p.Attempts == 0:
		return w, 0, false, "Policy allows no restarts"
	}
	return w, 0, false, limit
}

// longestDelay returns the longest delay that Next can return for the policy.
func longestDelay(p *berth.RestartPolicy) time.Duration {
	longest := p.Delay + p.Delay/4
	if p.Mode == berth.RestartDelay {
		longest = max(longest, p.Interval)
	}
	return longest
}
