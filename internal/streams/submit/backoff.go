package submit

import (
	"maps"
	"time"

	"berth"
	"berth/internal/state"
)

// holdBack returns when a job that starts over may be planned. After a timeout
// that is a second later, then twice as long each time, up to a minute: a job
// that is never submitted in time does not keep the cluster busy. A new leader
// counts the delay again.
func (l *jobStep) holdBack() time.Time {
	if l.row.Retries == 0 {
		return l.now
	}
	at, ok := l.held[l.row.UID]
	if !ok {
		at = l.now.Add(min(backoffMin<<min(l.row.Retries-1, 10), backoffMax))
		l.held[l.row.UID] = at
	}
	return at
}

// forget drops what is known of jobs that are gone.
func (c *Controller) forget(snap *state.Snapshot) {
	maps.DeleteFunc(c.held, func(uid berth.UID, _ time.Time) bool { return snap.StreamJob(uid) == nil })
	maps.DeleteFunc(c.begun, func(uid berth.UID, _ bool) bool { return snap.StreamJob(uid) == nil })
}

// follow notes that a submission is in progress, and tells when it has ended
// well. The time of an incarnation that started over is that of its registration.
func (c *Controller) follow(snap *state.Snapshot, row *berth.StreamJob, now time.Time) {
	switch {
	case row.Phase == berth.PhaseSubmission:
		if row.Generation == 0 {
			c.begun[row.UID] = true
		}
	case c.begun[row.UID]:
		delete(c.begun, row.UID)
		delete(c.held, row.UID)
		if j := snap.Job(row.Key); c.submitted != nil && row.Phase == berth.PhaseSubmitted && j != nil && j.UID == row.UID {
			c.submitted(max(0, now.Sub(time.Unix(0, j.SubmitTime))))
		}
	}
}
