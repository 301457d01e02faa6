package berth

import "time"

// DrainStrategy says how a node is emptied.
type DrainStrategy struct {
	DrainSpec
	ForceDeadline time.Time // when all that is left is stopped; zero is never, or at once
	StartedAt     time.Time
}

// DrainSpec is what an operator says of a drain.
type DrainSpec struct {
	Deadline         time.Duration // from the time it is said; below 0: at once, 0: never
	IgnoreSystemJobs bool          // they stay
}

// Forced says whether all that is left on the node is to be stopped now,
// whatever its migrate block says.
func (d *DrainStrategy) Forced(now time.Time) bool {
	return d.Deadline < 0 || !d.ForceDeadline.IsZero() && !now.Before(d.ForceDeadline)
}

// Holds says whether an allocation keeps the drain of its node from being done:
// until its end is confirmed. Allocations of system jobs do not if the operator
// lets them stay. One that should stop and is on a node that cannot be heard
// does not either: it ends when its agent hears of it, which may be never.
func (d *DrainStrategy) Holds(a *Alloc) bool {
	switch {
	case a.Ended(), d.IgnoreSystemJobs && a.Job.Type == TypeSystem:
		return false
	case a.Client == ClientUnknown:
		return a.Wanted()
	}
	return true
}

// Spent says whether a drain stopped an allocation of a job that ends of
// itself. Nothing follows on it: it had until the deadline of the drain to end.
func (a *Alloc) Spent() bool {
	if a.Wanted() || a.Job.Type != TypeBatch && a.Job.Type != TypeSysbatch {
		return false
	}
	m := a.Rest()
	return m.DesiredDescription == StopMigrated && m.Next.IsZero()
}

// DrainMetadata is about the drain of a node that is under way, or the last
// one.
type DrainMetadata struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     string
	AccessorID string            // of the token that was used; none are known yet
	Meta       map[string]string // what the operator noted
}

// The statuses of a drain.
const (
	DrainUnderWay = "draining"
	DrainComplete = "complete"
	DrainCanceled = "canceled"
)
