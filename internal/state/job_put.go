package state

import (
	"fmt"

	"berth"
	"berth/internal/state/codec"
	"berth/internal/validate"
)

// putJob stores a job as the newest version. old is the row it replaces, or
// nil.
func (tx *Tx) putJob(old, j *berth.Job) {
	t := &tx.jobs
	if old == nil {
		slot := t.insert(tx, j)
		t.byKey.Add(tx.edit, jobKey(j.Key()), slot)
		// A new job has a summary from the start: readers rely on it.
		s := &Summary{Key: j.Key(), UID: j.UID, Created: tx.Index, Changed: tx.Index}
		t.summaries.Set(tx.edit, slot, s)
		t.summaryChanged = tx.Index
		tx.note(Summaries, nil, s)
		if j.PerNode() {
			t.perNode.Add(tx.edit, jobKey(j.Key()), slot)
		}
		tx.listScaled(nil, j, slot)
		tx.relate(j, slot, s)
	} else {
		slot, _ := t.byKey.First(jobKey(j.Key()))
		t.set(tx, slot, j)
		tx.listScaled(old, j, slot)
	}
	// What depends on the newest version follows it.
	tx.putVersion(j)
	tx.mergeIntoDeployment(old, j)
	tx.updateRelatives(old, j)
	tx.touchStream(j.UID)
	tx.countQuotaJob(old, j)
	tx.note(Jobs, anyOrNil(old), j)
}

// putVersion adds j to the history, and drops older untagged versions if there
// are too many.
func (tx *Tx) putVersion(j *berth.Job) {
	t := &tx.jobs
	vk := versionKey(j.Key(), j.Version)
	if slot, ok := t.byVersion.First(vk); ok {
		t.versions.set(tx, slot, j)
		return
	}
	t.byVersion.Add(tx.edit, vk, t.versions.insert(tx, j))
	tx.forgetVersions(j.Key())
}

// forgetVersions drops the oldest untagged versions of a job if there are too
// many. It keeps the newest version, and the newest stable one before it: a
// deployment that fails reverts the job to that one.
func (tx *Tx) forgetVersions(k berth.JobKey) {
	newest := tx.Job(k)
	var stable *berth.Job
	if tx.KeepsStable() {
		stable = tx.stableBefore(newest)
	}
	var plain []*berth.Job
	row := tx.StreamOf(k)
	for v := range tx.JobVersions(k) {
		if v.VersionTag == nil && !(row != nil && row.Plan != nil && v.Version == row.Version) { // the version that is placed
			plain = append(plain, v)
		}
	}
	kept, _ := tx.TrackedVersions()
	surplus := len(plain) - kept
	for _, v := range plain {
		if surplus > 0 && v != stable && v.Version != newest.Version {
			tx.dropVersion(v)
			surplus--
		}
	}
}

// stableSince is the log version since which a job keeps the newest stable
// version before its newest.
const stableSince = 11

// KeepsStable reports whether a job keeps the newest stable version before its
// newest, however many versions follow it.
func (s *Snapshot) KeepsStable() bool { return s.LogVersion >= stableSince }

// dropVersion deletes a stored version of a job, and the job source kept with
// it. Allocations of the version keep the row alive.
func (tx *Tx) dropVersion(j *berth.Job) {
	t, vk := &tx.jobs, versionKey(j.Key(), j.Version)
	if slot, ok := t.byVersion.First(vk); ok {
		t.byVersion.Remove(tx.edit, vk, slot)
		t.versions.remove(tx, slot)
	}
	if slot, ok := t.bySubmit.First(vk); ok {
		t.bySubmit.Remove(tx.edit, vk, slot)
		t.submitted.remove(tx, slot)
	}
}

// putSubmission stores the job source of a version, replacing the one it has.
// The version itself need not be stored yet.
func (tx *Tx) putSubmission(sub *Submission) {
	t, vk := &tx.jobs, versionKey(sub.Key, sub.Version)
	if slot, ok := t.bySubmit.First(vk); ok {
		t.submitted.set(tx, slot, sub)
		return
	}
	t.bySubmit.Add(tx.edit, vk, t.submitted.insert(tx, sub))
}

// removeJob deletes a job with everything that belongs to it, except its
// allocations and evaluations, which end on their own.
func (tx *Tx) removeJob(j *berth.Job) {
	tx.trace(j.Key())
	t := &tx.jobs
	// Collect before deleting: the index must not change while it is read.
	var versions []*berth.Job
	for v := range tx.JobVersions(j.Key()) {
		versions = append(versions, v)
	}
	for _, v := range versions {
		tx.dropVersion(v)
	}
	slot, _ := t.byKey.First(jobKey(j.Key()))
	t.byKey.Remove(tx.edit, jobKey(j.Key()), slot)
	if j.PerNode() {
		t.perNode.Remove(tx.edit, jobKey(j.Key()), slot)
	}
	tx.listScaled(j, nil, slot)
	tx.countQuotaJob(t.vec.Get(slot), nil)
	if t.scalings.Get(slot) != nil {
		t.scalings.Set(tx.edit, slot, nil)
	}
	// Its parent and children must not count it any more.
	tx.unrelate(j, slot, t.summaries.Get(slot))
	delete(tx.counting, slot) // counts that the end of its children changed
	tx.note(Summaries, t.summaries.Get(slot), nil)
	t.summaries.Set(tx.edit, slot, nil)
	t.summaryChanged = tx.Index
	t.remove(tx, slot)
	// Rows that make no sense without the job. Allocations and evaluations stay
	// until they are collected.
	tx.dropReschedules(j)
	tx.dropClaimsOf(j.Key())
	tx.dropDeployments(j)
	tx.dropMark(j.Key())
	tx.note(Jobs, j, nil)
	if j.Type == berth.TypeStream {
		tx.leaveStream(j)
	}
}

// following makes j the next version of old, nil if there is none. If j has the
// same specification as old, there is no new version; only ModifyIndex changes.
func (tx *Tx) following(old, j *berth.Job, now int64) {
	j.Stable, j.VersionTag = false, nil
	j.SubmitTime, j.ModifyIndex, j.JobModifyIndex = now, tx.Index, tx.Index
	tx.adoptPolicies(old, j)
	switch {
	case old == nil:
		j.Version, j.CreateIndex, j.UID = 0, tx.Index, berth.UID{Index: tx.Index}
	case sameSpec(old, j):
		same := *old
		same.ModifyIndex, same.JobModifyIndex = tx.Index, tx.Index
		*j = same
	default:
		j.Version, j.CreateIndex, j.UID = old.Version+1, old.CreateIndex, old.UID
	}
}

// newChild creates a child of a job, with its evaluation.
func (tx *Tx) newChild(parent *berth.Job, id berth.JobID, seed EvalSeed, now int64, change func(*berth.Job)) *berth.Job {
	c := *parent
	c.ID, c.Name, c.ParentID, c.Periodic = id, string(id), parent.ID, nil
	c.Stop, c.Stable, c.Version, c.VersionTag = false, false, 0, nil
	c.SubmitTime, c.CreateIndex, c.ModifyIndex, c.JobModifyIndex = now, tx.Index, tx.Index, tx.Index
	c.UID = berth.UID{Index: tx.Index}
	if change != nil {
		change(&c)
	}
	tx.adoptPolicies(nil, &c) // its own policies, not its parent's
	tx.putJob(nil, &c)
	tx.raise(&c, seed, now)
	return &c
}

// incarnation returns the job with a name. If uid is set, the job must have it.
func (tx *Tx) incarnation(k berth.JobKey, uid berth.UID) (*berth.Job, error) {
	switch j := tx.Job(k); {
	case j == nil && !uid.IsZero():
		return nil, &berth.Error{Kind: berth.NotFound, Code: berth.CodeOwnerMissing,
			Err: fmt.Errorf("owner-missing: job %q, %s, is not there any more", k, uid.Text('j'))}
	case j == nil:
		return nil, berth.Errorf(berth.NotFound, "job %q not found", k)
	case !uid.IsZero() && uid != j.UID:
		return nil, berth.Refusef(berth.CodeUIDMismatch, "job %q is %s now, not %s", k, j.UID.Text('j'), uid.Text('j'))
	default:
		return j, nil
	}
}

// ended returns the row of a job that ends, unchanged if it was stopped before,
// and cancels its blocked evaluations.
func (tx *Tx) ended(old *berth.Job, noDelay bool, now int64) *berth.Job {
	j := old
	if !old.Stop {
		stopped := *old
		stopped.Stop, stopped.Stable, stopped.VersionTag = true, false, nil
		stopped.Version++
		stopped.SubmitTime = now
		stopped.ModifyIndex, stopped.JobModifyIndex = tx.Index, tx.Index
		j = &stopped
	}
	if noDelay {
		tx.skipDelays(old.Key())
	}
	// Open evaluations of earlier versions have nothing left to do.
	tx.cancelOpen(j, "the job was stopped", now)
	return j
}

// skipDelays makes the job's allocations stop without delay.
func (tx *Tx) skipDelays(k berth.JobKey) {
	var live []*berth.Alloc
	for a := range tx.AllocsOf(k) {
		if a.Live() {
			live = append(live, a)
		}
	}
	for _, old := range live {
		a, more := old.With()
		more.NoShutdownDelay = true
		a.AllocModifyIndex = tx.Index
		tx.changeAlloc(old, a)
	}
}

// identifyPolicies gives the policies of a new incarnation their identity.
func (tx *Tx) identifyPolicies(j *berth.Job) {
	j.EachPolicy(func(g *berth.TaskGroup, t *berth.Task, p *berth.ScalingPolicy) {
		p.Identify(j, g, t)
		p.CreateIndex, p.ModifyIndex = tx.Index, tx.Index
	})
}

// emptied notes that nothing is left of what an incarnation owned.
func (tx *Tx) emptied(row *berth.StreamJob) {
	switch j := tx.Job(row.Key); {
	case j == nil || j.UID != row.UID:
		tx.removeStream(row)
	case row.Plan != nil && (row.Phase == berth.PhaseStopped || row.Phase == berth.PhaseFailed):
		n := *row
		n.Plan, n.PlanIndex, n.Deadline, n.Deleted = nil, 0, 0, nil
		tx.putStream(row, &n)
		tx.forgetVersions(row.Key)
	}
}

// adoptPolicies gives the policies of a job that is about to be stored their
// identity. A policy that is the same as in old keeps its indexes.
func (tx *Tx) adoptPolicies(old, j *berth.Job) {
	if !j.Scaled() {
		return
	}
	before := map[string]*berth.ScalingPolicy{}
	// Policies keep their ID as long as the incarnation lives.
	self := berth.Job{ID: j.ID, Namespace: j.Namespace, UID: berth.UID{Index: tx.Index}}
	if old != nil {
		self.UID = old.UID
		for _, p := range old.Policies {
			before[p.ID] = p
		}
	}
	j.EachPolicy(func(g *berth.TaskGroup, t *berth.Task, p *berth.ScalingPolicy) {
		p.Identify(&self, g, t)
		p.CreateIndex, p.ModifyIndex = tx.Index, tx.Index
		was := before[p.ID]
		if was == nil {
			return
		}
		// An equal policy keeps its index, so that autoscalers do not read it
		// again.
		p.CreateIndex = was.CreateIndex
		if string(codec.Canonical(was.Plain())) == string(codec.Canonical(p.Plain())) {
			p.ModifyIndex = was.ModifyIndex
		}
	})
}

// runnable refuses a job that could not be registered now.
func (tx *Tx) runnable(j *berth.Job) error {
	if tx.SchedulerConfig().RejectJobRegistration {
		return berth.Errorf(berth.Denied, "Job registration, dispatch, and scale are disabled by the scheduler configuration")
	}
	if tx.NodePool(j.NodePool) == nil {
		return berth.Errorf(berth.Invalid, "job.node_pool: node pool %.150q not found", j.NodePool)
	}
	if n := tx.Namespace(j.Namespace); n != nil {
		return validate.JobIn(n, j)
	}
	return nil
}

// versionOf returns a kept version of a job, after the job itself.
func (tx *Tx) versionOf(k berth.JobKey, version uint64) (cur, v *berth.Job, err error) {
	cur = tx.Job(k)
	if cur == nil {
		return nil, nil, berth.Errorf(berth.NotFound, "job %q not found", k)
	}
	v = tx.JobVersion(k, version)
	if v == nil || v.UID != cur.UID {
		return nil, nil, berth.Errorf(berth.NotFound, "job %q has no version %d, or it is no longer kept", k, version)
	}
	return cur, v, nil
}

// amend stores a change of a version that is not part of its specification. The
// job's own row changes too, so that its watchers see it.
func (tx *Tx) amend(cur, v *berth.Job) {
	n := v
	if v.Version != cur.Version {
		tx.putVersion(v)
		same := *cur
		n = &same
	}
	n.ModifyIndex = tx.Index
	tx.putJob(cur, n)
}
