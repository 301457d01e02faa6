package state

import (
	"cmp"
	"fmt"
	"iter"

	"berth"
	"berth/internal/cow"
)

// A Sweep decides which rows of a snapshot nothing needs any more. A row that
// it found free counts as gone for the rest of the sweep, so rows that need
// each other are given in this order: jobs, allocations, evaluations (older
// ones first), deployments, nodes. Each method returns why a row must stay, or
// "" if it is free.
//
// The same rules hold wherever deletion is decided: the collector uses them to
// choose, and [DeleteRows] uses them again on the state that it is applied to.
// How old a row must be is not part of them.
type Sweep struct {
	*Snapshot
	jobs        map[berth.JobKey]berth.UID // found free, and so for the next four
	allocs      map[berth.AllocID]bool
	evals       map[berth.EvalID]bool
	deployments map[berth.DeploymentID]bool
	nodes       map[berth.NodeID]bool
	ofJob       map[berth.JobKey]*holds // what the rows of a job hold, read when first needed
}

// holds lists what the allocations of a job need.
type holds struct {
	// followups are the allocations that wait for an evaluation.
	followups map[berth.EvalID][]berth.AllocID
	// names are the newest allocations, by instance, that keep a scheduler from
	// placing another one.
	names map[holder]*berth.Alloc
	// zombies are the launches of processing elements that are kept for
	// inspection.
	zombies map[berth.UID][]uint64
	orphans []berth.AllocID // that an earlier incarnation left
}

// holder is the name of an instance. Several allocations may have had it, one
// after the other.
type holder struct {
	uid   berth.UID
	group string
	index uint32
	node  berth.NodeID // for jobs that run on every node
}

// holderOf returns the name that an allocation has or had.
func holderOf(a *berth.Alloc) holder {
	h := holder{uid: a.Job.UID, group: a.Group.Name, index: a.Index}
	if a.Job.PerNode() {
		h.node = a.NodeID
	}
	return h
}

// NewSweep returns a sweep that has not taken anything yet.
func NewSweep(s *Snapshot) *Sweep {
	return &Sweep{
		Snapshot: s, jobs: map[berth.JobKey]berth.UID{}, allocs: map[berth.AllocID]bool{}, evals: map[berth.EvalID]bool{},
		deployments: map[berth.DeploymentID]bool{}, nodes: map[berth.NodeID]bool{}, ofJob: map[berth.JobKey]*holds{},
	}
}

// Job takes a job that is dead and has no live allocations. Unless it is a
// batch job, it must have been stopped: a dead service is still meant to run.
func (w *Sweep) Job(j *berth.Job) (why string) {
	// First what the summary tells, which is cheap.
	s := w.Summary(j.Key())
	if s == nil || s.UID != j.UID {
		return "another job has that name now"
	}
	if w.Deletion(j.Key()) != nil {
		return "it is already being deleted"
	}
	if status, _ := s.Status(j); status != berth.JobDead || s.Open > 0 {
		return "it is " + status
	}
	if !j.Stop && j.Type != berth.TypeBatch && j.Type != berth.TypeSysbatch {
		return "it was not stopped"
	}
	if j.Type == berth.TypeStream && w.owns(j.UID) {
		return "it still owns resources"
	}
	if n := s.Children.Alive(); n > 0 {
		return fmt.Sprintf("%d of its children have not ended", n)
	}
	// Then the rows themselves.
	for a := range w.AllocsOf(j.Key()) {
		if a.Job.UID == j.UID && !a.Ended() {
			return "allocation " + a.ID.String() + " is " + a.Client.String()
		}
	}
	for d := range w.DeploymentsOf(j.Key()) {
		if d.JobUID == j.UID && d.Active() {
			return "deployment " + d.ID.String() + " is " + d.Status
		}
	}
	w.jobs[j.Key()] = j.UID
	return ""
}

// wanted returns the newest version of a job's incarnation, or nil if it was
// stopped or is gone. Then it needs none of its ended allocations.
func (w *Sweep) wanted(k berth.JobKey, uid berth.UID) *berth.Job {
	if gone, ok := w.jobs[k]; ok && gone == uid {
		return nil
	}
	if j := w.Snapshot.Job(k); j != nil && j.UID == uid && !j.Stop {
		return j
	}
	return nil
}

// Alloc takes an allocation that does not run, unless a scheduler would decide
// differently without it.
func (w *Sweep) Alloc(a *berth.Alloc) (why string) {
	if !a.Ended() {
		return "it is " + a.Client.String()
	}
	if f := w.Snapshot.Eval(a.Rest().FollowupEval); f != nil && !f.Terminal() {
		return "evaluation " + f.ID.String() + ", which will replace it, is " + f.Status
	}
	if id := a.Rest().DeploymentID; !id.IsZero() {
		if d := w.Snapshot.Deployment(id); d != nil && d.Active() { // it counts the allocation
			return "deployment " + id.String() + " is " + d.Status
		}
	}
	if j := w.wanted(a.Key(), a.Job.UID); j != nil && !a.Orphaned {
		if why := w.needed(a, j); why != "" {
			return why
		}
	}
	w.allocs[a.ID] = true
	return ""
}

// Orphan takes an object that its job left to itself, once nothing of that job
// needs it: no orphaned allocation of the job's name is there any more. Until
// then an exclusive pool keeps its nodes for what runs there, and people can see
// what an allocation belonged to.
func (w *Sweep) Orphan(r *berth.Object) (why string) {
	if !r.Owner.IsZero() {
		return "its job owns it"
	}
	for _, id := range w.of(r.Job).orphans {
		if !w.allocs[id] {
			return "allocation " + id.String() + " belongs to what its job left"
		}
	}
	return ""
}

// needed returns why a job that is not stopped still needs an allocation that
// has ended.
func (w *Sweep) needed(a *berth.Alloc, j *berth.Job) (why string) {
	if ref := a.Rest().PE; ref != nil {
		if pe := w.Resource(ref.UID); pe != nil && pe.PE.Launch == ref.Launch {
			return "it belongs to the current launch of its processing element, which would be placed again"
		}
		if w.Zombie(a) && w.recent(a, ref) {
			return "it failed, and the policy of its group keeps it for inspection"
		}
		return ""
	}
	next := w.Snapshot.Alloc(a.Rest().Next)
	g := j.Group(a.Group.Name)
	counts := g != nil && int64(a.Index) < int64(g.Count) // the instance still exists in the job
	done := a.Wanted() && a.Client == berth.ClientComplete || a.Spent()
	switch {
	case a.Client == berth.ClientFailed && next != nil && next.Live():
		return "allocation " + next.ID.String() + ", which replaces it because it failed, is " + next.Client.String()
	case done && (finishes(j) || a.Group.Once != ""):
		// Without this row the instance would run again if its tasks are in
		// this version or a later one. An allocation of the newest version that
		// runs or finished prevents that.
		if a.Job.Version != j.Version {
			if h := w.held(a); h != nil && h.Job.Version == j.Version {
				break
			}
		}
		return "the instance would run again"
	case !counts || a.Client == berth.ClientLost && a.Wanted() && finishes(j): // for all other jobs: a deployment can return to this version
	case j.PerNode() && (a.Client != berth.ClientFailed || w.nodeLost(a)):
		if a.Job.Version != j.Version && a.Rest().Next.IsZero() && !w.nodeLost(a) && w.held(a) == nil && w.unproven(j) {
			return "a deployment may return to its version"
		} // otherwise its replacement needs nothing of it
	case a.Wanted() && a.Client == berth.ClientFailed:
		return "the instance failed and must not be placed again, or not yet"
	case a.Rest().Next.IsZero() && w.held(a) == nil:
		return "it will be replaced"
	}
	return ""
}

// recent reports whether a zombie is one of the newest of its processing
// element.
func (w *Sweep) recent(a *berth.Alloc, ref *berth.PERef) bool {
	after := 0
	for _, launch := range w.of(a.Key()).zombies[ref.UID] {
		if launch > ref.Launch {
			after++
		}
	}
	return after < MaxZombies
}

// finishes reports whether instances of a job can finish for good.
func finishes(j *berth.Job) bool { return j.Type == berth.TypeBatch || j.Type == berth.TypeSysbatch }

// unproven reports whether the newest version of a job has a deployment that
// has not succeeded. Until it does, placements use the version that was there
// before.
func (w *Sweep) unproven(j *berth.Job) bool {
	d := w.Snapshot.NewestDeployment(j.Key(), j.UID)
	return d != nil && d.JobVersion == j.Version && d.Status != berth.DeploymentSuccessful
}

// nodeLost reports whether the node of an allocation is down or gone.
func (w *Sweep) nodeLost(a *berth.Alloc) bool {
	n := w.Snapshot.Node(a.NodeID)
	return n == nil || n.Status == berth.NodeDown
}

// held returns a newer allocation that has the name of one that has ended, or
// nil.
func (w *Sweep) held(a *berth.Alloc) *berth.Alloc {
	h := w.of(a.Key()).names[holderOf(a)]
	if h == nil || !younger(h, a) {
		return nil
	}
	return h
}

// younger reports whether a was created after b. The ordinal decides between
// allocations of one plan.
func younger(a, b *berth.Alloc) bool {
	return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal)) > 0
}

// of collects what the allocations of a job need, once per job.
func (w *Sweep) of(k berth.JobKey) *holds {
	if h := w.ofJob[k]; h != nil {
		return h
	}
	h := &holds{followups: map[berth.EvalID][]berth.AllocID{}, names: map[holder]*berth.Alloc{}, zombies: map[berth.UID][]uint64{}}
	w.ofJob[k] = h
	j := w.Snapshot.Job(k)
	for a := range w.AllocsOf(k) {
		// All allocations count here, those of earlier incarnations too.
		if f := a.Rest().FollowupEval; !f.IsZero() {
			h.followups[f] = append(h.followups[f], a.ID)
		}
		if w.Zombie(a) {
			ref := a.Rest().PE
			h.zombies[ref.UID] = append(h.zombies[ref.UID], ref.Launch)
		}
		if a.Orphaned {
			h.orphans = append(h.orphans, a.ID)
		}
		// Names belong to the present incarnation only.
		if j == nil || a.Job.UID != j.UID || a.Orphaned {
			continue
		}
		if d := a.Rest().DeploymentStatus; d != nil && d.Canary {
			continue // it shares the name with another, which is still needed
		}
		done := (a.Wanted() && a.Client == berth.ClientComplete || a.Spent()) && (finishes(j) || a.Group.Once != "") && a.Job.Version == j.Version
		at := holderOf(a)
		if old := h.names[at]; (a.Live() || done) && (old == nil || younger(a, old)) {
			h.names[at] = a
		}
	}
	return h
}

// Eval takes an evaluation that has ended, if no remaining allocation needs it
// and neither the evaluation before it nor those after it are open.
func (w *Sweep) Eval(e *berth.Eval) (why string) {
	if !e.Terminal() {
		return "it is " + e.Status
	}
	for a := range w.AllocsBy(e.ID) {
		if !w.allocs[a.ID] {
			return "allocation " + a.ID.String() + " belongs to it"
		}
	}
	// A chain of evaluations goes from its old end.
	if p := w.Snapshot.Eval(e.PreviousEval); p != nil && !w.evals[p.ID] && (!p.Terminal() || p.NextEval == e.ID || p.BlockedEval == e.ID) {
		return "evaluation " + p.ID.String() + " leads to it"
	}
	for _, id := range [2]berth.EvalID{e.NextEval, e.BlockedEval} {
		if n := w.Snapshot.Eval(id); n != nil && !n.Terminal() {
			return "evaluation " + id.String() + ", to which it leads, is " + n.Status
		}
	}
	// Open ones that came from it show it as their cause.
	for _, ix := range [2]*cow.Tree[uint64]{&w.Snapshot.evals.pending, &w.Snapshot.evals.blocked} {
		for o := range of(&w.Snapshot.evals.rows, ix, keyHash(e.Key()), func(o *berth.Eval) bool { return o.Key() == e.Key() }) {
			if o.PreviousEval == e.ID || o.NextEval == e.ID || o.BlockedEval == e.ID {
				return "evaluation " + o.ID.String() + ", which came from it, is " + o.Status
			}
		}
	}
	for _, id := range w.of(e.Key()).followups[e.ID] {
		if !w.allocs[id] {
			return "allocation " + id.String() + " points to it"
		}
	}
	w.evals[e.ID] = true
	return ""
}

// Deployment takes a deployment that has ended, if no remaining allocation or
// evaluation needs it and it is not the one of the newest version of a running
// job.
func (w *Sweep) Deployment(d *berth.Deployment) (why string) {
	if d.Active() {
		return "it is " + d.Status
	}
	if j := w.wanted(d.Key(), d.JobUID); j != nil && j.Version == d.JobVersion {
		return "it belongs to the newest version of its job"
	}
	// Rows that refer to it go first.
	for a := range w.AllocsOf(d.Key()) {
		if a.Rest().DeploymentID == d.ID && !w.allocs[a.ID] {
			return "allocation " + a.ID.String() + " belongs to it"
		}
	}
	for e := range w.EvalsOf(d.Key()) {
		if e.DeploymentID == d.ID && !w.evals[e.ID] {
			return "evaluation " + e.ID.String() + " is about it"
		}
	}
	w.deployments[d.ID] = true
	return ""
}

// Node takes a node that is down and has no allocations.
func (w *Sweep) Node(n *berth.Node) (why string) {
	if n.Status != berth.NodeDown {
		return "it is " + n.Status
	}
	for a := range w.AllocsOn(n.ID) {
		if !w.allocs[a.ID] {
			return "allocation " + a.ID.String() + " is on it"
		}
	}
	w.nodes[n.ID] = true
	return ""
}

// Took reports whether the sweep took an allocation.
func (w *Sweep) Took(id berth.AllocID) bool { return w.allocs[id] }

// TookEval reports whether the sweep took an evaluation.
func (w *Sweep) TookEval(id berth.EvalID) bool { return w.evals[id] }

// TookDeployment reports whether the sweep took a deployment.
func (w *Sweep) TookDeployment(id berth.DeploymentID) bool { return w.deployments[id] }

// Deployments returns all deployments in order of ID.
func (s *Snapshot) Deployments() iter.Seq[*berth.Deployment] {
	return rowsOf(&s.deployments.rows, s.deployments.byID.All())
}

// Explanations returns all explanations in order of their evaluations' IDs.
func (s *Snapshot) Explanations() iter.Seq[*Explanation] {
	return rowsOf(&s.explanations.rows, s.explanations.byEval.All())
}

// AllReschedules returns all reschedule records, ordered by incarnation.
func (s *Snapshot) AllReschedules() iter.Seq[*Reschedules] {
	return rowsOf(&s.reschedules.rows, s.reschedules.byName.All())
}
