package state

import (
	"berth"
)

// Versions of each job that are kept unless a configuration says otherwise, and
// the most that one can say: each change of a job looks at all of them.
const (
	TrackedVersions    = 6
	MaxTrackedVersions = 1000
)

// versionLimit is how many versions of each job are kept, the newest included.
// Tagged ones are kept besides.
type versionLimit struct {
	Kept int
	Most int // the largest that Kept ever was: what was kept then may still be
}

// TrackedVersions returns how many versions of each job are kept that have no
// tag, the newest included. A job that has more loses the oldest of them with
// its next version. No job has more than most.
func (s *Snapshot) TrackedVersions() (kept, most int) {
	if s.limit == nil {
		return TrackedVersions, TrackedVersions
	}
	return s.limit.Kept, s.limit.Most
}

// SetTrackedVersions says how many versions of each job are kept. The leader
// proposes it when its configuration has another number than the state: what
// servers forget must not depend on the file of each.
type SetTrackedVersions struct{ Number int }

// Apply implements Command.
func (c *SetTrackedVersions) Apply(tx *Tx) error {
	if c.Number < 1 || c.Number > MaxTrackedVersions {
		return berth.Errorf(berth.Invalid, "job_tracked_versions: %d is out of range; allowed are 1 to %d", c.Number, MaxTrackedVersions)
	}
	if kept, most := tx.TrackedVersions(); c.Number != kept {
		tx.limit = &versionLimit{Kept: c.Number, Most: max(most, c.Number)}
		freeze(tx.limit)
	}
	return nil
}
