package reconcile

import (
	"cmp"
	"slices"

	"berth"
	"berth/internal/state"
)

// Wait is a group that another one waits for.
type Wait struct {
	Group  string
	Ready  int    // instances that are
	Wanted int    // instances that must be
	State  string // what each of them must be: one of the Wait constants
}

// What an instance must be for the groups that wait for it.
const (
	WaitHealthy  = "healthy"  // its deployment says so
	WaitRunning  = "running"  // no deployment follows its group
	WaitFinished = "finished" // it runs to its end
)

// inOrder reconciles each group after those that it waits for. What there was
// before is replaced at any time, also while a group waits; what is new in the
// job's newest version is not.
func (r *reconciler) inOrder(groups []*group) {
	if r.Job == nil || !r.Job.Ordered() {
		for _, g := range groups {
			g.reconcile()
		}
		return
	}
	begun := map[*group]bool{}
	for _, g := range groups {
		g.reconcileAfter(groups, begun)
	}
	slices.SortStableFunc(r.Missing, func(a, b Missing) int { return cmp.Compare(a.Group, b.Group) })
}

// reconcileAfter reconciles the groups that this one waits for, and then this
// one. Jobs whose groups wait for each other in a circle are not admitted; one
// would end here as well, with the first group not waiting for the last.
func (g *group) reconcileAfter(groups []*group, begun map[*group]bool) {
	if begun[g] {
		return
	}
	begun[g] = true
	for _, spec := range g.Job.Awaits(g.spec) {
		first := groupNamed(groups, spec.Name)
		first.reconcileAfter(groups, begun)
		if w, ready := first.ready(); !ready {
			g.waits = append(g.waits, w)
		}
	}
	if len(g.waits) > 0 {
		if g.Waits == nil {
			g.reconciler.Waits = map[string][]Wait{}
		}
		g.Waits[g.spec.Name] = g.waits
	}
	g.reconcile()
}

// ready reports whether the groups that wait for this one can go on: all its
// instances have the job's newest version, and are healthy, run or have
// finished. One that waits itself is not ready.
func (g *group) ready() (w Wait, ready bool) {
	w = Wait{Group: g.spec.Name, Wanted: g.spec.Count, State: WaitRunning}
	switch {
	case g.Job.Finite(g.spec):
		w.State = WaitFinished
	case g.roll.state != nil:
		w.State = WaitHealthy
	}
	for i := range g.slots {
		if g.slots[i].ready(g, w.State) {
			w.Ready++
		}
	}
	return w, w.Ready == w.Wanted && len(g.waits) == 0 && g.roll.canaries == 0
}

// ready reports whether an instance is what others wait for.
func (s *slot) ready(g *group, want string) bool {
	if want == WaitFinished {
		return s.done && !s.spent
	}
	a := s.keep
	if a == nil {
		a = s.outgoing
	}
	switch {
	case a == nil || s.delayed || a.Client != berth.ClientRunning:
		return false
	case g.member(a):
		return !s.update && g.healthy(a)
	case g.roll.stepwise: // it becomes part of the deployment when it is updated or replaced
		return false
	}
	return s.update || a.Job.Version == g.Job.Version
}

// judgeOnce decides what happens to the allocations of a name of a group that
// runs once in each version. A run of an older version is stopped, and ends
// before that of the newest begins: two of them may not run side by side.
func (g *group) judgeOnce(s *slot, allocs []*berth.Alloc) {
	last := allocs[len(allocs)-1]
	if state.SameRun(last, g.Job) {
		allocs = allocs[:len(allocs)-1]
	} else {
		last = nil
	}
	busy := false
	for _, a := range allocs {
		switch {
		case a.Ended():
		case g.lost(a):
			g.stop(a, g.lostReason(a), berth.ClientLost)
		default:
			busy = true
			if a.Wanted() {
				g.stop(a, berth.StopReplaced, berth.ClientPending)
			}
		}
	}
	switch {
	case last != nil:
		g.judge(s, []*berth.Alloc{last})
	case busy:
		s.delayed = true
	}
}
