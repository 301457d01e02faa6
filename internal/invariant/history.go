package invariant

import (
	"berth"
	"berth/internal/diff"
	"berth/internal/state"
)

// Changes of a job over time, command by command: versions, deployments,
// launches and drains.

// version is one version of an incarnation of a job.
type version struct {
	uid    berth.UID
	number uint64
}

// changedVersion checks I-20 (a command creates at most one version, the next)
// and I-21 (a version becomes stable by hand or by its successful deployment; a
// job is reverted only to a version that it had).
func (f *follower) changedVersion(c *state.Change, old, new *berth.Job) {
	k := new.Key()
	if old != nil {
		f.past[k] = append(f.past[k], old)
	}
	next := old == nil || old.UID != new.UID || old.Version != new.Version
	if next && old != nil && old.UID == new.UID {
		if at, ok := f.grew[k]; new.Version != old.Version+1 || ok && at == c.Index {
			f.addf("I-20", "job %s went from version %d to %d", k, old.Version, new.Version)
		}
		f.grew[k] = c.Index
	}
	if new.Stable && (next || !old.Stable) && c.By != byHand && c.By != byFinalize && !f.succeeded[version{new.UID, new.Version}] {
		f.addf("I-21", "version %d of job %s is stable without a reason", new.Version, k)
	}
	if next && old != nil && (c.By == byRevert || c.By == byFailed || c.By == byHealth) && !f.had(new) {
		f.addf("I-21", "job %s was reverted to something that it never was, as version %d", k, new.Version)
	}
}

// had reports whether an earlier version of the job asked for the same.
func (f *follower) had(j *berth.Job) bool {
	wants := userPart(j)
	like := func(v *berth.Job) bool {
		return v.UID == j.UID && v.Version < j.Version && diff.Equal(userPart(v), wants)
	}
	for _, v := range f.past[j.Key()] {
		if like(v) {
			return true
		}
	}
	for v := range f.base.JobVersions(j.Key()) {
		if like(v) {
			return true
		}
	}
	return false
}

// userPart returns a job without the fields that servers set.
func userPart(j *berth.Job) *berth.Job {
	s := *j
	s.Stable, s.Version, s.VersionTag, s.SubmitTime = false, 0, nil, 0
	s.CreateIndex, s.ModifyIndex, s.JobModifyIndex, s.UID = 0, 0, 0, berth.UID{}
	if j.Type == berth.TypeStream { // a stream job is also stopped while it starts again
		s.Stop = false
	}
	s.EachPolicy(func(_ *berth.TaskGroup, _ *berth.Task, p *berth.ScalingPolicy) { *p = *p.Plain() })
	return &s
}

// changedDeployment checks the rest of I-25 (see deploymentMoved) and of I-31.
func (f *follower) changedDeployment(c *state.Change, old, new *berth.Deployment) {
	switch {
	case new == nil:
		if old.Active() {
			f.dropped = append(f.dropped, old)
		}
		return
	case new.Status == berth.DeploymentSuccessful:
		f.succeeded[version{new.JobUID, new.JobVersion}] = true
	}
	if old != nil {
		deploymentMoved(old, new, f.addf)
	}
}

// deploymentMoved checks I-25: an ended deployment keeps its status, a promoted
// group stays promoted, and a deployment follows its job only to newer
// versions.
func deploymentMoved(old, new *berth.Deployment, addf func(id, format string, args ...any)) {
	switch {
	case !old.Active() && new.Status != old.Status:
		addf("I-25", "deployment %s went from %s to %s", new.ID, old.Status, new.Status)
	case new.JobUID != old.JobUID || new.JobVersion < old.JobVersion:
		addf("I-25", "deployment %s went from version %d to %d of job %s", new.ID, old.JobVersion, new.JobVersion, new.Key())
	}
	for name, s := range old.TaskGroups {
		if n := new.TaskGroups[name]; s.Promoted && (n == nil || !n.Promoted) {
			addf("I-25", "group %q of deployment %s is not promoted any more", name, new.ID)
		}
	}
}

// changedLaunch checks I-23: no launch time is decided twice, unless a clock
// that was wrong by far was corrected (see [state.Launch.Ahead]). A job that
// prohibits overlap launches nothing while a child is running, unless a user
// forces it, which does not affect the launch times.
func (f *follower) changedLaunch(c *state.Change, old, new *state.Summary) {
	if c.By != byLaunch || old == nil || new == nil || old.Launch == nil || new.Launch == nil {
		return
	}
	was, is := old.Launch, new.Launch
	if is.Due < was.Due && max(was.From, was.Due) <= is.Due+int64(state.WrongClock) {
		f.addf("I-23", "the launches of job %s were decided until %d, and now only until %d", new.Key, was.Due, is.Due)
	}
	j := f.job(new.Key)
	if is.Index != c.Index || is.Due == was.Due || j == nil || j.Periodic == nil || !j.Periodic.ProhibitOverlap {
		return
	}
	if n := old.Children.Alive(); n > 0 {
		f.addf("I-23", "job %s prohibits overlap, but launched %q while %d children are running", j.Key(), is.Child, n)
	}
}

// changedNode checks I-29 (a drain is complete only when nothing is left that
// had to leave) and I-31 (a node is deleted only when it is down and empty).
func (f *follower) changedNode(c *state.Change, old, new *berth.Node) {
	if new == nil {
		f.nodes[old.ID] = nil
		f.counted(c)
		if old.Status != berth.NodeDown {
			f.addf("I-31", "node %s was deleted while it was %s", old.ID, old.Status)
		}
		f.eachOn(old.ID, func(a *berth.Alloc) {
			f.addf("I-31", "node %s was deleted, but allocation %s is on it", old.ID, a.ID)
		})
		return
	}
	f.nodes[new.ID] = new
	if old == nil || !old.Draining() || new.Draining() || new.LastDrain == nil || new.LastDrain.Status != berth.DrainComplete {
		return
	}
	f.eachOn(new.ID, func(a *berth.Alloc) {
		stays := old.DrainStrategy.IgnoreSystemJobs && a.Job.Type == berth.TypeSystem
		// An allocation that must stop on a silent node ends when its agent is
		// back.
		if !a.Ended() && !stays && (a.Wanted() || a.Client != berth.ClientUnknown) {
			f.addf("I-29", "the drain of node %s is complete, but allocation %s is %s", new.ID, a.ID, a.Client)
		}
	})
}

// eachOn calls yield with the allocations that are on a node after the current
// change.
func (f *follower) eachOn(id berth.NodeID, yield func(*berth.Alloc)) {
	for a := range f.base.AllocsOn(id) {
		if _, changed := f.allocs[a.ID]; !changed {
			yield(a)
		}
	}
	for _, a := range f.allocs {
		if a != nil && a.NodeID == id {
			yield(a)
		}
	}
}

// deletedAlloc and the functions below check I-31: nothing that runs or is open
// is deleted.

// deletedAlloc checks that only ended allocations are deleted.
func (f *follower) deletedAlloc(c *state.Change, a *berth.Alloc) {
	f.counted(c)
	if !a.Ended() {
		f.addf("I-31", "allocation %s was deleted while it was %s", a.ID, a.Client)
	}
}

// deletedEval checks that only ended evaluations are deleted.
func (f *follower) deletedEval(c *state.Change, e *berth.Eval) {
	f.counted(c)
	if !e.Terminal() {
		f.addf("I-31", "evaluation %s was deleted while it was %s", e.ID, e.Status)
	}
}

// counted counts a row that a command chose to delete. Rows that are deleted
// with a job are not chosen.
func (f *follower) counted(c *state.Change) {
	if c.By == byDeletion {
		f.deleted[c.Index]++
	}
}

// deletions checks the rest of I-31: no command deletes too much at once, and
// an active deployment is deleted only with its job.
func (f *follower) deletions() {
	for index, n := range f.deleted {
		if n > state.MaxDeletes {
			f.addf("I-31", "%d rows were deleted at index %d: at most %d may be", n, index, state.MaxDeletes)
		}
	}
	for _, d := range f.dropped {
		if j := f.job(d.Key()); j != nil && j.UID == d.JobUID {
			f.addf("I-31", "deployment %s was deleted while it was %s", d.ID, d.Status)
		}
	}
}
