package broker

import (
	"time"

	"berth"
	"berth/internal/state"
)

// A job whose decisions take too much work is quarantined: a worker failed its
// evaluation and left a follow-up for later. Until then nothing of the job is
// delivered, except what a user asks for, or what concerns a newer version or
// the end of the job. Otherwise each change of a node would have workers try
// again. Like all that the broker knows it follows from the state.

// quarantines holds the quarantined jobs.
type quarantines map[berth.JobKey]quarantine

type quarantine struct {
	next  berth.EvalID // the follow-up; when it ends, the quarantine does
	until time.Time
}

// note follows a change of an evaluation.
func (q quarantines) note(s *state.Snapshot, e *berth.Eval, now time.Time) {
	k := e.Key()
	if e.Terminal() {
		if q[k].next == e.ID {
			delete(q, k)
		}
		return
	}
	if e.TriggeredBy != berth.TriggerFailedFollowUp || e.WaitUntil == 0 {
		return
	}
	if failed := s.Eval(e.PreviousEval); failed != nil && failed.Failure == berth.FailureTooMuchWork {
		q[k] = quarantine{e.ID, dueAt(e, now)}
	}
}

// forget removes the quarantine that a deleted evaluation would have ended.
func (q quarantines) forget(e *berth.Eval) {
	if q[e.Key()].next == e.ID {
		delete(q, e.Key())
	}
}

// holds returns the time before which an evaluation is not delivered, zero if it
// can be at once.
func (q quarantines) holds(s *state.Snapshot, e *berth.Eval) (until time.Time) {
	x, ok := q[e.Key()]
	if !ok || e.Cause.Kind == berth.CauseUser {
		return until
	}
	if !x.lasts(s, e.Key()) {
		return until
	}
	return x.until
}

// lasts reports whether a job is as it was when it was quarantined.
func (x quarantine) lasts(s *state.Snapshot, k berth.JobKey) bool {
	next, j := s.Eval(x.next), s.Job(k)
	return next != nil && j != nil && !j.Stop && j.UID == next.JobUID && j.JobModifyIndex == next.JobModifyIndex
}

// lift ends the quarantine of a job that was changed or stopped. What waited for
// its end is due at once. b.mu is held.
func (b *Broker) lift(s *state.Snapshot, k berth.JobKey, now time.Time) {
	x, ok := b.held[k]
	if !ok {
		return
	}
	if x.lasts(s, k) {
		return
	}
	delete(b.held, k)
	for e := range s.OpenEvalsOf(k, berth.EvalPending) {
		if e.WaitUntil == 0 || e.ID == x.next {
			b.queue.Hasten(e.ID)
		}
	}
}
