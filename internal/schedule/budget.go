package schedule

import (
	"time"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/state"
)

// Budget bounds the work of a decision; see [place.Budget].
type Budget = place.Budget

// ErrTooMuchWork is the error of a decision that needs more steps than its
// budget has.
var ErrTooMuchWork = place.ErrTooMuchWork

// DecideWithin is Decide with a budget. An error means that the decision was
// given up: because it needs too many steps ([ErrTooMuchWork]), or with the
// error of the budget's Interrupt.
func DecideWithin(work *Budget, snap *state.Snapshot, eval *berth.Eval, attempt int, now time.Time) (d Decision, err error) {
	err = work.Run(func() { d = decide(snap, eval, attempt, now, work) })
	return d, err
}

// The steps that a decision may take, see Allowance.
const (
	stepsAtLeast    = 1 << 20 // a tenth of a second
	stepsAtMost     = 1 << 27 // about ten seconds
	stepsOfNode     = 64      // for each group and node
	stepsOfInstance = 64      // for each instance that is asked for
	stepsOfAlloc    = 4       // for each group and allocation that it might preempt
)

// Allowance returns how many steps a decision about a job may take. It grows
// with what such a decision must look at, and leaves each of its parts many
// times the usual. What exceeds it is not a large job in a large cluster, but a
// job whose conditions are out of proportion.
func Allowance(snap *state.Snapshot, job *berth.Job) int64 {
	most := int64(stepsAtLeast)
	if job == nil {
		return most
	}
	nodes, allocs, groups, instances := int64(snap.Count(state.Nodes)), int64(snap.Count(state.Allocs)), int64(len(job.TaskGroups)), int64(0)
	for _, g := range job.TaskGroups {
		instances += int64(g.Count)
	}
	most += groups * (nodes*stepsOfNode + allocs*stepsOfAlloc)
	most += instances * (stepsOfInstance + nodes/4)
	return min(most, stepsAtMost)
}
