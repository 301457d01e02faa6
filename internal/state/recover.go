package state

import (
	"slices"

	"berth"
)

// Causes of a recovery.
const (
	RecoverInterrupted = "leader-change" // another leader began before everything existed
	RecoverTimeout     = "timeout"       // the time of the attempt was over; these attempts are counted
)

// MaxRecover is the largest number of jobs that one command marks.
const MaxRecover = 100

// RecoverJobs deletes incarnations of stream jobs in the foreground when their
// submission must start over. Their successors inherit nothing that these
// created.
type RecoverJobs struct {
	ByLeader
	Jobs  []JobRef
	Cause string
	Now   int64
}

// Apply implements Command. Jobs that are gone, are already being deleted, or
// have nothing to start over are skipped; if that is all of them, the command
// was applied before. It creates the evaluations that stop their allocations.
func (c *RecoverJobs) Apply(tx *Tx) error {
	if n := len(c.Jobs); n == 0 || n > MaxRecover {
		return berth.Errorf(berth.Invalid, "recover: must name 1 to %d jobs, got %d", MaxRecover, n)
	}
	if c.Cause == "" || len(c.Cause) > MaxStreamError {
		return berth.Errorf(berth.Invalid, "Cause: must be 1 to %d bytes, got %d", MaxStreamError, len(c.Cause))
	}
	// Jobs whose submission has ended meanwhile are skipped.
	var marks []*berth.Job
	for i, r := range c.Jobs {
		j, row, err := tx.alive(r.Key, r.UID)
		if err == nil && row.Phase == berth.PhaseSubmission && row.Plan != nil && !slices.Contains(c.Jobs[:i], r) {
			marks = append(marks, j)
		}
	}
	if marks == nil {
		return berth.Refusef(berth.CodeAlreadyDone, "none of the %d jobs is in a submission that can start over", len(c.Jobs))
	}
	// The deletion stops what runs; the evaluation makes a scheduler do it.
	for _, old := range marks {
		cause := berth.Cause{Kind: berth.CauseSystem, ID: c.Cause}
		j := tx.markStream(old, berth.IntentRecover, cause, nil, c.Now)
		tx.raise(j, EvalSeed{ID: tx.newID(seedOf(j.UID)), TriggeredBy: berth.TriggerJobDeregister, Cause: cause}, c.Now)
	}
	return nil
}

// markStream marks a job that a new incarnation will follow. The user did not
// end it, so it stays at its version.
func (tx *Tx) markStream(old *berth.Job, intent string, cause berth.Cause, next *Successor, now int64) *berth.Job {
	j := *old
	j.Stop, j.ModifyIndex, j.JobModifyIndex = true, tx.Index, tx.Index
	tx.cancelOpen(&j, "the submission of the job starts over", now)
	tx.putJob(old, &j)
	tx.mark(&JobDeletion{Key: j.Key(), UID: j.UID, Successor: next, Deletion: berth.Deletion{
		Policy: berth.Foreground, Intent: intent, Cause: cause, RequestIndex: tx.Index, Time: now,
	}})
	return &j
}

// follow removes a job that nothing holds any more and creates the incarnation
// that follows it, with the given ordinal in the command. That has the job's
// specification and history, and only a list of the incarnations before it.
func (tx *Tx) follow(j *berth.Job, d *JobDeletion, ordinal uint32) {
	was := berth.StreamJob{}
	if row := tx.StreamJob(j.UID); row != nil {
		was = *row
	}
	// Read the history first: removeJob deletes it.
	versions, texts := tx.historyOf(j.Key())
	next := *j
	if d.Successor != nil {
		next = *d.Successor.Job
		if s := d.Successor.Submission; s != nil {
			texts = append(texts, &Submission{*s, j.Key(), next.Version})
		}
	}
	tx.removeJob(j)
	// The successor is a new incarnation, with an UID of its own.
	next.Stop, next.UID = false, berth.UID{Index: tx.Index, Ordinal: ordinal}
	next.CreateIndex, next.ModifyIndex, next.JobModifyIndex = tx.Index, tx.Index, tx.Index
	tx.identifyPolicies(&next)
	tx.putJob(nil, &next)
	// It takes over the versions and job sources, so that users can still
	// revert to them.
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

// recovery returns what an incarnation records of those before it.
func recovery(was *berth.StreamJob, d *JobDeletion) berth.Recovery {
	if d.Deletion.Intent != berth.IntentRecover {
		return berth.Recovery{}
	}
	r := was.Recovery
	before := append(slices.Clone(r.Predecessors), d.UID)
	return berth.Recovery{Count: r.Count + 1, Predecessors: before[max(0, len(before)-MaxPredecessors):], LastCause: d.Deletion.Cause.ID}
}

// MaxPredecessors is how many earlier incarnations a job lists, the newest
// ones.
const MaxPredecessors = 100

// retries returns how many timeouts an incarnation has used up. A new
// registration by a user starts at zero.
func retries(was *berth.StreamJob, d *JobDeletion) int {
	switch {
	case d.Deletion.Intent != berth.IntentRecover || d.Successor != nil:
		return 0
	case d.Deletion.Cause.ID == RecoverTimeout:
		return was.Retries + 1
	}
	return was.Retries
}

// historyOf returns the versions of a job and their sources.
func (tx *Tx) historyOf(k berth.JobKey) (versions []*berth.Job, texts []*Submission) {
	for v := range tx.JobVersions(k) {
		versions = append(versions, v)
		if s := tx.Submission(k, v.Version); s != nil {
			texts = append(texts, s)
		}
	}
	return versions, texts
}
