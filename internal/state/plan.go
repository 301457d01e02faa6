package state

import (
	"math"
	"slices"
	"strconv"
	"time"

	"berth"
	"berth/internal/fit"
	"berth/internal/state/codec"
)

// Apply implements Command.
func (c *ApplyPlan) Apply(tx *Tx) error {
	eval := tx.Eval(c.Eval)
	switch {
	case eval == nil:
		return berth.Errorf(berth.NotFound, "eval not found: %s", c.Eval)
	case eval.Terminal():
		return berth.Refusef(berth.CodeAlreadyDone, "evaluation %s is %s", c.Eval, eval.Status)
	}
	job := tx.Job(eval.Key())
	placed := job // the version that is placed
	if len(c.Place)+len(c.Update) > 0 || c.Deploy != nil {
		var err error
		if placed, err = c.current(tx, job, eval); err != nil {
			return err
		}
	}
	if err := c.checkEnd(tx, eval); err != nil {
		return err
	}
	if c.Deploy != nil || c.Deployed != nil {
		if err := c.checkDeployment(tx, job, eval); err != nil {
			return err
		}
	}
	if len(c.Place) > 0 && placed.AllAtOnce && !c.fitsWhole(tx, placed) {
		return nil
	}
	c.change(tx, placed)
	c.raiseForPreempted(tx)
	if len(c.Explain) > 0 {
		tx.putExplanation(&Explanation{c.Eval, c.Explain})
	}
	if c.End != nil && len(c.Refused) == 0 {
		tx.end(eval, job, c.End, c.Now)
		tx.leaveTo(c.Stop, c.Now)
	}
	return nil
}

// change stops and carries over allocations, and places new ones.
func (c *ApplyPlan) change(tx *Tx, job *berth.Job) {
	c.Refused, c.preemptions = nil, nil
	for _, s := range c.Stop {
		switch {
		case s.Client == berth.ClientUnknown:
			tx.markUnknown(s, c.Now)
		case s.FollowupEval.IsZero(): // the others wait for the plan's end, which creates the evaluations that they point to
			tx.stop(s, c.Now)
		}
	}
	c.joins = c.enrol(tx, job)
	for _, id := range c.Update {
		tx.carryOver(id, job, c, c.Now)
	}
	if len(c.Place) > 0 {
		c.place(tx, job)
	}
	c.joins.store(tx, c.Now)
}

// current returns the version of the job that is placed. It refuses a plan for
// an older version, and what no scheduler would ask for.
func (c *ApplyPlan) current(tx *Tx, job *berth.Job, eval *berth.Eval) (*berth.Job, error) {
	switch {
	case job == nil || job.UID != eval.JobUID:
		return nil, berth.Errorf(berth.Conflict, "superseded: job %q is gone", eval.Key())
	case job.Type == berth.TypeStream:
		var err error
		if job, err = c.placeable(tx, job); err != nil {
			return nil, err
		}
	case job.Stop:
		return nil, berth.Errorf(berth.Conflict, "superseded: job %q was stopped", eval.Key())
	case job.Version != c.JobVersion:
		return nil, berth.Errorf(berth.Conflict, "superseded: job %q is at version %d, the plan is for %d", eval.Key(), job.Version, c.JobVersion)
	}
	for _, p := range c.Place {
		if p.Group < 0 || p.Group >= len(job.TaskGroups) {
			return nil, berth.Errorf(berth.Invalid, "plan: job %q has no group %d", eval.Key(), p.Group)
		}
		if g := job.TaskGroups[p.Group]; int64(p.Index) >= int64(g.Count) {
			return nil, berth.Errorf(berth.Invalid, "plan: group %q of job %q has %d instances, so none with index %d", g.Name, eval.Key(), g.Count, p.Index)
		}
	}
	for _, id := range c.Update {
		if a, g := tx.carriedOver(id, job); a != nil && !fitsInPlace(a, g) {
			return nil, berth.Errorf(berth.Invalid, "plan: %s cannot be updated to version %d in place", a.Name(), job.Version)
		}
	}
	return job, nil
}

// stop stops an allocation. What has ended or is gone stays as it is. If the
// plan marks it lost but its node has reconnected, it is only told to stop: its
// tasks run and hold their capacity until the agent reports otherwise.
func (tx *Tx) stop(s berth.AllocStop, now int64) {
	old := tx.Alloc(s.ID)
	if old == nil || old.Orphaned { // the plan is older than the orphaning
		return
	}
	n := tx.Node(old.NodeID)
	lost := s.Client == berth.ClientLost && !old.Ended() && mayBeLost(n)
	if !old.Wanted() && !lost {
		return
	}
	a, more := old.With()
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	if old.Wanted() {
		a.Desired, more.StopReason, more.DesiredDescription = berth.DesiredStop, s.StopReason, s.Description()
	}
	if lost {
		a.Client, more.ClientDescription, more.UnknownSince = berth.ClientLost, s.Description(), 0
	}
	tx.changeAlloc(old, a)
}

// leaveTo points failed allocations to the evaluations that will replace them,
// if these were created: the job may have been stopped.
func (tx *Tx) leaveTo(stops []berth.AllocStop, now int64) {
	for _, s := range stops {
		old := tx.Alloc(s.ID)
		if s.FollowupEval.IsZero() || old == nil || tx.Eval(s.FollowupEval) == nil {
			continue
		}
		a, more := old.With()
		a.ModifyTime, more.FollowupEval = now, s.FollowupEval
		tx.changeAlloc(old, a)
	}
}

// place makes the placements that fit.
func (c *ApplyPlan) place(tx *Tx, job *berth.Job) {
	names, away := tx.liveNames(job)
	pes, room := tx.streamsOf(job), tx.quotaForPlan(job)
	requests := make([]*fit.Request, len(job.TaskGroups))
	if !c.fromLog {
		c.nodes = make([]uint32, len(c.Place))
	}
	for i := range c.Place {
		p := &c.Place[i]
		var n *berth.Node
		if c.fromLog {
			n = tx.NodeByNumber(c.nodes[i])
		} else {
			n = tx.Node(p.NodeID)
		}
		version, request := tx.versionFor(p, job), requests[p.Group]
		switch {
		case version.job != job:
			r := fit.RequestOf(version.group)
			request = &r
		case request == nil:
			r := fit.RequestOf(version.group)
			request, requests[p.Group] = &r, &r
		}
		name := instance{group: p.Group, index: p.Index, canary: p.Canary && !job.PerNode()}
		if job.PerNode() && n != nil {
			name.node = n.Number + 1
		}
		taken := names[name] || away.holds(name, p.Previous)
		refused := tx.refuse(n, request, p, taken, nil)
		var victims []*berth.Alloc
		if refused != nil && len(p.Evict) > 0 && n != nil { // otherwise it fits without preemption
			var why string
			victims, why = tx.victimsOf(p, version.job, n)
			if refused = berth.Refuse(berth.RefusedInstance, why); refused == nil {
				refused = tx.refuse(n, request, p, taken, victims)
			}
		}
		if refused == nil {
			refused = berth.Refuse(berth.RefusedInstance, tx.refusePrevious(p, job, n))
		}
		if refused == nil {
			why, _ := tx.VolumeLack(n, version.job, version.group, p.Index)
			refused = berth.Refuse(berth.RefusedNode, why)
		}
		if refused == nil && p.Canary {
			refused = berth.Refuse(berth.RefusedInstance, c.joins.refuses(version.group.Name))
		}
		if refused == nil {
			refused = room.refuses(version)
		}
		var pe *berth.Object
		if refused == nil && pes != nil {
			pe, refused = pes.refuses(tx, p, n)
		}
		if refused == nil && c.End != nil && c.End.SnapshotIndex != 0 && n.ModifyIndex > c.End.SnapshotIndex {
			refused = berth.Refuse(berth.RefusedNode, "the node changed since") // a constraint on its class may have a different answer now
		}
		if refused != nil {
			refused.Placement, refused.NodeID = i, p.NodeID
			c.Refused = append(c.Refused, *refused)
			if n == nil {
				c.nodes[i] = math.MaxUint32 // refused on all servers alike
			} else {
				c.nodes[i] = n.Number
			}
			continue
		}
		c.nodes[i] = n.Number
		names[name] = true
		if pe != nil {
			pes.placed(pe)
		}
		tx.placeOne(c, version, p, n, request, uint32(i), victims, pe)
	}
}

// refuse returns why a placement cannot be made, or nil if it can.
func (tx *Tx) refuse(n *berth.Node, r *fit.Request, p *berth.Placement, nameTaken bool, victims []*berth.Alloc) *berth.Refusal {
	switch {
	case n == nil:
		return berth.Refuse(berth.RefusedNode, "the node is gone")
	case nameTaken:
		return berth.Refuse(berth.RefusedInstance, "instance "+strconv.Itoa(int(p.Index))+" already exists")
	case !n.Ready():
		return berth.Refuse(berth.RefusedNode, "the node is "+n.Status+", "+n.SchedulingEligibility)
	}
	u := tx.Usage(n.Number)
	if len(victims) > 0 {
		u = &u.Without(victims...).Usage
	}
	return r.Refusal(u, &p.Grant)
}

// refusePrevious returns why a placement cannot replace the allocation that it
// names, or "" if it can or that is gone.
func (tx *Tx) refusePrevious(p *berth.Placement, job *berth.Job, n *berth.Node) string {
	prev := tx.Alloc(p.Previous)
	switch {
	case prev == nil && p.Before:
		return "the allocation whose version it would use is gone"
	case prev == nil:
		return ""
	case prev.Job.UID != job.UID || prev.Key() != job.Key() || prev.Group.Name != job.TaskGroups[p.Group].Name || prev.Index != p.Index:
		return "allocation " + prev.ID.String() + " is another instance"
	case job.PerNode() && prev.NodeID != n.ID:
		return "allocation " + prev.ID.String() + " belongs to another node"
	case !prev.Rest().Next.IsZero():
		return "allocation " + prev.ID.String() + " has already been replaced"
	case !p.Canary && prev.Live() && prev.Client != berth.ClientUnknown && !outlasts(prev, job.TaskGroups[p.Group]):
		return "allocation " + prev.ID.String() + " is meant to run" // a canary may run beside the allocation that has the name
	}
	return ""
}

// placeOne creates the allocation of one placement, ends what it replaces and
// stops its victims. All checks are made before: it cannot refuse.
func (tx *Tx) placeOne(c *ApplyPlan, of version, p *berth.Placement, n *berth.Node, r *fit.Request, ordinal uint32, victims []*berth.Alloc, pe *berth.Object) {
	a := &berth.Alloc{
		ID: tx.newID(c.Eval), NodeID: n.ID, EvalID: c.Eval, Job: of.job, Group: of.group,
		Index: p.Index, Ordinal: ordinal, Score: codec.KeptScore(p.Score), Ports: p.Ports,
		CreateIndex: tx.Index, AllocModifyIndex: tx.Index, CreateTime: c.Now, ModifyTime: c.Now,
	}
	// The allocation that it replaces points to it, and its follow-up
	// evaluation has nothing left to do.
	if prev := tx.Alloc(p.Previous); prev != nil {
		a.More = &berth.AllocMore{Previous: prev.ID}
		old, more := prev.With()
		more.Next = a.ID
		if prev.Client != berth.ClientUnknown { // an unknown one is lost when its time is up anyway
			more.FollowupEval = berth.EvalID{}
		}
		tx.changeAlloc(prev, old)
		if p.Resched {
			tx.noteReschedule(of.job, of.group, prev, c.Now)
		}
	}
	// A PE's allocation carries the launch it is of: reports of older ones must
	// not count.
	if pe != nil {
		_, more := a.With()
		more.PE = &berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}
		a.More = more
	}
	// Cores, devices and victims are known now; each adds to a.More.
	if r.HasNamed() {
		tx.giveNamed(a, n, r, &p.Grant)
	}
	if len(victims) > 0 {
		_, more := a.With()
		a.More = more
		c.preempt(tx, a, victims)
	}
	c.joins.add(a, p.Canary, c.Now)
	tx.newAlloc(a, n.Number, r)
	tx.claimSticky(a, n)
	tx.claimCSI(a, n)
}

// giveNamed records on a new allocation what only few are given.
func (tx *Tx) giveNamed(a *berth.Alloc, n *berth.Node, r *fit.Request, g *berth.Grant) {
	max := r.UsesMemoryMax() && tx.SchedulerConfigFor(n.NodePool).MemoryOversubscriptionEnabled
	if len(g.Cores) == 0 && len(g.Devices) == 0 && !max {
		return
	}
	_, more := a.With()
	more.Cores, more.Devices, more.MemoryMax = g.Cores, g.Devices, max
	a.More = more
}

// noteReschedule records that an instance was replaced because it failed.
func (tx *Tx) noteReschedule(job *berth.Job, g *berth.TaskGroup, prev *berth.Alloc, now int64) {
	r := Reschedules{Job: job.Key(), UID: job.UID, Group: g.Name, Index: prev.Index}
	if old := tx.Reschedules(job.UID, g.Name, prev.Index); old != nil {
		r = *old
	}
	// Keep enough events to count the attempts of the policy.
	keep := RescheduleEventsKept
	var delay time.Duration
	if p := g.ReschedulePolicy; p != nil {
		keep = max(keep, min(p.Attempts, berth.MaxCount))
		// A long run ends the streak of failures, and the delay starts over.
		ran, _ := Ran(prev)
		r.Count = p.Streak(r.Count, ran)
		delay = p.Wait(r.Count)
	}
	r.Count++
	e := berth.RescheduleEvent{RescheduleTime: now, PrevAllocID: prev.ID, PrevNodeID: prev.NodeID}
	e.Delay = delay
	r.Events = append(slices.Clone(r.Events[max(0, len(r.Events)-keep+1):]), e)
	tx.putReschedules(&r)
}

// fitsWhole reports whether every placement of a plan fits. It tries the plan
// on a copy of the state, so that an all_at_once job changes as a whole or not
// at all. If a placement does not fit, Refused says which, nothing was stopped
// or carried over, and the evaluation runs again.
//
// all_at_once only concerns plans that meet a node with less capacity than
// expected. An instance that fits nowhere is not in the plan and waits, as for
// every job.
func (c *ApplyPlan) fitsWhole(tx *Tx, job *berth.Job) bool {
	trial := Begin(tx.Snapshot)
	trial.by = tx.by
	c.change(trial, job)
	return len(c.Refused) == 0
}
