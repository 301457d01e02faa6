// Package finalize removes jobs that were deleted in the foreground when the
// last of what they own has gone. Everything it goes by stands in the state: the
// mark of such a job, and the counts of its allocations. So it remembers
// nothing, and a new leader goes on where the one before it was.
//
// It looks at the marked jobs alone, each at the cost of its groups, and of the
// resources that a stream job owns: those go before it (package submit). What a job
// owns is stopped by the evaluation that was raised with the mark; should that
// have been deleted by an operator, another one is raised here.
package finalize

import (
	"math/rand/v2"
	"time"

	"berth"
	"berth/state"
)

// Controller finishes deletions.
type Controller struct{ chance *rand.ChaCha8 }

// New returns the controller of a term. IDs come from the seed.
func New(seed [32]byte) *Controller { return &Controller{rand.NewChaCha8(seed)} }

// Watched is what can give the controller something to do: a mark is put with
// its job, and all that a job runs is counted.
func Watched() []state.WatchKey {
	return []state.WatchKey{state.OnTable(state.Jobs), state.OnTable(state.Summaries), state.OnTable(state.Resources)}
}

// Step implements leader.Controller.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	if !snap.Deleting() {
		return nil, time.Time{}
	}
	var free []state.JobRef
	var left []state.EvalFor
	for d := range snap.Deletions() {
		sum := snap.Summary(d.Key)
		switch {
		case snap.Blocking(d.Key, d.UID) == 0 && snap.Dependents(d.UID) == 0:
			free = append(free, state.JobRef{Key: d.Key, UID: d.UID})
		case sum != nil && sum.Live > 0 && sum.Open == 0:
			left = append(left, c.look(d))
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
	return do, time.Time{}
}

// look is an evaluation that stops what a job still runs.
func (c *Controller) look(d *state.JobDeletion) (e state.EvalFor) {
	c.chance.Read(e.ID[:])
	e.TriggeredBy, e.Cause, e.Key = berth.TriggerJobDeregister, berth.Cause{Kind: berth.CauseSystem}, d.Key
	return e
}
