package reconcile

import (
	"berth"
	"berth/internal/state"
)

// group is one group of the job's newest version, with what was found out about
// it.
type group struct {
	*reconciler
	index  int              // in Job.TaskGroups
	spec   *berth.TaskGroup // of the newest version
	counts *Counts          // what is shown of the group's changes
	allocs []*berth.Alloc   // in order of index and age
	roll   rollout          // what a deployment lets the group do
	waits  []Wait           // the groups that must come first and are not ready

	owed     map[uint32]int // replacements of failed allocations that are not recorded yet, by index; see owes
	slots    []slot         // one for each index below the count
	canaries []slot         // one for each index that a canary has
}

// slot is one name of a group and what happens to it. At most one of keep, old,
// done and replacement is set; none if no allocation has the name.
type slot struct {
	index       uint32
	canary      bool
	keep        *berth.Alloc     // has the name and stays
	old         *berth.Alloc     // has the name until one of the newest version replaces it
	why         berth.StopReason // why old is replaced
	done        bool             // a batch instance that finished, or one of a group that runs once
	spent       bool             // with done: a drain ended it instead
	placeNow    bool             // replacement is placed now
	outgoing    *berth.Alloc     // keeps running until replacement is up, which can take long if there is no capacity
	replacement Missing
	last        *berth.Alloc // the newest with the name
	update      bool         // keep is updated in place
	delayed     bool         // keep is replaced later
}

// reconcile judges the names of the group one by one, then moves the group
// towards the newest version.
func (g *group) reconcile() {
	plain, canaries := g.splitCanaries()
	// Allocations are sorted by index, so each slot takes a run of them.
	g.slots = make([]slot, g.spec.Count)
	for i := range g.slots {
		s := &g.slots[i]
		s.index = uint32(i)
		n := 0
		for n < len(plain) && plain[n].Index == s.index {
			n++
		}
		switch {
		case n == 0:
		case g.spec.Once != "":
			g.judgeOnce(s, plain[:n])
		default:
			g.judge(s, plain[:n])
		}
		plain = plain[n:]
	}
	// What is left has an index above the count.
	g.stopSurplus(plain)
	for len(canaries) > 0 {
		n := 1
		for n < len(canaries) && canaries[n].Index == canaries[0].Index {
			n++
		}
		if int(canaries[0].Index) >= g.spec.Count {
			g.stopSurplus(canaries[:n])
		} else {
			s := slot{index: canaries[0].Index, canary: true}
			g.judge(&s, canaries[:n])
			g.canaries = append(g.canaries, s)
		}
		canaries = canaries[n:]
	}
	// Only when every slot is judged is it known how many may be updated now.
	g.update()
	g.place()
}

// stopSurplus stops allocations whose index is not below the count. So lowering
// the count always stops the highest indexes, whatever state they are in.
func (g *group) stopSurplus(allocs []*berth.Alloc) {
	for _, a := range allocs {
		switch {
		case a.Live():
			g.stopOrLose(a, berth.StopSurplus)
		case !a.Ended() && g.lost(a):
			g.stop(a, g.lostReason(a), berth.ClientLost)
		}
	}
}

// judge decides what happens to the allocations of one name, oldest first. One
// that runs on a reachable node keeps the name. Without one, the newest of
// the others decides.
func (g *group) judge(s *slot, allocs []*berth.Alloc) {
	s.last = allocs[len(allocs)-1]
	if len(allocs) == 1 && g.keepOnly(s, s.last) {
		return
	}
	var here []*berth.Alloc
	var decides, waits *berth.Alloc // among those not in here
	var outlasts *berth.Alloc       // must leave its node, but runs until its replacement is up
	isSpent := false                // the newest of those not in here gets no successor
	for _, a := range allocs {
		switch g.fate(a) {
		case present:
			here = append(here, a)
		case finished:
			s.done = true
		case spent:
			if !a.Ended() && g.lost(a) {
				g.stop(a, berth.StopMigrated, berth.ClientLost)
			}
			decides, isSpent = nil, true
		case lost:
			g.stop(a, g.lostReason(a), berth.ClientLost)
			if a.Wanted() || awaitsReplacement(a) {
				decides = a
			}
		case gone:
			if awaitsReplacement(a) {
				decides = a
			}
		case moving:
			if g.endsWithDrain(a) {
				g.stop(a, berth.StopMigrated, berth.ClientPending)
				decides, isSpent = nil, true
				continue
			}
			if !a.Rest().Relocate && g.spec.Migration().StartFirst {
				outlasts, decides = a, nil // the drain stops it later
				continue
			}
			g.stop(a, moveReason(a), berth.ClientPending)
			decides = a
		case unreachable:
			if a.Rest().Next.IsZero() {
				waits = a
			} else {
				decides = a
			}
		case failed:
			// One that runs had the name until now: this one stood in for it and
			// failed.
			if decides == nil || decides.Client != berth.ClientRunning {
				decides = a
			}
		default:
			decides = a
		}
	}
	if waits != nil { // it was not replaced yet
		decides = waits
	}
	switch {
	case s.done: // an instance finished while it, or the one that came back, was disconnected
		decides = nil
		for _, a := range here {
			g.stopOrLose(a, berth.StopDone)
		}
	case len(here) > 0:
		decides = nil
		g.chooseHolder(s, here)
	case decides != nil:
		g.decideSuccessor(s, decides)
	case outlasts != nil:
		g.replace(s, outlasts)
		s.outgoing = outlasts
	case isSpent:
		s.done, s.spent = true, true
	}
	for _, a := range allocs {
		if a != decides {
			g.handleOther(s, a)
		}
	}
}

// handleOther handles an allocation that neither has the name nor decides who
// gets it.
func (g *group) handleOther(s *slot, a *berth.Alloc) {
	replaced := !a.Rest().Next.IsZero()
	taken := s.old != nil || s.placeNow || s.keep != nil && !s.keep.Ended() // another one has or gets its name
	switch f := g.fate(a); {
	case f == failed && (replaced || taken): // replaced: it failed while disconnected
		g.stop(a, berth.StopRejoined, berth.ClientPending)
	case f == unreachable && !replaced: // the one it stood in for is back
		g.stop(a, berth.StopRejoined, berth.ClientPending)
	case f == unreachable:
		g.waitDisconnected(a)
	}
}

// keepOnly handles the common case, a single running allocation of the newest
// version, and reports whether it applied.
func (g *group) keepOnly(s *slot, a *berth.Alloc) bool {
	if !a.Wanted() || a.Client > berth.ClientRunning || a.Job.Version != g.Job.Version || a.Rest().Relocate {
		return false
	}
	if n := g.Node(a.NodeID); n == nil || n.Status == berth.NodeDown || n.Status == berth.NodeDisconnected || n.Draining() {
		return false
	}
	s.keep = a
	return true
}

// fate is what happened to an allocation.
type fate uint8

const (
	present     fate = iota // it should run, and its node is reachable
	unreachable             // it should run, and its node is disconnected
	moving                  // it should run on another node
	lost                    // it is lost with its node
	failed                  // it should run, but failed
	ended                   // it should run, but ended without failing
	finished                // a batch instance that completed
	gone                    // it was stopped
	spent                   // a batch instance that a drain stopped; it gets no successor
)

// fate returns what an allocation is to its group now. The order of the cases
// decides: what is over comes before what the node's state makes of it.
func (g *group) fate(a *berth.Alloc) fate {
	switch {
	case a.Client == berth.ClientComplete && a.Wanted() && g.Job.Finite(g.spec) && !state.CutOff(a):
		if g.spec.Once == "" && g.differs(a, g.spec) {
			return gone
		}
		return finished
	case a.Spent() && g.Job.Type == berth.TypeBatch && !g.differs(a, g.spec):
		return spent
	case !a.Ended() && g.lost(a):
		return lost
	case !a.Wanted(), a.Client == berth.ClientLost: // reported lost by its agent: it gets no successor
		return gone
	case a.Client == berth.ClientFailed:
		return failed
	case a.Ended():
		return ended
	case g.mustMove(a):
		return moving
	case g.disconnected(a):
		return unreachable
	}
	return present
}

// awaitsReplacement reports whether an allocation was stopped to be replaced,
// and its replacement found no capacity yet.
func awaitsReplacement(a *berth.Alloc) bool {
	if a.Wanted() || !a.Rest().Next.IsZero() {
		return false
	}
	if a.Desired == berth.DesiredEvict {
		return true
	}
	switch a.Rest().StopReason {
	case berth.StopReplaced, berth.StopUnfit, berth.StopNodeLost, berth.StopAway, berth.StopFailed, berth.StopMigrated, berth.StopWanted:
		return true
	}
	return false
}

// mustMove reports whether an allocation must leave its node now.
func (g *group) mustMove(a *berth.Alloc) bool {
	m := a.Rest()
	if !m.Migrate || m.Relocate {
		return m.Relocate
	}
	n := g.Node(a.NodeID)
	return n != nil && n.Draining()
}

// endsWithDrain reports whether an allocation that must leave its node is not
// placed again: a batch instance had until the drain's deadline to finish. It
// is placed again if the newest version differs, if a user asked for the move,
// or if it was replaced before while it was disconnected.
func (g *group) endsWithDrain(a *berth.Alloc) bool {
	return g.Job.Type == berth.TypeBatch && !a.Rest().Relocate && a.Rest().Next.IsZero() && !g.differs(a, g.spec)
}

// moveReason returns why an allocation is stopped and placed again.
func moveReason(a *berth.Alloc) berth.StopReason {
	if a.Rest().Relocate {
		return berth.StopWanted
	}
	return berth.StopMigrated
}

// chooseHolder lets one of the running allocations keep the name and stops the
// others.
func (g *group) chooseHolder(s *slot, here []*berth.Alloc) {
	a := here[0]
	if len(here) > 1 {
		a = g.pickHolder(here)
	}
	for _, x := range here {
		if x != a {
			g.stopOrLose(x, g.yieldReason(x, a))
		}
	}
	g.compareVersion(s, a)
}

// yieldReason returns why an allocation loses its name to another.
func (g *group) yieldReason(a, to *berth.Alloc) berth.StopReason {
	switch {
	case g.differs(a, g.spec) && !g.differs(to, g.spec):
		return berth.StopReplaced
	case g.standInPair(a, to):
		return berth.StopRejoined
	}
	return berth.StopSurplus
}

// compareVersion compares a running allocation with the job's newest version. If
// that says nothing new about where the group may run, the allocation stays, even
// if its node has changed meanwhile.
func (g *group) compareVersion(s *slot, a *berth.Alloc) {
	switch {
	case a.Job.Version == g.Job.Version:
		s.keep = a
	case g.differs(a, g.spec):
		s.old, s.why = a, berth.StopReplaced
	case newConditions(a.Job, a.Group, g.Job, g.spec) && !g.Feasible(g.index, g.Node(a.NodeID)):
		s.old, s.why = a, berth.StopUnfit
	case len(g.waits) > 0: // it goes to the newest version in its turn
		s.keep = a
	default:
		s.keep, s.update = a, true
		g.Update = append(g.Update, a.ID)
	}
}

// decideSuccessor decides what follows the newest allocation of a name that no
// running allocation has.
func (g *group) decideSuccessor(s *slot, a *berth.Alloc) {
	if !a.Wanted() {
		g.replaceOwed(s, a)
		return
	}
	switch g.fate(a) {
	case unreachable:
		g.standIn(s, a)
	case failed:
		g.handleFailed(s, a)
	case moving:
		g.replace(s, a)
		g.counts.Migrate++
	case lost, ended: // a service must not end
		g.replace(s, a)
	}
}

// replaceOwed places the replacement of a stopped allocation that found no
// capacity earlier. It counts as a reschedule if it would have been one then: a
// full cluster grants no extra attempts. One that was stopped for the newest
// version keeps its own if the newest may not be placed any more.
func (g *group) replaceOwed(s *slot, a *berth.Alloc) {
	g.replace(s, a)
	if a.Rest().StopReason == berth.StopFailed {
		s.replacement.Failed = s.replacement.OldVersion || !g.outdated(a)
	}
}

// replace marks the successor of an allocation to be placed now. If the
// allocation already had a stand-in, the stand-in takes its place in the chain
// and determines the version.
func (g *group) replace(s *slot, a *berth.Alloc) {
	if !a.Rest().Next.IsZero() && g.roll.keepsOld() && s.last != nil {
		a = s.last
	}
	s.placeNow = true
	s.replacement = Missing{Group: g.index, Index: s.index, Canary: s.canary}
	if a.Rest().Next.IsZero() {
		s.replacement.Previous, s.replacement.OldVersion = a, g.keepsVersion(a)
	}
}

// outdated reports whether the newest version has different tasks than an
// allocation.
func (g *group) outdated(a *berth.Alloc) bool {
	return a.Job.Version != g.Job.Version && g.differs(a, g.spec)
}

// differs reports whether an allocation must be replaced to run the tasks of
// the group in the job's newest version.
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
