package invariant

import (
	"time"

	"berth"
	"berth/internal/state"
)

// Scheduled returns the violations in a snapshot whose plans all came from
// schedulers, nil if there are none. The log takes plans from nobody else but
// does not judge them, so tests that make random plans use [Check] alone.
// Scheduled checks I-16 and the rest of I-25 (for a surplus there is an
// evaluation), the rest of I-17 (policies hold over whole chains), the rest of
// I-19 (what finished does not run again) and I-27. It assumes that the
// servers' clocks agree.
func Scheduled(s *state.Snapshot) []Violation {
	c := &scheduled{checker: checker{Snapshot: s}, open: map[berth.JobKey]bool{}, steps: map[step]int{}, done: map[run]*berth.Alloc{}}
	for _, status := range []string{berth.EvalPending, berth.EvalBlocked} {
		for e := range s.OpenEvals(status) {
			c.open[e.Key()] = true
		}
	}
	for a := range s.Allocs() { // oldest first
		c.surplus(a)
		c.unproven(a)
		c.again(a)
	}
	for d := range s.Deployments() {
		c.goesOn(d)
	}
	for r := range s.AllReschedules() {
		c.attempts(r)
	}
	return c.found
}

type scheduled struct {
	checker
	// open are the jobs with a pending or blocked evaluation. It also handles
	// what is left of earlier jobs of that name.
	open  map[berth.JobKey]bool
	steps map[step]int         // number of allocations without a health report
	done  map[run]*berth.Alloc // the first allocation that finished
}

// step is a group in a deployment.
type step struct {
	id    berth.DeploymentID
	group string
}

// run is an instance of one version of a batch job.
type run struct {
	version
	group string
	index uint32
	node  berth.NodeID // of a job that runs on every node
}

// surplus checks I-16: an allocation that must run is an instance that its job
// has now, or the job has an open evaluation.
func (c *scheduled) surplus(a *berth.Alloc) {
	if !a.Live() || a.Orphaned || c.open[a.Key()] {
		return
	}
	j := c.Job(a.Key())
	switch {
	case j == nil || j.UID != a.Job.UID || j.Stop:
		c.addf("I-16", "allocation %s of job %s must run, but the job is stopped or deleted and has no evaluation", a.ID, a.Key())
	case j.Group(a.Group.Name) == nil || int(a.Index) >= j.Group(a.Group.Name).Count:
		c.addf("I-16", "allocation %s must run, but its job has no %s any more and no evaluation", a.ID, a.Name())
	}
}

// unproven checks I-27: of the allocations that a deployment placed in place of
// an older version, no more than max_parallel per group have no health report
// at a time. Canaries and allocations placed for other reasons do not count.
// Nor do those that an earlier version had stopped and could not place again,
// which requires a version in between.
func (c *scheduled) unproven(a *berth.Alloc) {
	m := a.Rest()
	if !a.Live() || m.DeploymentID.IsZero() || a.Job.PerNode() || m.DeploymentStatus != nil && (m.DeploymentStatus.Canary || m.DeploymentStatus.Healthy != nil) {
		return
	}
	d, p := c.Deployment(m.DeploymentID), c.Alloc(m.Previous)
	if d == nil || !d.Active() || p == nil || a.CreateIndex < d.CreateIndex || p.Rest().StopReason != berth.StopReplaced || p.Job.Version+1 < d.JobVersion {
		return
	}
	k := step{d.ID, a.Group.Name}
	c.steps[k]++
	if u := a.Group.Update; u != nil && u.MaxParallel > 0 && c.steps[k] == u.MaxParallel+1 {
		c.addf("I-27", "deployment %s replaced more allocations of group %q than the %d that may be without a health report", d.ID, a.Group.Name, u.MaxParallel)
	}
}

// again checks I-19: what finished is not run again for its version. An
// allocation that was changed after that may have run beside it and finished
// later.
func (c *scheduled) again(a *berth.Alloc) {
	if !a.Job.Finite(a.Group) || a.Orphaned {
		return
	}
	k := run{version{a.Job.UID, a.Job.Version}, a.Group.Name, a.Index, berth.NodeID{}}
	if a.Job.PerNode() {
		k.node = a.NodeID
	}
	if b := c.done[k]; b != nil && b.ModifyIndex <= a.CreateIndex {
		c.addf("I-19", "allocation %s runs %s of version %d again, though %s finished", a.ID, a.Name(), a.Job.Version, b.ID)
	}
	if a.Wanted() && a.Client == berth.ClientComplete && c.done[k] == nil {
		c.done[k] = a
	}
}

// goesOn checks I-25: an active deployment is for the newest version of a
// running job, or the job has an open evaluation that will end it.
func (c *scheduled) goesOn(d *berth.Deployment) {
	j := c.Job(d.Key())
	if !d.Active() || j == nil || c.open[d.Key()] {
		return
	}
	if j.Stop || j.Version != d.JobVersion {
		c.addf("I-25", "deployment %s is %s for version %d of job %s, which is stopped or at version %d and has no evaluation", d.ID, d.Status, d.JobVersion, d.Key(), j.Version)
	}
}

// attempts checks I-17: a failed instance was not replaced more often than its
// policy allows within any interval, however long the chain is. Replacements
// under an earlier version followed another policy, and those that a user or a
// deployment wanted follow none. If the allocation was collected, the reason is
// unknown.
func (c *scheduled) attempts(r *state.Reschedules) {
	j := c.Job(r.Job)
	if j == nil || j.UID != r.UID || j.Group(r.Group) == nil {
		return
	}
	p := j.Group(r.Group).ReschedulePolicy
	if !p.Enabled() || p.Unlimited {
		return
	}
	var at []int64
	for _, e := range r.Events {
		prev := c.Alloc(e.PrevAllocID)
		if e.RescheduleTime <= j.SubmitTime || prev == nil || prev.Rest().ForceReschedule || prev.Rest().Reschedule {
			continue
		}
		at = append(at, e.RescheduleTime)
		if n := len(at) - p.Attempts - 1; n >= 0 && time.Duration(e.RescheduleTime-at[n]) < p.Interval {
			c.addf("I-17", "%s was replaced more than %d times within %s", berth.AllocName(r.Job.ID, r.Group, r.Index), p.Attempts, p.Interval)
			return
		}
	}
}
