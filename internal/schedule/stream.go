package schedule

import (
	"cmp"
	"slices"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/schedule/reconcile"
	"berth/internal/state"
	"berth/internal/streams/placement"
)

// stream decides an evaluation of a stream job. It stops allocations that are
// no longer needed and places every launched processing element that waits for
// a node. It replaces nothing on its own: package submit decides what is
// launched again.
func (d *decider) stream() Decision {
	key := d.eval.Key()
	if j := d.snap.Job(key); j != nil && j.UID == d.eval.JobUID {
		d.job = j
	}
	v := placement.NewView(d.snap, d.eval.JobUID)
	if v.Job != nil {
		d.plan.JobVersion = v.Job.Version
	}
	counts := map[string]*reconcile.Counts{}
	d.stopStream(v, counts)
	if v.Alive {
		d.placeStream(v, counts)
	}
	return Decision{Plan: d.plan, Nothing: len(d.plan.Place)+len(d.plan.Stop) == 0, Counts: counts}
}

// stopStream stops allocations of another incarnation, of a processing element
// that is gone, of an earlier launch, and those that must leave their node; if
// the job must not run, it stops all. Allocations on unreachable nodes are
// lost.
func (d *decider) stopStream(v *placement.View, counts map[string]*reconcile.Counts) {
	var all []*berth.Alloc
	for a := range d.snap.AllocsOf(d.eval.Key()) {
		if d.concerns(a) && !a.Orphaned && !a.Ended() {
			all = append(all, a)
		}
	}
	// In a fixed order, so that equal decisions have equal plans.
	slices.SortFunc(all, func(a, b *berth.Alloc) int {
		return cmp.Or(cmp.Compare(a.Group.Name, b.Group.Name), cmp.Compare(a.Index, b.Index), cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	for _, a := range all {
		c := counts[a.Group.Name]
		if c == nil {
			c = &reconcile.Counts{}
			counts[a.Group.Name] = c
		}
		why, lost := d.stopReason(v, a)
		switch {
		case lost:
			d.plan.Stop = append(d.plan.Stop, berth.AllocStop{ID: a.ID, StopReason: why, Client: berth.ClientLost})
			c.Stop++
		case !a.Wanted():
		case why != berth.StopNone:
			d.plan.Stop = append(d.plan.Stop, berth.AllocStop{ID: a.ID, StopReason: why})
			c.Stop++
		default:
			v.Keep(a)
			c.Ignore++
		}
	}
}

// stopReason returns why an allocation that has not ended must stop, StopNone
// if it may stay. lost reports that it stopped together with its node.
func (d *decider) stopReason(v *placement.View, a *berth.Alloc) (why berth.StopReason, lost bool) {
	n := d.snap.Node(a.NodeID)
	switch {
	case d.job != nil && state.FencedUntil(a, n).After(d.now): // it may still run; only whether it should is decided
	case n == nil || n.Status == berth.NodeDown:
		return berth.StopNodeLost, true
	case n.Status == berth.NodeDisconnected: // stream jobs do not wait for disconnected nodes
		return berth.StopAway, true
	}
	switch {
	case d.job != nil && a.Job.UID != d.job.UID:
		return berth.StopOldJob, false
	case !v.Alive:
		return berth.StopJobEnded, false
	}
	// The node and the job are fine. Does the processing element still want it?
	ref := a.Rest().PE
	if ref == nil {
		return berth.StopPEGone, false
	}
	pe := v.ByUID[ref.UID]
	switch {
	case pe == nil:
		return berth.StopPEGone, false
	case !v.Planned[pe.Name]:
		return berth.StopSurplus, false
	case ref.Launch < pe.PE.Launch:
		return berth.StopPELaunch, false
	case a.Rest().Relocate:
		return berth.StopWanted, false
	case a.Rest().Migrate && n.Draining():
		return berth.StopMigrated, false
	}
	return berth.StopNone, false
}

// placeStream finds a node for each processing element that waits for one, the
// most constrained first. A blocked evaluation is left for those that find
// none.
func (d *decider) placeStream(v *placement.View, counts map[string]*reconcile.Counts) {
	list := v.Unplaced()
	if len(list) == 0 {
		return
	}
	p := place.New(d.snap, v.Job, d.plan.Stop, d.rand.Uint64()).Within(d.work)
	defer p.Close()
	// Each placement restricts the next, so elements are placed one by one.
	s := placement.NewRules(d.snap, v)
	failed, missed := map[string]*berth.AllocMetric{}, &berth.Missed{Classes: map[string]bool{}, QuotaOnly: true}
	d.plan.Explain, d.end.Queued = map[string]*berth.AllocMetric{}, map[string]int{}
	for _, w := range list {
		name := w.Group.Name
		out := p.One(w.Number, place.Instance{Index: w.PE.Object.PE.Index, Previous: w.Previous}, s.Excluder(w))
		if c := counts[name]; c != nil {
			c.Place++
		} else {
			counts[name] = &reconcile.Counts{Place: 1}
		}
		if out.Failed == 0 {
			d.plan.Place = append(d.plan.Place, out.Placed...)
			if d.plan.Explain[name] == nil {
				d.plan.Explain[name] = out.Why
			}
			s.Placed(w, out.Placed[0].NodeID)
			continue
		}
		if first := failed[name]; first != nil {
			first.CoalescedFailures++
		} else {
			failed[name] = out.Why
		}
		d.end.Queued[name]++
		addMissed(missed, out.Missed)
	}
	if len(failed) == 0 {
		d.end.Queued = nil
		return
	}
	d.end.Failed, d.end.Missed = failed, missed
	if d.eval.Status == berth.EvalBlocked { // it stays blocked; no new one is created
		d.end.Status = berth.EvalBlocked
		return
	}
	d.end.Blocked = &state.NewEval{ID: d.newID(), TriggeredBy: berth.TriggerQueuedAllocs}
}
