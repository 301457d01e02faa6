package alloc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/supervise"
	"berth/internal/agent/task"
)

// What ends an allocation though nobody asked for it, and what keeps one from
// starting.

// The descriptions of allocations that ended, or wait, for such a reason. The
// first is what users know from Nomad.
const (
	maxRunOver = "allocation exceeded max_run_duration"
	cutOff     = "stopped: " + task.CutOffReason
	allPaused  = "Tasks are paused"
	waiting    = "waiting for preempted allocations to stop"
	unlinked   = "waiting for servers to say what it is connected with"
)

// limits orders the end of an allocation that has run for as long as it may,
// or has been without servers for as long as it may, and returns when the next
// of that comes about; zero is never. The caller holds mu.
func (r *Runner) limits(now time.Time) (again time.Time) {
	g := r.alloc.Job.Group(r.alloc.TaskGroup)
	if d := g.MaxRunDuration; d > 0 {
		if at := r.begun(now).Add(d); now.Before(at) {
			again = at
		} else {
			r.order(task.Kill{Event: berth.EventMaxRunDuration, Reason: fmt.Sprintf("the allocation may run for %v, its max_run_duration", d)})
		}
	}
	if d := g.StopAway(); d > 0 && r.c.Contact != nil {
		contact, _ := r.c.Contact()
		if at := contact.Add(d); now.Before(at) {
			again = sooner(again, at)
		} else {
			// Its replacement elsewhere may start now, so there is no time left
			// for a shutdown delay.
			r.order(task.Kill{Event: berth.EventCutOff, NoDelay: true, Reason: fmt.Sprintf("no server was reached for %v, its stop_on_client_after", d)})
		}
	}
	return again
}

// runUntil returns until when the tasks may run if no server is reached any
// more; zero is without limit. own reports whether that follows from a contact
// of this agent.
func (r *Runner) runUntil() (until time.Time, own bool) {
	r.mu.Lock()
	d := r.alloc.Job.Group(r.alloc.TaskGroup).StopAway()
	r.mu.Unlock()
	if d == 0 || r.c.Contact == nil {
		return time.Time{}, true
	}
	contact, own := r.c.Contact()
	return contact.Add(d), own
}

// keepLease tells the supervisor until when the tasks may run, whenever that
// has changed, until ctx ends. So they are stopped in time even if the agent is
// frozen or dead by then.
func (r *Runner) keepLease(ctx context.Context, sup *supervise.Dir) {
	var told time.Time
	for {
		until, own := r.runUntil()
		var again <-chan time.Time
		if !until.IsZero() || !told.IsZero() {
			// Tasks of other drivers have no supervisor; one that starts is told
			// with its first task. One that an earlier agent told knows better
			// than an agent that has not reached servers yet.
			if own && !until.Equal(told) && sup.Extend(ctx, until) == nil {
				told = until
			}
			again = time.After(min(max(time.Until(until)/4, leaseMin), leaseMax))
		}
		select {
		case <-again:
		case <-r.updated:
		case <-ctx.Done():
			return
		}
	}
}

// The shortest and longest time between two looks at the lease.
const (
	leaseMin = 100 * time.Millisecond
	leaseMax = 5 * time.Second
)

// begun returns when the agent took up the allocation, now if it is about to.
// It counts from there whatever tasks do, so that one that never gets to run
// ends too.
func (r *Runner) begun(now time.Time) time.Time {
	first := now
	for _, t := range r.tasks {
		if b := t.State().Begun; !b.IsZero() && b.Before(first) {
			first = b
		}
	}
	return first
}

// sooner returns the earlier of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// admit lets the tasks be started when nothing is left on this node of what was
// preempted for them. Until then they wait, and can be stopped.
func (r *Runner) admit() {
	select {
	case <-r.ready:
		return
	default:
	}
	r.mu.Lock()
	a := r.alloc
	r.mu.Unlock()
	var rest []berth.AllocID
	ok := len(a.PreemptedAllocations) == 0 || r.c.Preempted == nil
	if !ok {
		rest, ok = r.c.Preempted(a)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = !ok && len(rest) > 0
	if ok && r.stream.known() {
		close(r.ready) // only Run's goroutine does
		r.askAgain()
		return
	}
	if !r.waits {
		return
	}
	var names []string
	for _, id := range rest {
		names = append(names, id.Short())
	}
	for i, t := range r.tasks {
		// When it has taken the task up, and once: each event of a task brings
		// us here again.
		if n := r.names[i]; !r.told[n] && t.State().Phase != task.Pending {
			r.told[n] = true
			t.Note(berth.EventWaiting, "Waiting for preempted allocations to stop: "+strings.Join(names, ", "))
		}
	}
}

// because returns why an allocation ended, or does not start, where that is not
// plain from its tasks' states; "" if it is.
func (r *Runner) because(s berth.ClientStatus) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case s == berth.ClientPending && r.waits:
		return waiting
	case s == berth.ClientPending && !r.stream.known():
		return unlinked
	case s == berth.ClientPending && slices.ContainsFunc(r.tasks, func(t *task.Runner) bool { return t.State().Phase == task.Paused }):
		return allPaused
	case s != berth.ClientComplete:
		return ""
	}
	for _, t := range r.tasks {
		if k := t.State().Kill; k != nil {
			switch k.Event {
			case berth.EventMaxRunDuration:
				return maxRunOver
			case berth.EventCutOff:
				return cutOff
			}
		}
	}
	return ""
}
