package submit

import (
	"berth"
	"berth/internal/state"
)

// sweepOrder is the order in which objects of an older generation are removed.
var sweepOrder = []string{berth.KindPE, berth.KindImport, berth.KindExport, berth.KindEndpoint, berth.KindConfig, berth.KindRegion, berth.KindHostPool}

// sweep removes objects of an older generation that are no longer planned, kind
// by kind. It reports whether any were left.
func (l *jobStep) sweep() bool {
	if l.row.Generation == 0 {
		return false
	}
	for _, kind := range sweepOrder {
		var old []*berth.Object
		for r := range l.snap.ResourcesOf(l.row.UID, kind) {
			if r.Generation < l.row.Generation {
				old = append(old, r)
			}
		}
		if len(old) == 0 {
			continue
		}
		// What runs of them must be stopped, which is for the scheduler to
		// decide.
		if kind == berth.KindPE && l.running(old) {
			l.evaluate(berth.TriggerJobScaling, berth.Cause{Kind: berth.CauseSystem}, l.row.PlanIndex)
		}
		// One kind per step: the next waits until this one is gone.
		l.collect(old)
		return true
	}
	return false
}

// running reports whether any of the processing elements has a live allocation.
func (l *jobStep) running(pes []*berth.Object) bool {
	for _, pe := range pes {
		for a := range l.snap.AllocsOfPE(pe) {
			if a.Live() {
				return true
			}
		}
	}
	return false
}

// cleanUp removes the objects of a job that is gone or must not own any: first
// what others see of it, last what its processing elements need.
func (l *jobStep) cleanUp() {
	if l.evaluateStrays() {
		return
	}
	// The next kinds follow when these are gone.
	for _, kinds := range [][]string{
		{berth.KindExport, berth.KindImport}, {berth.KindPE},
		{berth.KindEndpoint, berth.KindConfig, berth.KindRegion, berth.KindHostPool},
	} {
		var list []*berth.Object
		for _, kind := range kinds {
			for r := range l.snap.ResourcesOf(l.row.UID, kind) {
				list = append(list, r)
			}
		}
		if len(list) > 0 {
			l.collect(list)
			return
		}
	}
}

// evaluateStrays creates an evaluation for allocations that still run of a
// stopped or failed job, unless one is open, for example because an operator
// deleted it. Jobs being deleted are handled elsewhere.
func (l *jobStep) evaluateStrays() bool {
	j := l.snap.Job(l.row.Key)
	if j == nil || j.UID != l.row.UID || l.snap.Deletion(l.row.Key) != nil {
		return false
	}
	sum := l.snap.Summary(l.row.Key)
	if sum == nil || sum.Live == 0 || sum.Open > 0 {
		return false
	}
	l.evaluate(berth.TriggerJobDeregister, berth.Cause{Kind: berth.CauseSystem}, l.snap.Index)
	return true
}

// collect removes resources, up to the limit of one command, except processing
// elements that occupy a node.
func (l *jobStep) collect(list []*berth.Object) {
	busy := map[berth.UID]bool{}
	for a := range l.snap.AllocsOf(l.row.Key) {
		if ref := a.Rest().PE; ref != nil && a.Occupies() {
			busy[ref.UID] = true
		}
	}
	c := &state.CollectResources{}
	for _, r := range list {
		if !busy[r.UID] && len(c.UIDs) < state.MaxResources {
			c.UIDs = append(c.UIDs, r.UID)
		}
	}
	if len(c.UIDs) > 0 {
		l.add(c)
	}
}
