package state

import (
	"slices"

	"berth"
)

// A submission that was interrupted is not mended: the incarnation goes with
// all it owns, and another one begins anew. The command that removes the one
// makes the other, so whatever dies in between, the job is never lost and never
// there twice. What follows is kept with the mark of the job, and a user who
// deletes the job takes it away.

// Successor is what follows a stream job that is deleted to begin anew: what a
// user registered meanwhile.
type Successor struct {
	Job        *berth.Job
	Submission *berth.JobSubmission
}

// begins says whether another incarnation follows the job.
func (d *JobDeletion) begins() bool {
	return d.Deletion.Intent == berth.IntentRecover || d.Deletion.Intent == berth.IntentReplace
}

// beginsAnew says whether a job, marked as it is, can be registered: what is
// registered follows it.
func (tx *Tx) beginsAnew(old, j *berth.Job) bool {
	return old != nil && j.Type == berth.TypeStream && tx.Deletion(old.Key()).begins()
}

// Causes of a recovery.
const (
	RecoverInterrupted = "leader-change" // another leader began before all was there
	RecoverTimeout     = "timeout"       // the time of the attempt was over; the attempts count
)

// MaxRecover is how many jobs one command marks at most.
const MaxRecover = 100

// RecoverJobs deletes incarnations of stream jobs in the foreground whose
// submission is to begin anew. Nothing of them will be seen in those that
// follow.
type RecoverJobs struct {
	ByLeader
	Jobs  []JobRef
	Cause string
	Now   int64
}

// Apply implements Command. Those that are gone, are being deleted whatever
// for, or have nothing to begin anew are passed over, unless all are. It raises
// the evaluations that stop what they run.
func (c *RecoverJobs) Apply(tx *Tx) error {
	if n := len(c.Jobs); n == 0 || n > MaxRecover {
		return berth.Errorf(berth.Invalid, "recover: %d jobs; allowed are 1 to %d", n, MaxRecover)
	}
	if c.Cause == "" || len(c.Cause) > MaxStreamError {
		return berth.Errorf(berth.Invalid, "Cause: %d bytes; allowed are 1 to %d", len(c.Cause), MaxStreamError)
	}
	var marks []*berth.Job
	for i, r := range c.Jobs {
		j, row, err := tx.alive(r.Key, r.UID)
		if err == nil && row.Phase == berth.PhaseSubmission && row.Plan != nil && !slices.Contains(c.Jobs[:i], r) {
			marks = append(marks, j)
		}
	}
	if marks == nil {
		return stale("already-done", "none of the %d jobs is in a submission that can begin anew", len(c.Jobs))
	}
	for _, old := range marks {
		cause := berth.Cause{Kind: berth.CauseSystem, ID: c.Cause}
		j := tx.markStream(old, berth.IntentRecover, cause, nil, c.Now)
		tx.raise(j, EvalSeed{ID: tx.newID(seedOf(j.UID)), TriggeredBy: berth.TriggerJobDeregister, Cause: cause}, c.Now)
	}
	return nil
}

// markStream marks a job that another incarnation is to follow. It is not the
// user who ends it, so it stays at its version.
func (tx *Tx) markStream(old *berth.Job, intent string, cause berth.Cause, next *Successor, now int64) *berth.Job {
	j := *old
	j.Stop, j.ModifyIndex, j.JobModifyIndex = true, tx.Index, tx.Index
	tx.cancelOpen(&j, "the job begins anew", now)
	tx.putJob(old, &j)
	tx.mark(&JobDeletion{Key: j.Key(), UID: j.UID, Successor: next, Deletion: berth.Deletion{
		Policy: berth.Foreground, Intent: intent, Cause: cause, RequestIndex: tx.Index, Time: now,
	}})
	return &j
}

// follow removes a job that nothing holds any more and makes the incarnation
// that follows it, the given one of its command. That has the job's
// specification and history, and of the incarnations before it no more than
// that they were.
func (tx *Tx) follow(j *berth.Job, d *JobDeletion, ordinal uint32) {
	was := berth.StreamJob{}
	if row := tx.StreamJob(j.UID); row != nil {
		was = *row
	}
	versions, texts := tx.historyOf(j.Key())
	next := *j
	if d.Successor != nil {
		next = *d.Successor.Job
		if s := d.Successor.Submission; s != nil {
			texts = append(texts, &Submission{*s, j.Key(), next.Version})
		}
	}
	tx.removeJob(j)
	next.Stop, next.UID = false, berth.UID{Index: tx.Index, Ordinal: ordinal}
	next.CreateIndex, next.ModifyIndex, next.JobModifyIndex = tx.Index, tx.Index, tx.Index
	tx.identifyPolicies(&next)
	tx.putJob(nil, &next)
	t := &tx.jobs
	for _, v := range versions {
		if v.Version >= next.Version {
			continue
		}
		own := *v
		own.UID, own.CreateIndex = next.UID, next.CreateIndex
		t.byVersion.Add(tx.edit, versionKey(j.Key(), v.Version), t.versions.insert(tx, &own))
	}
	for _, text := range texts {
		if text.Version <= next.Version {
			tx.putSubmission(text)
		}
	}
	tx.forgetVersions(j.Key())
	tx.beginStream(&next, retries(&was, d), recovery(&was, d))
}

// recovery returns what an incarnation knows of those before it.
func recovery(was *berth.StreamJob, d *JobDeletion) berth.Recovery {
	if d.Deletion.Intent != berth.IntentRecover {
		return berth.Recovery{}
	}
	r := was.Recovery
	before := append(slices.Clone(r.Predecessors), d.UID)
	return berth.Recovery{Count: r.Count + 1, Predecessors: before[max(0, len(before)-MaxPredecessors):], LastCause: d.Deletion.Cause.ID}
}

// MaxPredecessors is how many incarnations before it a job names at most, the
// newest.
const MaxPredecessors = 100

// retries returns how many timeouts an incarnation has used up. What a user
// registered anew has used up none.
func retries(was *berth.StreamJob, d *JobDeletion) int {
	switch {
	case d.Deletion.Intent != berth.IntentRecover || d.Successor != nil:
		return 0
	case d.Deletion.Cause.ID == RecoverTimeout:
		return was.Retries + 1
	}
	return was.Retries
}

// historyOf returns the versions of a job and what they were made from.
func (tx *Tx) historyOf(k berth.JobKey) (versions []*berth.Job, texts []*Submission) {
	for v := range tx.JobVersions(k) {
		versions = append(versions, v)
		if s := tx.Submission(k, v.Version); s != nil {
			texts = append(texts, s)
		}
	}
	return versions, texts
}

// identifyPolicies gives the policies of a new incarnation their identity.
func (tx *Tx) identifyPolicies(j *berth.Job) {
	j.EachPolicy(func(g *berth.TaskGroup, t *berth.Task, p *berth.ScalingPolicy) {
		p.Identify(j, g, t)
		p.CreateIndex, p.ModifyIndex = tx.Index, tx.Index
	})
}

// stream registers a stream job. It raises no evaluation: what is to be made
// for the job is decided from its submission, and one that is given is not
// raised.
func (c *RegisterJob) stream(tx *Tx, old *berth.Job) error {
	j := *c.Job
	if err := lineage(old, &j); err != nil {
		return err
	}
	if !j.Schedulable() {
		return berth.Errorf(berth.Invalid, "job.type: job %q is of type %s, which can be neither periodic nor parameterized", j.ID, j.Type)
	}
	j.Stop = false
	if old == nil {
		tx.following(nil, &j, c.Now)
		tx.putJob(nil, &j)
		c.keepText(tx, &j)
		tx.beginStream(&j, 0, berth.Recovery{})
		return nil
	}
	c.preserve(&j, old)
	row, marked := tx.StreamJob(old.UID), tx.Deletion(old.Key())
	ended := row == nil || row.Phase == berth.PhaseFailed || row.Phase == berth.PhaseStopped
	if marked == nil && !ended {
		tx.following(old, &j, c.Now)
		tx.putJob(old, &j)
		c.keepText(tx, &j)
		return nil
	}
	// What follows an incarnation that a user did not stop is its next version,
	// or the same if it asks for nothing else.
	base := *old
	base.Stop = row == nil || row.Phase == berth.PhaseStopped
	tx.following(&base, &j, c.Now)
	next := &Successor{&j, c.Submission}
	if marked == nil {
		tx.markStream(old, berth.IntentReplace, berth.Cause{Kind: berth.CauseUser}, next, c.Now)
		return nil
	}
	touched := *old
	touched.ModifyIndex, touched.JobModifyIndex = tx.Index, tx.Index
	tx.putJob(old, &touched)
	d := *marked
	d.Successor = next
	tx.mark(&d)
	return nil
}

func (c *RegisterJob) keepText(tx *Tx, j *berth.Job) {
	if c.Submission != nil {
		tx.putSubmission(&Submission{*c.Submission, j.Key(), j.Version})
	}
}

// stopStream notes that a user stopped a stream job. One that is to begin anew
// does not, then.
func (tx *Tx) stopStream(j *berth.Job) {
	if d := tx.Deletion(j.Key()); d != nil && d.begins() {
		tx.dropMark(j.Key())
	}
	row := tx.StreamJob(j.UID)
	if row == nil || row.Phase == berth.PhaseStopped {
		return
	}
	n := *row
	n.Phase, n.Deadline = berth.PhaseStopped, 0
	tx.givenUp(j, &n, row)
}

// orphanResources leaves what a stream job owns to itself.
func (tx *Tx) orphanResources(j *berth.Job) {
	if j.Type != berth.TypeStream {
		return
	}
	for _, r := range slices.Collect(tx.ResourcesOf(j.UID, "")) {
		n := *r
		n.Owner = berth.UID{}
		tx.putResource(r, &n)
	}
}

// preserveWidths carries the widths of parallel regions over from the job as it
// is now.
func preserveWidths(j, old *berth.Job) {
	if old.Stream == nil {
		return
	}
	for _, r := range old.Stream.Regions {
		widen(j, r.Name, r.Width)
	}
}

// Widened returns a stream job with another width of a parallel region, which it
// must have.
func Widened(j *berth.Job, region string, width int) *berth.Job {
	n := *j
	widen(&n, region, width)
	return &n
}

// widen gives a parallel region of a job that is being made another width, and
// says whether the job has the region.
func widen(j *berth.Job, region string, width int) bool {
	i := slices.IndexFunc(j.Stream.Regions, func(r berth.RegionSpec) bool { return r.Name == region })
	if i < 0 {
		return false
	}
	s := *j.Stream
	s.Regions = slices.Clone(s.Regions)
	s.Regions[i].Width = width
	groups := slices.Clone(j.TaskGroups)
	for k, g := range groups {
		if slices.Contains(s.Regions[i].Groups, g.Name) {
			ng := *g
			ng.Count = width
			groups[k] = &ng
		}
	}
	j.Stream, j.TaskGroups = &s, groups
	return true
}

// widenable refuses another width of the parallel region that a group is in.
func (tx *Tx) widenable(j *berth.Job, g *berth.TaskGroup, width int64) error {
	switch _, _, err := tx.alive(j.Key(), j.UID); {
	case err != nil:
		return err
	case j.Stream == nil || j.Stream.Region(g.Name) == nil:
		return berth.Errorf(berth.Invalid, "Target: group %q of job %q is in no parallel region, so there is one of it", g.Name, j.Key())
	case width < 1 || width > berth.MaxWidth:
		return berth.Errorf(berth.Invalid, "Count: %d is no width of a parallel region; allowed are 1 to %d", width, berth.MaxWidth)
	}
	return nil
}

// revertable refuses to give a stream job back a version in which it was
// stopped, or any if it does not run: then it is registered.
func (tx *Tx) revertable(cur, to *berth.Job) error {
	if _, _, err := tx.alive(cur.Key(), cur.UID); err != nil {
		return err
	}
	if to.Stop {
		return berth.Errorf(berth.Invalid, "JobVersion: in version %d job %q was stopped; stop it to stop it", to.Version, cur.Key())
	}
	return nil
}
