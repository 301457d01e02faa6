package submit

import (
	"berth"
	"berth/internal/state"
)

// sweepOrder is the order in which what is left of an older generation goes.
var sweepOrder = []string{berth.KindPE, berth.KindImport, berth.KindExport, berth.KindEndpoint, berth.KindConfig, berth.KindRegion, berth.KindHostPool}

// sweep removes what is of an older generation and not planned any more, kind by
// kind. It says whether anything is left.
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
		if kind == berth.KindPE && l.running(old) {
			l.evaluate(berth.TriggerJobScaling, berth.Cause{Kind: berth.CauseSystem}, l.row.PlanIndex)
		}
		l.collect(old)
		return true
	}
	return false
}

// running says whether something of processing elements is to run.
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

// cleanUp removes what is left of a job that is gone, or that is to have nothing
// any more: what others see of it first, what its processing elements need last.
func (l *jobStep) cleanUp() {
	if l.evaluateStrays() {
		return
	}
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

// evaluateStrays raises an evaluation for what still runs of a job that was stopped or
// given up, if none does so: an operator may have deleted it. Of jobs that are
// being deleted others see to that.
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

// collect removes resources, as many as one command may, but for processing
// elements that hold a node.
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
