// Package finalize removes jobs that were deleted in the foreground, once
// everything that they own is gone: allocations, objects of stream jobs, and the
// children of periodic and parameterized jobs, which it deletes in the foreground
// as well. All that it needs is in the state: the deletion mark of a job and the
// counts of its allocations. So it remembers nothing, and a new leader continues
// where the last one stopped.
//
// It looks only at marked jobs. Each costs as much as it has groups and, for a
// stream job, resources; those are deleted first (package submit). The
// evaluation that was raised with the mark stops what a job runs. If an
// operator deleted that evaluation, another one is raised here.
//
// The evaluation that was raised when a job was deleted stops what the job left
// behind. Every ten minutes an audit looks for allocations of deleted jobs
// without such an evaluation, so that nothing is left running, whatever the
// reason.
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
	next   time.Time // time of the next audit
}

// audit is the interval between two audits.
const audit = 10 * time.Minute

// New returns the controller of a term. IDs come from the seed.
func New(seed [32]byte) *Controller { return &Controller{chance: rand.NewChaCha8(seed)} }

// Watched returns the keys whose change can give the controller something to
// do: the mark is stored with its job, and the summary counts everything that a
// job runs.
func Watched() []state.WatchKey {
	return []state.WatchKey{state.OnTable(state.Jobs), state.OnTable(state.Summaries), state.OnTable(state.Resources)}
}

// mostChildren is the number of children whose deletion one step begins.
const mostChildren = 100

// children returns how many children hold a job that is deleted, and commands
// that delete those which are not being deleted yet: in the foreground, too, so
// that their allocations end before them, unless the job is deleted by force.
func (c *Controller) children(snap *state.Snapshot, d *state.JobDeletion, now time.Time) (n int, do []state.Command) {
	for _, j := range snap.ChildrenOfIncarnation(d.Key, d.UID) {
		n++
		if was := snap.Deletion(j.Key()); len(do) == mostChildren || was != nil && (was.Deletion.Force || !d.Deletion.Force) {
			continue
		}
		x := &state.DeleteJob{Key: j.Key(), UID: j.UID, Policy: berth.Foreground, Force: d.Deletion.Force, Intent: berth.IntentUser, Now: now.UnixNano()}
		c.chance.Read(x.Eval.ID[:])
		x.Eval.TriggeredBy, x.Eval.Cause = berth.TriggerJobDeregister, berth.Cause{Kind: berth.CauseSystem, Request: d.Deletion.Cause.Request}
		do = append(do, x)
	}
	return n, do
}

// Step implements leader.Controller.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	left := c.strays(snap, now)
	var free []state.JobRef
	for d := range snap.Deletions() {
		sum := snap.Summary(d.Key)
		children, unmarked := c.children(snap, d, now)
		do = append(do, unmarked...)
		switch {
		case snap.Blocking(d.Key, d.UID) == 0 && snap.Dependents(d.UID) == 0 && children == 0:
			free = append(free, state.JobRef{Key: d.Key, UID: d.UID})
		case sum != nil && sum.Live > 0 && sum.Open == 0:
			left = append(left, c.stopEval(d.Key))
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

// stopEval returns an evaluation that stops what a job still runs, or what a
// deleted job left behind.
func (c *Controller) stopEval(k berth.JobKey) (e state.EvalFor) {
	c.chance.Read(e.ID[:])
	e.TriggeredBy, e.Cause, e.Key, e.Left = berth.TriggerJobDeregister, berth.Cause{Kind: berth.CauseSystem}, k, true
	return e
}

// mostStrays is the number of jobs for which an audit raises evaluations at once.
const mostStrays = 1000

// strays returns, when an audit is due, evaluations for allocations of deleted
// jobs that have no open evaluation. It goes through all allocations.
func (c *Controller) strays(snap *state.Snapshot, now time.Time) (out []state.EvalFor) {
	if c.next.IsZero() { // more urgent work comes first in a new term
		c.next = now.Add(audit)
	}
	if now.Before(c.next) {
		return nil
	}
	c.next = now.Add(audit)
	known := map[*berth.Job]bool{} // existing jobs and jobs that were looked at
	looked := map[berth.JobKey]bool{}
	for a := range snap.Allocs() {
		if known[a.Job] || !a.Live() || a.Orphaned {
			continue
		}
		// Allocations share their job, so each job is looked at once.
		known[a.Job] = true
		k := a.Key()
		if j := snap.Job(k); j != nil && j.UID == a.Job.UID || looked[k] || open(snap, k) {
			continue
		}
		looked[k] = true
		// The rest follows soon, not in one large command.
		if out = append(out, c.stopEval(k)); len(out) == mostStrays {
			c.next = now.Add(time.Second)
			break
		}
	}
	return out
}

// open reports whether a pending evaluation exists for a job of that name.
func open(snap *state.Snapshot, k berth.JobKey) bool {
	for range snap.OpenEvalsOf(k, berth.EvalPending) {
		return true
	}
	return false
}
