package reconcile

import "berth"

// group is one group of the job's newest version, and what is found out about
// it.
type group struct {
	*reconciler
	index  int // in Job.TaskGroups
	spec   *berth.TaskGroup
	counts *Counts
	allocs []*berth.Alloc // in order of index and age
	roll   rollout

	slots    []slot // one for each index below the count
	canaries []slot // one for each index that a canary has
}

// slot is a name of a group: what bears it, and what is to become of it. At
// most one of keep, old, done and again is set; none if nothing bears it.
type slot struct {
	index       uint32
	canary      bool
	keep        *berth.Alloc // it has the name, and stays
	old         *berth.Alloc // it has the name until it is replaced by one of the newest version
	why         string       // why old is to be replaced
	done        bool         // a batch instance that finished
	placeNow    bool         // again is to be placed now
	outgoing    *berth.Alloc // it serves until again is up, which may be long: there can be no room
	replacement Missing
	last        *berth.Alloc // the newest that had the name
	update      bool         // keep is carried over to the newest version
	delayed     bool         // keep is to be replaced at its time
}

// reconcile judges the names of the group one by one, and then lets the group
// go on towards the newest version.
func (g *group) reconcile() {
	plain, canaries := g.splitCanaries()
	g.slots = make([]slot, g.spec.Count)
	for i := range g.slots {
		s := &g.slots[i]
		s.index = uint32(i)
		n := 0
		for n < len(plain) && plain[n].Index == s.index {
			n++
		}
		if n > 0 {
			g.judge(s, plain[:n])
			plain = plain[n:]
		}
	}
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
	g.update()
	g.place()
}

// stopSurplus stops what has a name that the group does not have any more. Names
// are the indexes below the count, so counting down always stops the highest,
// whatever state they are in.
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

// judge decides what becomes of the allocations of one name, oldest first. One
// that runs where it can be heard keeps the name; if none does, the newest of
// the others decides.
func (g *group) judge(s *slot, allocs []*berth.Alloc) {
	s.last = allocs[len(allocs)-1]
	if len(allocs) == 1 && g.keepOnly(s, s.last) {
		return
	}
	var here []*berth.Alloc
	var decides, waits *berth.Alloc // of those that are not here
	var outlasts *berth.Alloc       // it runs where it should not, until what replaces it is up
	isSpent := false                // nothing follows on the newest of those that are not here
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
				outlasts, decides = a, nil // the drain stops it in its time
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
		default:
			decides = a
		}
	}
	if waits != nil { // nothing came after it
		decides = waits
	}
	switch {
	case s.done: // while it was not heard, or while what came back was not
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
		s.done = true
	}
	for _, a := range allocs {
		if a != decides {
			g.handleOther(s, a)
		}
	}
}

// handleOther handles one that neither has the name nor decides who gets it.
func (g *group) handleOther(s *slot, a *berth.Alloc) {
	replaced := !a.Rest().Next.IsZero()
	switch f := g.fate(a); {
	case f == failed && (replaced || s.old != nil || s.placeNow): // while it was not heard; or another has its name, or gets it
		g.stop(a, berth.StopRejoined, berth.ClientPending)
	case f == unreachable && !replaced: // what it stood in for is heard again
		g.stop(a, berth.StopRejoined, berth.ClientPending)
	case f == unreachable:
		g.waitDisconnected(a)
	}
}

// keepOnly handles what is the case for nearly all: one allocation that runs, and
// of the newest version.
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

// fate is what became of an allocation.
type fate uint8

const (
	present     fate = iota // it should run, and is on a node that is heard
	unreachable             // it should run, and cannot be heard
	moving                  // it should run elsewhere
	lost                    // its node is lost, and it with it
	failed                  // it should run, and failed
	ended                   // it should run, and ended well
	finished                // it was to end well, and did
	gone                    // it was stopped
	spent                   // a batch instance that a drain stopped: nothing follows
)

func (g *group) fate(a *berth.Alloc) fate {
	switch {
	case a.Client == berth.ClientComplete && a.Wanted() && g.Job.Type == berth.TypeBatch:
		if g.differs(a, g.spec) {
			return gone
		}
		return finished
	case a.Spent() && g.Job.Type == berth.TypeBatch && !g.differs(a, g.spec):
		return spent
	case !a.Ended() && g.lost(a):
		return lost
	case !a.Wanted(), a.Client == berth.ClientLost: // lost as its agent says: nothing to follow on
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

// awaitsReplacement says whether an allocation was stopped to be replaced and was not yet:
// there was no room.
func awaitsReplacement(a *berth.Alloc) bool {
	if a.Wanted() || !a.Rest().Next.IsZero() {
		return false
	}
	if a.Desired == berth.DesiredEvict {
		return true
	}
	switch a.Rest().DesiredDescription {
	case berth.StopReplaced, berth.StopUnfit, berth.StopNodeLost, berth.StopAway, berth.StopFailed, berth.StopMigrated, berth.StopWanted:
		return true
	}
	return false
}

// mustMove says whether an allocation is to leave its node now.
func (g *group) mustMove(a *berth.Alloc) bool {
	m := a.Rest()
	if !m.Migrate || m.Relocate {
		return m.Relocate
	}
	n := g.Node(a.NodeID)
	return n != nil && n.Draining()
}

// endsWithDrain says whether an allocation that is to leave its node is not placed
// anew: one that is meant to end had until the drain's deadline. In another
// version it gets another chance, and so it does if a user wants it elsewhere
// or if it was replaced before, while it was not heard.
func (g *group) endsWithDrain(a *berth.Alloc) bool {
	return g.Job.Type == berth.TypeBatch && !a.Rest().Relocate && a.Rest().Next.IsZero() && !g.differs(a, g.spec)
}

// moveReason is why an allocation is stopped to be placed anew.
func moveReason(a *berth.Alloc) string {
	if a.Rest().Relocate {
		return berth.StopWanted
	}
	return berth.StopMigrated
}

// chooseHolder lets one of the allocations that run keep the name, and stops the
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

// yieldReason says why an allocation must give way to another of its name.
func (g *group) yieldReason(a, to *berth.Alloc) string {
	switch {
	case g.differs(a, g.spec) && !g.differs(to, g.spec):
		return berth.StopReplaced
	case g.standInPair(a, to):
		return berth.StopRejoined
	}
	return berth.StopSurplus
}

// compareVersion compares an allocation that runs with the job's newest version.
func (g *group) compareVersion(s *slot, a *berth.Alloc) {
	switch {
	case a.Job.Version == g.Job.Version:
		s.keep = a
	case g.differs(a, g.spec):
		s.old, s.why = a, berth.StopReplaced
	case !g.Feasible(g.index, g.Node(a.NodeID)):
		s.old, s.why = a, berth.StopUnfit
	default:
		s.keep, s.update = a, true
		g.Update = append(g.Update, a.ID)
	}
}

// decideSuccessor decides what comes after the newest allocation of a name that no
// running one has.
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
	case lost, ended: // a service is not supposed to end
		g.replace(s, a)
	}
}

// replaceOwed places what an allocation was stopped for and found no room then. It is
// a reschedule if it would have been one: a full cluster gives nobody further
// attempts.
func (g *group) replaceOwed(s *slot, a *berth.Alloc) {
	g.replace(s, a)
	switch a.Rest().DesiredDescription {
	case berth.StopFailed:
		s.replacement.Failed = s.replacement.OldVersion || !g.outdated(a)
	case berth.StopReplaced, berth.StopUnfit:
		s.replacement.OldVersion = false // it made room for the newest version
	}
}

// replace lets what comes after an allocation be placed at once. One that had a
// stand-in, which went before it, has its place in the chain taken: then the
// stand-in says which version is wanted.
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

// outdated says whether the newest version has other tasks than an allocation.
func (g *group) outdated(a *berth.Alloc) bool {
	return a.Job.Version != g.Job.Version && g.differs(a, g.spec)
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
