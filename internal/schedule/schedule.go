// Package schedule turns an evaluation into a decision: one plan with
// everything that changes, and how the evaluation ends. It is a function of a
// snapshot, the evaluation and the time. Package reconcile decides what should
// change and package place decides where. The resulting command commits the
// changes together with the end of the evaluation and its follow-up
// evaluations.
//
// Queues, retries and submitting plans are left to the worker.
package schedule

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/schedule/reconcile"
	"berth/internal/state"
)

// Decision is the outcome of an evaluation.
type Decision struct {
	// Plan holds every change. Its End holds for the case that no part of the
	// plan is refused.
	Plan *state.ApplyPlan
	// Nothing reports that the plan changes no allocation and no deployment.
	Nothing bool
	Counts  map[string]*reconcile.Counts // by group
	Waits   map[string][]reconcile.Wait  // by group: the groups that come first and are not ready
}

// Decide returns the decision of an evaluation. The attempt is the number of
// earlier decisions of the same evaluation; each attempt breaks ties
// differently and uses other IDs. The caller must ensure that snap is not older
// than the evaluation. It takes as long as it takes; see [DecideWithin].
func Decide(snap *state.Snapshot, eval *berth.Eval, attempt int, now time.Time) Decision {
	return decide(snap, eval, attempt, now, nil)
}

// decide decides an evaluation; its work counts for the budget, which may be
// nil.
func decide(snap *state.Snapshot, eval *berth.Eval, attempt int, now time.Time, work *place.Budget) Decision {
	d := &decider{snap: snap, eval: eval, now: now, rand: newRand(eval.ID, snap.Index, attempt), work: work}
	d.plan = &state.ApplyPlan{Eval: eval.ID, Now: now.UnixNano()}
	d.end = &state.EvalEnd{Status: berth.EvalComplete, SnapshotIndex: snap.Index}
	d.plan.End = d.end
	switch eval.Type {
	case berth.TypeService, berth.TypeBatch:
		return d.service()
	case berth.TypeSystem, berth.TypeSysbatch:
		return d.perNode()
	case berth.TypeStream:
		return d.stream()
	}
	d.end.Status, d.end.Description = berth.EvalFailed, "no scheduler for job type "+eval.Type
	return Decision{Plan: d.plan, Nothing: true}
}

// decider is one call of Decide: the evaluation, the state it looks at, and the
// plan that it fills.
type decider struct {
	snap *state.Snapshot
	eval *berth.Eval      // what is decided on
	now  time.Time        // the only clock that a decision reads
	rand *rand.ChaCha8    // seeded by the evaluation, see newRand
	job  *berth.Job       // nil if it was purged or registered again since
	plan *state.ApplyPlan // filled step by step
	end  *state.EvalEnd   // how the evaluation ends; part of plan
	work *place.Budget    // nil: as much as it takes
}

// newRand returns the generator for a decision's IDs and tie-breaks.
func newRand(eval berth.EvalID, index uint64, attempt int) *rand.ChaCha8 {
	var seed [32]byte
	copy(seed[:], eval[:])
	binary.BigEndian.PutUint64(seed[16:], index)
	binary.BigEndian.PutUint64(seed[24:], uint64(attempt))
	return rand.NewChaCha8(seed)
}

// service decides an evaluation of a service or batch job.
func (d *decider) service() Decision {
	key := d.eval.Key()
	if j := d.snap.Job(key); j != nil && j.UID == d.eval.JobUID {
		d.job = j
	}
	r := reconcile.Compare(d.input(key))
	d.plan.Stop, d.plan.Update = r.Stop, r.Update
	if d.job != nil {
		d.plan.JobVersion = d.job.Version
	}
	d.deploy(r.Deploy, r.Deployed)
	d.place(r.Missing)
	d.followUps(r.Followups)
	nothing := len(d.plan.Place)+len(d.plan.Stop)+len(d.plan.Update) == 0 && r.Deploy == nil && r.Deployed == nil
	return Decision{Plan: d.plan, Nothing: nothing, Counts: r.Counts, Waits: r.Waits}
}

// input returns what reconciling the job needs of the snapshot. Its functions
// look into the snapshot and are valid as long as it is.
func (d *decider) input(key berth.JobKey) reconcile.Input {
	in := reconcile.Input{
		Job: d.job, UID: d.eval.JobUID, Eval: d.eval.ID, Now: d.now, Node: d.snap.Node, Deployment: d.newestDeployment(key),
		Feasible: d.feasible(),
		Replaced: func(group string, index uint32) (int, []berth.RescheduleEvent) {
			if r := d.snap.Reschedules(d.eval.JobUID, group, index); r != nil {
				return r.Count, r.Events
			}
			return 0, nil
		},
		Waiting: func(id berth.EvalID) bool {
			e := d.snap.Eval(id)
			return e != nil && !e.Terminal() && e.WaitUntil > d.now.UnixNano()
		},
	}
	// The allocations of a successor are left alone, see concerns.
	for a := range d.snap.AllocsOf(key) {
		if d.concerns(a) {
			in.Allocs = append(in.Allocs, a)
		}
	}
	return in
}

// feasible returns the function that reports whether a node meets the
// constraints of the group with that number.
func (d *decider) feasible() func(group int, n *berth.Node) bool {
	known := map[int]place.Feasibility{}
	return func(group int, n *berth.Node) bool {
		f, ok := known[group]
		if !ok {
			f = place.NewFeasibility(d.snap, d.job, d.job.TaskGroups[group], d.work)
			known[group] = f
		}
		return f.Meets(n)
	}
}

// newestDeployment returns the newest deployment of the evaluation's
// incarnation of the job, nil if none exists.
func (d *decider) newestDeployment(key berth.JobKey) (newest *berth.Deployment) {
	for x := range d.snap.DeploymentsOf(key) {
		if x.JobUID == d.eval.JobUID && (newest == nil || x.CreateIndex > newest.CreateIndex) {
			newest = x
		}
	}
	return newest
}

// deploy adds to the plan the deployment that is created and the one that
// changes.
func (d *decider) deploy(made *berth.Deployment, changed *reconcile.DeploymentChange) {
	if made != nil {
		d.rand.Read(made.ID[:])
		d.plan.Deploy = made
	}
	if c := changed; c != nil {
		d.plan.Deployed = &state.DeploymentChange{ID: c.ID, Status: c.Status, Description: c.Description, Sizes: c.Sizes}
	}
}

// concerns reports whether the evaluation decides about an allocation. It
// decides about the allocations of its own incarnation of the job and leftovers
// of older ones. An evaluation of a purged job leaves the allocations of the
// job's successor alone.
func (d *decider) concerns(a *berth.Alloc) bool {
	return d.job != nil || a.Job.UID.Index <= d.eval.JobUID.Index
}

// place finds nodes for missing instances, those first that were stopped and
// wait for a place: nothing of them runs. What finds none may keep the old
// version running, see sparing. Allocations that are spared keep their capacity,
// so instances that would have waited for it rather than preempt others are
// placed again.
func (d *decider) place(missing []reconcile.Missing) {
	if len(missing) == 0 {
		return
	}
	missing = first(missing, owed)
	seed, s := d.rand.Uint64(), d.newSparing(missing)
	for again := true; again; {
		again = d.placeBut(s, seed)
	}
	if d.end.Failed == nil {
		return
	}
	if d.eval.Status == berth.EvalBlocked { // it stays blocked; no new one is created
		d.end.Status = berth.EvalBlocked
		return
	}
	d.end.Blocked = &state.NewEval{ID: d.newID(), TriggeredBy: berth.TriggerQueuedAllocs}
}

// placeBut places what is missing while what is spared so far stays. The result
// again reports that more is spared now, and that this matters for what is
// placed: the job may preempt others instead, or must not stand beside them.
func (d *decider) placeBut(s *sparing, seed uint64) (again bool) {
	p := place.New(d.snap, d.job, d.plan.Stop, seed).Within(d.work)
	defer p.Close()
	d.placeGroups(p, s.missing)
	return s.spare(p) && (p.Preempts() || p.Distinct())
}

// placeGroups finds nodes for missing instances, group by group.
func (d *decider) placeGroups(p *place.Placer, missing []reconcile.Missing) {
	failed := map[string]*berth.AllocMetric{}
	missed := &berth.Missed{Classes: map[string]bool{}, QuotaOnly: true}
	// This may be another attempt: what the one before left is dropped.
	d.plan.Place, d.plan.Explain = nil, map[string]*berth.AllocMetric{}
	d.end.Queued, d.end.Failed, d.end.Missed = map[string]int{}, nil, nil
	for len(missing) > 0 {
		n := 1
		for n < len(missing) && alike(missing[n], missing[0]) {
			n++
		}
		group := d.job.TaskGroups[missing[0].Group].Name
		out := d.placeAlike(p, missing[:n])
		d.plan.Place = append(d.plan.Place, out.Placed...)
		if out.Chosen != nil && d.plan.Explain[group] == nil {
			d.plan.Explain[group] = out.Chosen // also if later instances found no node
		}
		if out.Failed > 0 {
			// Failures of a group are reported together, with a count.
			if first := failed[group]; first != nil {
				out.Why.CoalescedFailures += first.CoalescedFailures + 1
			}
			failed[group] = out.Why
			d.end.Queued[group] += out.Failed
			addMissed(missed, out.Missed)
		}
		missing = missing[n:]
	}
	if len(failed) == 0 {
		d.end.Queued = nil
		return
	}
	d.end.Failed, d.end.Missed = failed, missed
}

// alike reports whether two missing instances can be placed together: the same
// group and version, and both canaries or neither.
func alike(a, b reconcile.Missing) bool {
	return a.Group == b.Group && a.Canary == b.Canary && a.OldVersion == b.OldVersion && (!a.OldVersion || a.Previous.Job == b.Previous.Job)
}

// placeAlike places instances of one group and version.
func (d *decider) placeAlike(p *place.Placer, missing []reconcile.Missing) (out place.Outcome) {
	first := missing[0]
	if !first.OldVersion {
		out = p.Group(first.Group, instances(missing))
	} else {
		version := first.Previous.Job
		number := slices.Index(version.TaskGroups, first.Previous.Group)
		out = p.GroupOfVersion(version, number, instances(missing))
	}
	if first.OldVersion || first.Canary {
		for i := range out.Placed {
			x := &out.Placed[i]
			x.Group, x.Before, x.Canary = first.Group, first.OldVersion, first.Canary
		}
	}
	return out
}

// instances returns the missing allocations as the placer takes them. A failed
// one is better not placed on the same node again; one that keeps its disk is
// better placed there.
func instances(missing []reconcile.Missing) []place.Instance {
	out := make([]place.Instance, len(missing))
	for i, m := range missing {
		out[i] = place.Instance{Index: m.Index, Failed: m.Failed}
		if m.Previous != nil {
			out[i].Previous = m.Previous.ID
			switch d := m.Previous.Group.EphemeralDisk; {
			case m.Failed:
				out[i].Avoid = m.Previous.NodeID
			case d != nil && d.Sticky:
				out[i].Prefer = m.Previous.NodeID
			}
		}
	}
	return out
}

// addMissed adds to all what another group missed.
func addMissed(all, one *berth.Missed) {
	all.Escaped = all.Escaped || one.Escaped
	all.Quota, all.QuotaOnly = cmp.Or(all.Quota, one.Quota), all.QuotaOnly && one.QuotaOnly
	for class, ok := range one.Classes {
		all.Classes[class] = all.Classes[class] || ok
	}
	for _, dim := range one.Dimensions {
		known := false
		for _, have := range all.Dimensions {
			known = known || have == dim
		}
		if !known {
			all.Dimensions = append(all.Dimensions, dim)
		}
	}
}

// followUps creates evaluations for the times at which allocations must be
// looked at again.
func (d *decider) followUps(list []reconcile.Followup) {
	for _, l := range list {
		id := d.newID()
		d.end.Later = append(d.end.Later, state.NewEval{ID: id, TriggeredBy: l.Trigger, WaitUntil: l.At.UnixNano()})
		for _, a := range l.Allocs {
			d.plan.Stop = append(d.plan.Stop, berth.AllocStop{ID: a, FollowupEval: id})
		}
	}
}

// newID returns an ID from the decision's own generator, so that the same
// decision made twice has the same IDs.
func (d *decider) newID() (id berth.EvalID) {
	d.rand.Read(id[:])
	return id
}
