package invariant

import (
	"berth"
	"berth/internal/diff"
	"berth/internal/state"
)

// What changes a job over time, command by command: versions, deployments,
// launches and drains.

// version is one version of one incarnation of a job.
type version struct {
	uid    berth.UID
	number uint64
}

// changedVersion checks I-20 (a command makes one version at most, the next) and
// I-21 (a version becomes stable by hand or because its deployment was
// successful; a job goes back to a version that it had).
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
		f.addf("I-21", "version %d of job %s is stable, and none said so", new.Version, k)
	}
	if next && old != nil && (c.By == byRevert || c.By == byFailed || c.By == byHealth) && !f.had(new) {
		f.addf("I-21", "job %s went back to something that it never was, as version %d", k, new.Version)
	}
}

// had says whether an earlier version of the job asked for the same.
func (f *follower) had(j *berth.Job) bool {
	wants := asks(j)
	like := func(v *berth.Job) bool { return v.UID == j.UID && v.Version < j.Version && diff.Equal(asks(v), wants) }
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

// asks returns a job without what servers set.
func asks(j *berth.Job) *berth.Job {
	s := *j
	s.Stable, s.Version, s.VersionTag, s.SubmitTime = false, 0, nil, 0
	s.CreateIndex, s.ModifyIndex, s.JobModifyIndex, s.UID = 0, 0, 0, berth.UID{}
	if j.Type == berth.TypeStream { // which stops also when it begins anew
		s.Stop = false
	}
	s.EachPolicy(func(_ *berth.TaskGroup, _ *berth.Task, p *berth.ScalingPolicy) { *p = *p.Plain() })
	return &s
}

// changedDeployment checks the rest of I-25, see deploymentMoved, and of I-31.
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

// deploymentMoved checks of I-25 that a deployment which has ended stays as it
// ended, that what was promoted stays so, and that it follows its job forward.
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

// changedLaunch checks of I-23 that no time is decided twice, but where a clock
// that was wrong by far is put right, see [state.Launch.Ahead]; and that a job
// which prohibits overlap launches nothing beside what is not over, unless a user
// wants it, which leaves the times that are due alone.
func (f *follower) changedLaunch(c *state.Change, old, new *state.Summary) {
	if c.By != byLaunch || old == nil || new == nil || old.Launch == nil || new.Launch == nil {
		return
	}
	was, is := old.Launch, new.Launch
	if is.Due < was.Due && max(was.From, was.Due) <= is.Due+int64(state.WrongClock) {
		f.addf("I-23", "the launches of job %s were decided until %d, and are until %d", new.Key, was.Due, is.Due)
	}
	j := f.job(new.Key)
	if is.Index != c.Index || is.Due == was.Due || j == nil || j.Periodic == nil || !j.Periodic.ProhibitOverlap {
		return
	}
	if n := old.Children.Alive(); n > 0 {
		f.addf("I-23", "job %s prohibits overlap, and launched %q beside %d children that are not over", j.Key(), is.Child, n)
	}
}

// changedNode checks of I-29 that a drain is done when nothing is left that was
// to leave, and of I-31 that a node which goes is down and has nothing.
func (f *follower) changedNode(c *state.Change, old, new *berth.Node) {
	if new == nil {
		f.nodes[old.ID] = nil
		f.counted(c)
		if old.Status != berth.NodeDown {
			f.addf("I-31", "node %s was deleted while it was %s", old.ID, old.Status)
		}
		f.eachOn(old.ID, func(a *berth.Alloc) {
			f.addf("I-31", "node %s was deleted, where allocation %s is", old.ID, a.ID)
		})
		return
	}
	f.nodes[new.ID] = new
	if old == nil || !old.Draining() || new.Draining() || new.LastDrain == nil || new.LastDrain.Status != berth.DrainComplete {
		return
	}
	f.eachOn(new.ID, func(a *berth.Alloc) {
		stays := old.DrainStrategy.IgnoreSystemJobs && a.Job.Type == berth.TypeSystem
		// What is to stop on a node that is not heard ends when its agent hears of it.
		if !a.Ended() && !stays && (a.Wanted() || a.Client != berth.ClientUnknown) {
			f.addf("I-29", "the drain of node %s is done, and allocation %s is %s", new.ID, a.ID, a.Client)
		}
	})
}

// eachOn goes through the allocations that are on a node by now.
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

// deletedAlloc and the like check I-31: what runs or is open is not deleted.

func (f *follower) deletedAlloc(c *state.Change, a *berth.Alloc) {
	f.counted(c)
	if !a.Ended() {
		f.addf("I-31", "allocation %s was deleted while it was %s", a.ID, a.Client)
	}
}

func (f *follower) deletedEval(c *state.Change, e *berth.Eval) {
	f.counted(c)
	if !e.Terminal() {
		f.addf("I-31", "evaluation %s was deleted while it was %s", e.ID, e.Status)
	}
}

// counted counts a row that a command chose to delete. What goes with a job is
// not chosen.
func (f *follower) counted(c *state.Change) {
	if c.By == byDeletion {
		f.deleted[c.Index]++
	}
}

// deletions checks the rest of I-31: no command deletes too much at once, and
// a deployment that goes on goes with its job alone.
func (f *follower) deletions() {
	for index, n := range f.deleted {
		if n > state.MaxDeletes {
			f.addf("I-31", "%d rows were deleted at index %d; allowed are %d", n, index, state.MaxDeletes)
		}
	}
	for _, d := range f.dropped {
		if j := f.job(d.Key()); j != nil && j.UID == d.JobUID {
			f.addf("I-31", "deployment %s was deleted while it was %s", d.ID, d.Status)
		}
	}
}
