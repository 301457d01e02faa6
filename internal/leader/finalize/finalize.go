// Package finalize removes jobs that were deleted in the foreground when the
// last of what they own has gone. Everything it goes by stands in the state: the
// mark of such a job, and the counts of its allocations. So it remembers
// nothing, and a new leader goes on where the one before it was.
//
// It looks at the marked jobs alone, each at the cost of its groups, and of the
// resources that a stream job owns: those go before it (package submit). What a job
// owns is stopped by the evaluation that was raised with the mark; should that
// have been deleted by an operator, another one is raised here.
//
// What a job left that is gone is stopped by the evaluation that was raised when
// it went. An audit looks every ten minutes whether there is anything that runs
// of such a job without one: whatever the reason is, it is not left running.
package finalize

import (
	"math/rand/v2"
	"time"

	"berth"
	"berth/internal/state"
)

// Controller finishes deletions.
type Controller struct {
	chance *rand.ChaCha8
	next   time.Time // when there is an audit
}

// audit is how long it is from one to the next.
const audit = 10 * time.Minute

// New returns the controller of a term. IDs come from the seed.
func New(seed [32]byte) *Controller { return &Controller{chance: rand.NewChaCha8(seed)} }

// Watched is what can give the controller something to do: a mark is put with
// its job, and all that a job runs is counted.
func Watched() []state.WatchKey {
	return []state.WatchKey{state.OnTable(state.Jobs), state.OnTable(state.Summaries), state.OnTable(state.Resources)}
}

// Step implements leader.Controller.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	left := c.strays(snap, now)
	var free []state.JobRef
	for d := range snap.Deletions() {
		sum := snap.Summary(d.Key)
		switch {
		case snap.Blocking(d.Key, d.UID) == 0 && snap.Dependents(d.UID) == 0:
			free = append(free, state.JobRef{Key: d.Key, UID: d.UID})
		case sum != nil && sum.Live > 0 && sum.Open == 0:
			left = append(left, c.look(d.Key))
		}
	}
	for len(free) > 0 {
		n := min(len(free), state.MaxFinalize)
		do = append(do, &state.FinalizeDeletions{Jobs: free[:n]})
		free = free[n:]
	}
	if len(left) > 0 {
		do = append(do, &state.CreateEvals{Evals: left, Now: now.UnixNano()})
	}
	return do, c.next
}

// look is an evaluation that stops what a job still runs, or what one left that
// is gone.
func (c *Controller) look(k berth.JobKey) (e state.EvalFor) {
	c.chance.Read(e.ID[:])
	e.TriggeredBy, e.Cause, e.Key, e.Left = berth.TriggerJobDeregister, berth.Cause{Kind: berth.CauseSystem}, k, true
	return e
}

// mostStrays is for how many jobs an audit raises evaluations at once.
const mostStrays = 1000

// strays returns, when it is time for an audit, evaluations for what runs of jobs
// that are gone and for which none is open. It goes through all allocations.
func (c *Controller) strays(snap *state.Snapshot, now time.Time) (out []state.EvalFor) {
	if c.next.IsZero() { // a term begins with more urgent things
		c.next = now.Add(audit)
	}
	if now.Before(c.next) {
		return nil
	}
	c.next = now.Add(audit)
	known := map[*berth.Job]bool{} // those that there are, and those that were looked at
	looked := map[berth.JobKey]bool{}
	for a := range snap.Allocs() {
		if known[a.Job] || !a.Live() || a.Orphaned {
			continue
		}
		known[a.Job] = true
		k := a.Key()
		if j := snap.Job(k); j != nil && j.UID == a.Job.UID || looked[k] || open(snap, k) {
			continue
		}
		looked[k] = true
		if out = append(out, c.look(k)); len(out) == mostStrays {
			c.next = now.Add(time.Second)
			break
		}
	}
	return out
}

// open says whether an evaluation of a job of that name is to be decided.
func open(snap *state.Snapshot, k berth.JobKey) bool {
	for range snap.OpenEvalsOf(k, berth.EvalPending) {
		return true
	}
	return false
}
