package state

import (
	"iter"
	"slices"

	"berth"
	"berth/internal/cow"
)

// openIn returns the index of the open evaluations with a status, nil if the
// status means they have ended.
func (t *evalTable) openIn(status string) *cow.Tree[uint64] {
	switch status {
	case berth.EvalPending:
		return &t.pending
	case berth.EvalBlocked:
		return &t.blocked
	}
	return nil
}

// find returns an evaluation and its slot, or nil.
func (t *evalTable) find(id berth.EvalID) (slot uint32, e *berth.Eval) {
	hi, _ := id.Words()
	return find(&t.rows, &t.byID, hi, func(e *berth.Eval) bool { return e.ID == id })
}

// Eval returns the evaluation, or nil.
func (s *Snapshot) Eval(id berth.EvalID) *berth.Eval {
	_, e := s.evals.find(id)
	return e
}

// Evals returns all evaluations, oldest first.
func (s *Snapshot) Evals() iter.Seq[*berth.Eval] { return rowsOf(&s.evals.rows, s.evals.byTime.All()) }

// EvalsOf returns the evaluations of a job, including those of earlier jobs
// with the same name, in no particular order.
func (s *Snapshot) EvalsOf(k berth.JobKey) iter.Seq[*berth.Eval] {
	return of(&s.evals.rows, &s.evals.byJob, keyHash(k), func(e *berth.Eval) bool { return e.Key() == k })
}

// OpenEvals returns the evaluations with a status, EvalPending or EvalBlocked,
// in no particular order.
func (s *Snapshot) OpenEvals(status string) iter.Seq[*berth.Eval] {
	return rowsOf(&s.evals.rows, s.evals.openIn(status).All())
}

// LastTooMuchWork returns the newest evaluation of the same job version as e
// that failed because it needed too much work, or nil.
func (s *Snapshot) LastTooMuchWork(e *berth.Eval) (last *berth.Eval) {
	for x := range s.EvalsOf(e.Key()) {
		if x.Failure == berth.FailureTooMuchWork && x.JobUID == e.JobUID && x.JobModifyIndex == e.JobModifyIndex && (last == nil || x.ModifyIndex > last.ModifyIndex) {
			last = x
		}
	}
	return last
}

// Quarantine is a job whose evaluations wait, because one of them needed too
// much work.
type Quarantine struct {
	Failed *berth.Eval // the last one that failed
	Next   *berth.Eval // the one that tries again; WaitUntil is when
}

// Quarantined returns the quarantine of a job; not ok if it has none. A change of
// the job ends it.
func (s *Snapshot) Quarantined(j *berth.Job) (q Quarantine, ok bool) {
	if j == nil || j.Stop {
		return q, false
	}
	for e := range s.OpenEvalsOf(j.Key(), berth.EvalPending) {
		if e.TriggeredBy != berth.TriggerFailedFollowUp || e.JobUID != j.UID || e.JobModifyIndex != j.JobModifyIndex {
			continue
		}
		if failed := s.Eval(e.PreviousEval); failed != nil && failed.Failure == berth.FailureTooMuchWork {
			return Quarantine{failed, e}, true
		}
	}
	return q, false
}

// putEval stores an evaluation. old is the row it replaces, or nil.
func (tx *Tx) putEval(old, e *berth.Eval) {
	t := &tx.evals
	e.ModifyIndex = tx.Index
	var slot uint32
	if old == nil {
		e.CreateIndex = tx.Index
		slot = t.link(tx, e)
	} else {
		slot, _ = t.find(e.ID)
		t.set(tx, slot, e)
	}
	var was *cow.Tree[uint64]
	if old != nil {
		was = t.openIn(old.Status)
	}
	now := t.openIn(e.Status)
	if was != nil && was != now {
		was.Remove(tx.edit, keyHash(e.Key()), slot)
	}
	if now != nil && was != now {
		now.Add(tx.edit, keyHash(e.Key()), slot)
	}
	tx.count(e.Key(), e.JobUID, func(s *Summary) {
		s.Open += sign(now != nil) - sign(was != nil)
		s.Evals = tx.Index
	})
	tx.note(Evals, anyOrNil(old), e)
}

// link stores a new row and adds it to the indexes, except those of open
// evaluations.
func (t *evalTable) link(tx *Tx, e *berth.Eval) uint32 {
	slot := t.insert(tx, e)
	hi, _ := e.ID.Words()
	t.byID.Add(tx.edit, hi, slot)
	t.byTime.Add(tx.edit, e.CreateIndex, slot)
	t.byJob.Add(tx.edit, keyHash(e.Key()), slot)
	return slot
}

// EvalSeed holds what a command must say of an evaluation beyond its other
// fields and its place in the log.
type EvalSeed struct {
	ID          berth.EvalID // zero: no evaluation
	Priority    int          // 0 means the job's
	TriggeredBy string
	Cause       berth.Cause
}

// newEval returns a pending evaluation of a job.
func newEval(j *berth.Job, s EvalSeed, now int64) *berth.Eval {
	e := &berth.Eval{
		ID: s.ID, Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, Type: j.Type, Priority: s.Priority,
		TriggeredBy: s.TriggeredBy, Cause: s.Cause, Status: berth.EvalPending,
		JobModifyIndex: j.JobModifyIndex, CreateTime: now, ModifyTime: now,
	}
	if e.Priority == 0 {
		e.Priority = j.Priority
	}
	return e
}

// raise stores a pending evaluation of a job.
func (tx *Tx) raise(j *berth.Job, s EvalSeed, now int64) *berth.Eval {
	e := newEval(j, s, now)
	tx.putEval(nil, e)
	return e
}

// unusedEvals refuses IDs of new evaluations that exist already or are given
// twice: the command was applied before, or its proposer has a bug.
func (tx *Tx) unusedEvals(ids ...berth.EvalID) error {
	for i, id := range ids {
		switch {
		case id.IsZero():
			return berth.Errorf(berth.Invalid, "a new evaluation has no ID")
		case tx.Eval(id) != nil:
			return berth.Refusef(berth.CodeAlreadyDone, "there is an evaluation %s", id)
		case slices.Contains(ids[:i], id):
			return berth.Errorf(berth.Invalid, "two new evaluations have the ID %s", id)
		}
	}
	return nil
}

// removeEval deletes an evaluation that has ended, with its explanation.
func (tx *Tx) removeEval(e *berth.Eval) {
	t := &tx.evals
	slot, _ := t.find(e.ID)
	id, _ := e.ID.Words()
	t.byID.Remove(tx.edit, id, slot)
	t.byTime.Remove(tx.edit, e.CreateIndex, slot)
	t.byJob.Remove(tx.edit, keyHash(e.Key()), slot)
	t.remove(tx, slot)
	if slot, x := tx.explanations.find(e.ID); x != nil {
		tx.explanations.byEval.Remove(tx.edit, id, slot)
		tx.explanations.remove(tx, slot)
	}
	tx.count(e.Key(), e.JobUID, func(s *Summary) { s.Evals = tx.Index })
	tx.note(Evals, e, nil)
}

// unusedSeed refuses the ID of an existing evaluation. A zero ID creates none.
func (tx *Tx) unusedSeed(s EvalSeed) error {
	if s.ID.IsZero() {
		return nil
	}
	return tx.unusedEvals(s.ID)
}

// cancelOpen cancels the blocked evaluations of a job: it no longer waits for
// capacity. Pending ones stay: the broker hands them out one after another, and
// the last one sees everything.
func (tx *Tx) cancelOpen(j *berth.Job, why string, now int64) {
	for _, e := range tx.blockedOf(j) {
		tx.cancel(e, why, now)
	}
	tx.setQueued(j, nil)
}

// blockedOf returns the blocked evaluations of one incarnation of a job.
func (tx *Tx) blockedOf(j *berth.Job) (out []*berth.Eval) {
	for e := range of(&tx.evals.rows, &tx.evals.blocked, keyHash(j.Key()), func(e *berth.Eval) bool { return e.Key() == j.Key() }) {
		if e.JobUID == j.UID {
			out = append(out, e)
		}
	}
	return out
}

// cancel ends an open evaluation. why is shown to users; now is in nanoseconds
// since 1970.
func (tx *Tx) cancel(old *berth.Eval, why string, now int64) {
	e := *old
	e.Status, e.StatusDescription, e.ModifyTime = berth.EvalCanceled, why, now
	tx.putEval(old, &e)
}

// supersede cancels an open evaluation because a newer one of its job does its
// work.
func (tx *Tx) supersede(old *berth.Eval, by berth.EvalID, now int64) {
	e := *old
	e.Status, e.StatusDescription, e.ModifyTime = berth.EvalCanceled, Superseded(by), now
	if tx.KeepsLineage() {
		e.SupersededBy = by
	}
	tx.putEval(old, &e)
}

// Superseded is the description of an evaluation that a newer one supersedes.
func Superseded(by berth.EvalID) string { return "superseded by evaluation " + by.String() }

// lineageSince is the log version that brought the pointers between rows beyond
// those of log version 1: who supersedes an evaluation, which evaluation made a
// deployment, and which request caused an evaluation.
const lineageSince = 3

// KeepsLineage reports whether every server of the cluster keeps these
// pointers. They are not set before, because a server that does not know them
// would have another state. A command with a [berth.Request] is not proposed
// before, either.
func (s *Snapshot) KeepsLineage() bool { return s.LogVersion >= lineageSince }

// MaxStreamError is the longest reason for giving up a submission, in bytes.
const MaxStreamError = 4 << 10

// seedOf returns the seed for the IDs of a command about an object.
func seedOf(uid berth.UID) (seed [16]byte) {
	for i := range 8 {
		seed[i] = byte(uid.Index >> (8 * i))
	}
	for i := range 4 {
		seed[8+i] = byte(uid.Ordinal >> (8 * i))
	}
	return seed
}
