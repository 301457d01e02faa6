// Package reconcile compares what a job wants with what there is, and says
// what must change: which instances to place, to stop, to carry over to the
// job's new version, and which failed ones to replace later. It does not say
// where; package place does. It is a function of its input alone.
package reconcile

import (
	"cmp"
	"slices"
	"time"

	"berth"
)

// Input is what there is.
type Input struct {
	Job    *berth.Job // nil if the job was purged
	UID    berth.UID  // the incarnation that the evaluation means
	Eval   berth.EvalID
	Allocs []*berth.Alloc // of the job's name, in any order, of any incarnation
	Now    time.Time
	// Node returns a node, nil if it is gone.
	Node func(berth.NodeID) *berth.Node
	// Feasible says whether a node meets the conditions of a group of Job,
	// without regard to room.
	Feasible func(group int, n *berth.Node) bool
	// Replaced returns how often an instance was replaced because it failed,
	// and when: the newest replacements, oldest first.
	Replaced func(group string, index uint32) (streak int, events []berth.RescheduleEvent)
	// Waiting says whether an evaluation is there, has not ended, and its time
	// has not come. One whose time has come may be superseded by the one in
	// hand, so nothing can be left to it.
	Waiting func(berth.EvalID) bool
}

// Missing is an instance that wants a place.
type Missing struct {
	Group    int // in Job.TaskGroups
	Index    uint32
	Previous *berth.Alloc // what it replaces, nil if nothing
	Failed   bool         // Previous failed: the replacement counts as a reschedule
}

// Later is a time at which failed allocations are to be replaced.
type Later struct {
	At     time.Time
	Allocs []berth.AllocID
}

// Counts says what is changed of one group.
type Counts struct {
	Place, Stop, Update, Replace, Ignore, Later int
}

// Result is what must change. Missing instances are in order of group and
// index; stops and updates in order of group and index of what they stop.
type Result struct {
	Missing []Missing
	Stop    []berth.AllocStop
	Update  []berth.AllocID
	Later   []Later
	Counts  map[string]*Counts // by group
}

// Compare returns what must change. It does not change its input; the order of
// Allocs does not matter.
func Compare(in Input) Result {
	r := &reconciler{Input: in, changed: map[versions]bool{}}
	r.Counts = map[string]*Counts{}
	allocs := slices.Clone(in.Allocs)
	slices.SortFunc(allocs, func(a, b *berth.Alloc) int {
		return cmp.Or(cmp.Compare(a.Group.Name, b.Group.Name), cmp.Compare(a.Index, b.Index),
			cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	groups := map[string][]*berth.Alloc{}
	for _, a := range allocs {
		switch {
		case a.Orphaned:
		case in.Job == nil || in.Job.Stop:
			r.end(a, berth.StopJobEnded)
		case a.Job.UID != in.Job.UID:
			r.end(a, berth.StopOldJob)
		case in.Job.Group(a.Group.Name) == nil:
			r.end(a, berth.StopGroupGone)
		default:
			groups[a.Group.Name] = append(groups[a.Group.Name], a)
		}
	}
	if in.Job != nil && !in.Job.Stop {
		for i, g := range in.Job.TaskGroups {
			r.group(i, g, groups[g.Name])
		}
	}
	r.mergeLater()
	return r.Result
}

type reconciler struct {
	Input
	Result
	changed map[versions]bool // by version of the job and group: whether the tasks are others now
}

type versions struct {
	old   *berth.Job
	group *berth.TaskGroup // of the new version
}

// end stops an allocation that no group wants.
func (r *reconciler) end(a *berth.Alloc, why string) {
	switch {
	case a.Ended():
	case r.lost(a):
		r.stop(a, berth.StopNodeLost, berth.ClientLost)
	case a.Wanted():
		r.stop(a, why, berth.ClientPending)
	}
}

// lost says whether the node of an allocation is down or gone.
func (r *reconciler) lost(a *berth.Alloc) bool {
	n := r.Node(a.NodeID)
	return n == nil || n.Status == berth.NodeDown
}

func (r *reconciler) stop(a *berth.Alloc, why string, client berth.ClientStatus) {
	r.Stop = append(r.Stop, berth.AllocStop{ID: a.ID, Description: why, Client: client})
	r.counts(a.Group.Name).Stop++
}

func (r *reconciler) counts(group string) *Counts {
	c := r.Counts[group]
	if c == nil {
		c = &Counts{}
		r.Counts[group] = c
	}
	return c
}

// instances is what is found out about one group.
type instances struct {
	index  int
	group  *berth.TaskGroup
	counts *Counts
	kept   map[uint32]*berth.Alloc // by index: what holds the name and stays
	done   map[uint32]bool         // by index: a batch instance that finished
	again  map[uint32]Missing      // by index: what is to be replaced at once
}

func (r *reconciler) group(i int, g *berth.TaskGroup, allocs []*berth.Alloc) {
	in := &instances{
		index: i, group: g, counts: r.counts(g.Name),
		kept: map[uint32]*berth.Alloc{}, done: map[uint32]bool{}, again: map[uint32]Missing{},
	}
	for _, a := range allocs {
		r.judge(in, a)
	}
	for index := range uint32(g.Count) {
		if in.kept[index] != nil || in.done[index] {
			continue
		}
		m, ok := in.again[index]
		if !ok {
			m = Missing{Group: i, Index: index}
		}
		r.Missing = append(r.Missing, m)
		in.counts.Place++
	}
}

// judge decides about one allocation of a group.
func (r *reconciler) judge(in *instances, a *berth.Alloc) {
	switch {
	case !a.Wanted():
		if !a.Ended() && r.lost(a) {
			r.stop(a, berth.StopNodeLost, berth.ClientLost)
		}
		r.owed(in, a)
	case a.Client == berth.ClientComplete:
		r.completed(in, a)
	case a.Client == berth.ClientFailed:
		r.failed(in, a)
	case a.Ended(): // lost, and told so before
	case a.Index >= uint32(in.group.Count) || in.kept[a.Index] != nil:
		if r.lost(a) {
			r.stop(a, berth.StopNodeLost, berth.ClientLost)
		} else {
			r.stop(a, berth.StopSurplus, berth.ClientPending)
		}
	case r.lost(a):
		r.stop(a, berth.StopNodeLost, berth.ClientLost)
		r.replace(in, Missing{Group: in.index, Index: a.Index, Previous: a})
	default:
		r.living(in, a)
	}
}

// replace notes that an instance is to be replaced at once. Of several that
// bear its name the newest counts; allocations come in order of age.
func (r *reconciler) replace(in *instances, m Missing) { in.again[m.Index] = m }

// owed handles an allocation that was stopped to be replaced. If there was no
// room then, what gets a place now replaces it, and is a reschedule if that
// would have been one: a full cluster gives nobody further attempts.
func (r *reconciler) owed(in *instances, a *berth.Alloc) {
	if !a.Rest().Next.IsZero() {
		return
	}
	switch a.Rest().DesiredDescription {
	case berth.StopReplaced, berth.StopUnfit, berth.StopNodeLost:
		r.replace(in, Missing{Group: in.index, Index: a.Index, Previous: a})
	case berth.StopFailed:
		r.replace(in, Missing{Group: in.index, Index: a.Index, Previous: a, Failed: !r.renewed(in, a)})
	}
}

// renewed says whether the newest version has other tasks than an allocation.
func (r *reconciler) renewed(in *instances, a *berth.Alloc) bool {
	return a.Job.Version != r.Job.Version && r.differs(a, in.group)
}

// living compares an allocation that runs with the job's newest version.
func (r *reconciler) living(in *instances, a *berth.Alloc) {
	switch {
	case a.Job.Version == r.Job.Version:
		in.kept[a.Index] = a
		in.counts.Ignore++
	case r.differs(a, in.group):
		r.renew(in, a, berth.StopReplaced)
	case !r.Feasible(in.index, r.Node(a.NodeID)):
		r.renew(in, a, berth.StopUnfit)
	default:
		in.kept[a.Index] = a
		r.Update = append(r.Update, a.ID)
		in.counts.Update++
	}
}

// renew replaces an allocation by one of the newest version.
func (r *reconciler) renew(in *instances, a *berth.Alloc, why string) {
	r.stop(a, why, berth.ClientPending)
	r.replace(in, Missing{Group: in.index, Index: a.Index, Previous: a})
	in.counts.Replace++
}

// completed handles an allocation whose tasks all ended well. A batch instance
// is finished for good, unless a new version has other tasks; a service is not
// supposed to end, so it is placed anew.
func (r *reconciler) completed(in *instances, a *berth.Alloc) {
	switch {
	case r.Job.Type == berth.TypeBatch && !r.differs(a, in.group):
		in.done[a.Index] = true
		delete(in.again, a.Index)
		in.counts.Ignore++
	case r.Job.Type == berth.TypeBatch:
	default:
		m := Missing{Group: in.index, Index: a.Index}
		if a.Rest().Next.IsZero() {
			m.Previous = a
		}
		r.replace(in, m)
	}
}

// failed handles an allocation that failed for good on its node: it is
// replaced now, or later, or stays as it is, as the policy has it.
func (r *reconciler) failed(in *instances, a *berth.Alloc) {
	switch {
	case a.Index >= uint32(in.group.Count) || in.kept[a.Index] != nil:
		return
	case r.renewed(in, a):
		r.renew(in, a, berth.StopReplaced) // it may do better, so it starts at once
		return
	}
	due, ok := r.due(in.group, a)
	switch {
	case !ok: // no replacement: the failed one keeps the name
		in.kept[a.Index] = a
		in.counts.Ignore++
	case !due.After(r.Now) || a.Rest().FollowupEval == r.Eval && !r.Eval.IsZero():
		r.stop(a, berth.StopFailed, berth.ClientPending)
		r.replace(in, Missing{Group: in.index, Index: a.Index, Previous: a, Failed: true})
	default:
		in.kept[a.Index] = a
		in.counts.Later++
		if f := a.Rest().FollowupEval; f.IsZero() || !r.Waiting(f) {
			r.Later = append(r.Later, Later{due, []berth.AllocID{a.ID}})
		}
	}
}

// due returns when a failed allocation is to be replaced; not ok is never.
func (r *reconciler) due(g *berth.TaskGroup, a *berth.Alloc) (at time.Time, ok bool) {
	p := g.ReschedulePolicy
	if !p.Enabled() {
		return at, false
	}
	streak, events := r.Replaced(g.Name, a.Index)
	ran, ended := a.Ran()
	if !p.Unlimited {
		// Counted when it failed: else what was given up would be wanted again
		// later, without anything happening, and nothing would look.
		recent := 0
		for _, e := range events {
			if ended.Sub(time.Unix(0, e.RescheduleTime)) < p.Interval {
				recent++
			}
		}
		if recent >= p.Attempts {
			return at, false
		}
	}
	return ended.Add(p.Wait(p.Streak(streak, ran))), true
}

// differs says whether the tasks of an allocation must be replaced to become
// those of the group in the job's newest version.
func (r *reconciler) differs(a *berth.Alloc, g *berth.TaskGroup) bool {
	if a.Job == r.Job {
		return false
	}
	k := versions{a.Job, g}
	d, ok := r.changed[k]
	if !ok {
		d = mustReplace(a.Job, a.Group, r.Job, g)
		r.changed[k] = d
	}
	return d
}

// laterWindow is how far apart two times may lie that one evaluation serves.
const laterWindow = 5 * time.Second

// mergeLater joins times that lie close together: at the first of them all are
// replaced, the last a little early.
func (r *reconciler) mergeLater() {
	slices.SortStableFunc(r.Later, func(a, b Later) int { return a.At.Compare(b.At) })
	var out []Later
	for _, l := range r.Later {
		if n := len(out); n > 0 && l.At.Sub(out[n-1].At) < laterWindow {
			out[n-1].Allocs = append(out[n-1].Allocs, l.Allocs...)
			continue
		}
		out = append(out, l)
	}
	r.Later = out
}
