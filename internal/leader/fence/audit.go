package fence

import (
	"time"

	"berth"
	"berth/internal/state"
)

// between is the time between two audits. The loop of a controller looks that
// often without being asked.
const between = 10 * time.Minute

// audit returns, when one is due, evaluations of jobs with an allocation that
// was cut off and that no evaluation has looked at since. The server that takes
// the report raises one, which can be lost with its term. It goes through all
// allocations. An evaluation that has looked at an allocation is enough, whatever
// it decided, so none is raised without end.
func (c *Controller) audit(snap *state.Snapshot, now time.Time) (out []state.EvalFor) {
	if c.next.IsZero() { // more urgent work comes first in a new term
		c.next = now.Add(between)
	}
	if now.Before(c.next) {
		return nil
	}
	c.next = now.Add(between)
	looked := map[berth.JobKey]bool{}
	for a := range snap.Allocs() {
		k := a.Key()
		if looked[k] || !snap.Unfinished(a) || seen(snap, a) {
			continue
		}
		looked[k] = true
		out = append(out, state.CutOffEval(a))
		if len(out) == most { // the rest follows with the next step
			c.next = now
			break
		}
	}
	return out
}

// seen reports whether an evaluation of the allocation's job is open, or was
// created after the allocation ended.
func seen(snap *state.Snapshot, a *berth.Alloc) bool {
	for e := range snap.EvalsOf(a.Key()) {
		if !e.Terminal() || e.CreateIndex > a.ModifyIndex {
			return true
		}
	}
	return false
}
