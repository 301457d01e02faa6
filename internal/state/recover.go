package state

import (
	"slices"

	"berth"
)

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
		return berth.Refusef(berth.CodeAlreadyDone, "none of the %d jobs is in a submission that can begin anew", len(c.Jobs))
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
