package reconcile

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"berth"
)

// PerNodeInput is the current state of a job that runs on every node. Replaced
// of Input is not used.
type PerNodeInput struct {
	Input
	// Nodes are the nodes that take allocations.
	Nodes []*berth.Node
	// Keeps reports whether an instance of a group of Job may stay on a node as
	// far as constraints are concerned; Feasible reports whether a new one may
	// be placed there.
	Keeps func(group int, n *berth.Node) bool
	// Recovers reports whether a node may soon become feasible for a group: only
	// a driver is unhealthy.
	Recovers func(group int, n *berth.Node) bool
	// Retry reports whether a failed allocation is tried again.
	Retry func(*berth.Alloc) bool
	// BatchPending reports that another evaluation will start the next batch of
	// this version's update. Until then no further batch starts.
	BatchPending bool
	// PlacedByEval reports whether the current evaluation already placed an
	// allocation, with a plan that was refused in part. It counts towards the
	// current batch.
	PlacedByEval func(*berth.Alloc) bool
}

// OnNode is an instance that is missing on a node.
type OnNode struct {
	Group    int // in Job.TaskGroups
	Index    uint32
	Node     *berth.Node
	Previous *berth.Alloc // what it replaces on the node, nil if nothing
	Canary   bool         // it must be promoted before the others are replaced
	// OldVersion reports that the instance gets the version of Previous, not
	// the newest: the newest was not promoted, or its deployment is paused or
	// has failed.
	OldVersion bool
}

// PerNodeResult is what must change. Missing is ordered by group, node and
// index; Stop and Update by group and node, with the replacements of unpromoted
// canaries first.
type PerNodeResult struct {
	Missing   []OnNode          // to be placed, in order of group
	Stop      []berth.AllocStop // each allocation once
	Update    []berth.AllocID   // in place
	Followups []Followup
	// Next is when the next batch of the update is due, if no other evaluation
	// starts it; zero if the update is done.
	Next   time.Time
	Counts map[string]*Counts // by group

	// Deploy is the deployment to create with this plan, nil if none. It has no
	// ID yet.
	Deploy *berth.Deployment
	// Deployed is the change of the existing deployment, nil if it stays as it
	// is.
	Deployed *DeploymentChange
}

// ComparePerNode returns what must change for a job that runs on every node: on
// each node that meets the constraints there must be one instance of each
// group, or as many as its count. An instance belongs to its node: if the node
// is lost, the instance is lost and not replaced elsewhere. The input is not
// modified. The order of Allocs and Nodes does not matter.
func ComparePerNode(in PerNodeInput) PerNodeResult {
	r := &perNode{reconciler: &reconciler{Input: in.Input, changed: map[versions]bool{}}, in: in}
	r.Counts = map[string]*Counts{}
	r.Nodes = in.Nodes
	// The order of nodes decides which are updated first; it must not vary.
	if !slices.IsSortedFunc(in.Nodes, byNumber) {
		r.Nodes = slices.SortedFunc(slices.Values(in.Nodes), byNumber)
	}
	allocs := slices.Clone(in.Allocs)
	slices.SortFunc(allocs, func(a, b *berth.Alloc) int {
		return cmp.Or(strings.Compare(a.Group.Name, b.Group.Name), cmp.Compare(a.CreateIndex, b.CreateIndex),
			cmp.Compare(a.Ordinal, b.Ordinal))
	})
	// What belongs to no group is stopped here, the rest is for its group to
	// judge.
	groups := map[string][]*berth.Alloc{}
	for _, a := range allocs {
		switch {
		case a.Orphaned:
		case in.Job == nil || in.Job.Stop:
			r.stopUnwanted(a, berth.StopJobEnded)
		case a.Job.UID != in.Job.UID:
			r.stopUnwanted(a, berth.StopOldJob)
		case in.Job.Group(a.Group.Name) == nil:
			r.stopUnwanted(a, berth.StopGroupGone)
		default:
			groups[a.Group.Name] = append(groups[a.Group.Name], a)
		}
	}
	var all []*nodeGroup
	if in.Job != nil && !in.Job.Stop {
		for i, g := range in.Job.TaskGroups {
			all = append(all, r.inspect(i, g, groups[g.Name]))
		}
	}
	r.deployments(all)
	for _, s := range all {
		r.group(s)
	}
	r.succeeded(all)
	r.mergeLater()
	return PerNodeResult{
		Missing: r.missing, Stop: r.Stop, Update: r.Update, Followups: r.Followups, Next: r.next, Counts: r.Counts, Deploy: r.Deploy, Deployed: r.Deployed,
	}
}

// byNumber orders nodes by their number in the state.
func byNumber(a, b *berth.Node) int { return cmp.Compare(a.Number, b.Number) }

// perNode does the comparison for jobs that run on every node. It shares with
// the reconciler of other jobs when an allocation is lost and when its tasks
// differ.
type perNode struct {
	*reconciler
	in      PerNodeInput
	Nodes   []*berth.Node // in order of number
	missing []OnNode      // becomes Missing
	next    time.Time     // becomes Next
}

// spot is the node and index of an instance.
type spot struct {
	node  berth.NodeID
	index uint32
}

// nodeGroup is what was found out about one group.
type nodeGroup struct {
	number    int // in Job.TaskGroups
	group     *berth.TaskGroup
	counts    *Counts
	kept      map[spot]*berth.Alloc  // held by what stays, or done for good
	previous  map[spot]*berth.Alloc  // what was there last and nothing has replaced
	outdated  map[spot]*berth.Alloc  // runs with other tasks than the newest version has
	waits     map[spot]bool          // likewise, and stays until its node recovers
	batchUsed int                    // of the update that is under way: replaced already, by this evaluation
	feasible  []memo                 // of Feasible, by place in Nodes; nil if nobody asked
	begins    bool                   // nothing is of the newest version yet, or something runs in an older one
	roll      rollout                // what a deployment lets the group do
	chosen    map[berth.AllocID]bool // what canaries replace now
}

// memo is a remembered answer.
type memo uint8

const (
	unasked memo = iota
	yes
	no
)

// inspect judges the allocations of a group.
func (r *perNode) inspect(number int, g *berth.TaskGroup, allocs []*berth.Alloc) *nodeGroup {
	s := &nodeGroup{
		roll: r.currentRollout(g), number: number, group: g, counts: r.counts(g.Name), kept: make(map[spot]*berth.Alloc, len(allocs)),
		previous: map[spot]*berth.Alloc{}, outdated: map[spot]*berth.Alloc{}, waits: map[spot]bool{}, chosen: map[berth.AllocID]bool{},
	}
	newest := func(a *berth.Alloc) bool { return a.Job.Version == r.Job.Version }
	s.begins = !slices.ContainsFunc(allocs, newest)
	for _, a := range allocs {
		s.begins = s.begins || a.Wanted() && !newest(a)
		r.judge(s, a)
	}
	return s
}

// feasible reports whether the node at that place in Nodes meets the group's
// constraints.
func (r *perNode) feasible(s *nodeGroup, place int) bool {
	if s.feasible == nil {
		s.feasible = make([]memo, len(r.Nodes))
	}
	if s.feasible[place] == unasked {
		s.feasible[place] = no
		if r.Feasible(s.number, r.Nodes[place]) {
			s.feasible[place] = yes
		}
	}
	return s.feasible[place] == yes
}

// group decides what changes in a group.
func (r *perNode) group(s *nodeGroup) {
	if s.group.Count > 0 {
		r.replace(s)
	}
	for place, n := range r.Nodes {
		for index := range uint32(s.group.Count) {
			at := spot{n.ID, index}
			if s.kept[at] == nil && r.feasible(s, place) {
				r.addMissing(s, OnNode{Group: s.number, Index: index, Node: n, Previous: s.previous[at]})
			}
		}
	}
}

// addMissing adds a missing instance and decides its version and whether it is
// a canary.
func (r *perNode) addMissing(s *nodeGroup, o OnNode) {
	prev := o.Previous
	switch {
	case !s.roll.keepsOld():
	case r.canaryFor(s, prev):
		o.Canary = true
		s.counts.Canary++
	case s.roll.broken && prev == nil: // the deployment failed, so there is nothing to wait for
	case prev == nil:
		s.counts.Later++ // a node that joined during the deployment gets its instance when that has ended
		return
	case r.older(s, prev):
		o.OldVersion = true
	}
	r.missing = append(r.missing, o)
	s.counts.Place++
}

// judge decides about one allocation. Allocations must be judged in order of
// age.
func (r *perNode) judge(s *nodeGroup, a *berth.Alloc) {
	at := spot{a.NodeID, a.Index}
	// Replacements of this evaluation's earlier plans count against the batch.
	if r.in.PlacedByEval(a) && !a.Rest().Previous.IsZero() {
		s.batchUsed++
	}
	switch {
	case !a.Wanted():
		if !a.Ended() && r.lost(a) {
			r.stop(a, r.lostReason(a), berth.ClientLost)
		}
		r.stopped(s, at, a)
	case a.Ended():
		r.ended(s, at, a)
	case r.lost(a):
		r.stop(a, r.lostReason(a), berth.ClientLost)
		s.follow(at, a)
	case a.Rest().Migrate || a.Rest().Relocate: // even if disconnected: an allocation that must leave is not waited for
		r.stop(a, moveReason(a), berth.ClientPending)
		s.counts.Migrate++
		if a.Rest().Relocate {
			s.follow(at, a)
		} else {
			r.drained(s, at, a)
		}
	case r.disconnected(a) && int64(a.Index) < int64(s.group.Count):
		r.waitDisconnected(a)
		s.kept[at] = a
		s.counts.Ignore++
	case int64(a.Index) >= int64(s.group.Count) || s.kept[at] != nil:
		r.stop(a, berth.StopSurplus, berth.ClientPending)
	default:
		r.running(s, at, a)
	}
}

// stopped handles an allocation that was told to stop.
func (r *perNode) stopped(s *nodeGroup, at spot, a *berth.Alloc) {
	if a.Spent() {
		r.drained(s, at, a)
	} else {
		s.follow(at, a)
	}
}

// drained handles an allocation that a drain stops or stopped. A sysbatch
// instance had until the drain's deadline: it gets no successor on its node
// unless the newest version differs. If it was already replaced, its
// replacement counts instead.
func (r *perNode) drained(s *nodeGroup, at spot, a *berth.Alloc) {
	if r.Job.Type == berth.TypeSysbatch && a.Rest().Next.IsZero() && !r.differs(a, s.group) && int64(a.Index) < int64(s.group.Count) {
		s.kept[at] = a
	} else {
		s.follow(at, a)
	}
}

// follow records that the next allocation on a spot replaces a.
func (s *nodeGroup) follow(at spot, a *berth.Alloc) {
	if a.Rest().Next.IsZero() {
		s.previous[at] = a
	}
}

// ended handles an allocation that should run but has ended.
func (r *perNode) ended(s *nodeGroup, at spot, a *berth.Alloc) {
	finishes := r.Job.Type == berth.TypeSysbatch
	renewed := r.older(s, a)
	switch {
	case int64(a.Index) >= int64(s.group.Count) || s.kept[at] != nil:
	case a.Client == berth.ClientComplete && finishes && !r.differs(a, s.group):
		s.kept[at] = a
		s.counts.Ignore++
	case a.Client == berth.ClientComplete && finishes:
	case a.Client != berth.ClientFailed: // lost, or a system job that ended on its own
		s.follow(at, a)
	// A successor of the same version would fail, too, unless something asks for one.
	case renewed && !s.roll.keepsOld(), a.Rest().Reschedule, a.Rest().ForceReschedule, r.in.Retry(a):
		r.stop(a, berth.StopFailed, berth.ClientPending)
		s.follow(at, a)
	default: // the agent gave up on it: it stays failed
		s.kept[at] = a
		s.counts.Ignore++
	}
}

// running compares a running allocation with the job's newest version.
func (r *perNode) running(s *nodeGroup, at spot, a *berth.Alloc) {
	n := r.Node(a.NodeID)
	same := a.Job.Version == r.Job.Version
	switch {
	case !r.in.Keeps(s.number, n):
		r.notMet(s, at, a)
		return
	case same:
		s.counts.Ignore++
	case !r.differs(a, s.group):
		r.Update = append(r.Update, a.ID)
		s.counts.Update++
	case !n.Ready(): // its replacement could not be placed
		s.counts.Ignore++
		s.counts.Old++
	case r.in.Recovers(s.number, n): // nor could it here, for now
		s.waits[at] = true
		s.counts.Ignore++
		s.counts.Old++
	case !r.Feasible(s.number, n):
		r.notMet(s, at, a)
		return
	default:
		s.outdated[at] = a
	}
	s.kept[at] = a
}

// notMet stops an instance whose node does not meet the conditions.
func (r *perNode) notMet(s *nodeGroup, at spot, a *berth.Alloc) {
	r.stop(a, berth.StopNotMet, berth.ClientPending)
	s.follow(at, a)
}

// replace decides what the newest version replaces now. Canaries first take the
// spots of instances that were stopped for an earlier version. Other spots where
// nothing runs come last: those can lack capacity for long.
func (r *perNode) replace(s *nodeGroup) {
	r.chooseVacant(s, isReplaced)
	r.replaceOutdated(s)
	r.chooseVacant(s, func(*berth.Alloc) bool { return true })
}

// replaceOutdated starts the next batch of an update: as many instances as
// max_parallel allows, including those that an earlier batch stopped and whose
// replacement has no capacity yet. Unpromoted canaries of an earlier version go
// first.
func (r *perNode) replaceOutdated(s *nodeGroup) {
	if len(s.outdated) == 0 {
		return
	}
	// What is over the limit of this batch keeps its tasks until a later one.
	free, stagger := r.replaceable(s)
	for _, canaries := range []bool{true, false} {
		for _, n := range r.Nodes {
			for index := range uint32(s.group.Count) {
				at := spot{n.ID, index}
				if a := s.outdated[at]; a != nil && isCanary(a) == canaries {
					if free > 0 {
						free--
						r.replaceOld(s, at, a)
					} else {
						s.counts.Later++
					}
				}
			}
		}
	}
	// The next batch comes by time only if nothing else starts it.
	if s.counts.Later > 0 && !r.in.BatchPending && !s.roll.keepsOld() {
		if at := r.Now.Add(stagger); r.next.IsZero() || at.Before(r.next) {
			r.next = at
		}
	}
}

// replaceable returns how many instances can be replaced now, and how long to
// wait before the next batch.
func (r *perNode) replaceable(s *nodeGroup) (n int, stagger time.Duration) {
	u := s.group.Update
	switch {
	case s.roll.held:
		return 0, 0
	case s.roll.canaries > 0:
		return r.freeCanaries(s), 0
	case u == nil || u.MaxParallel == 0:
		return len(s.outdated), 0
	case r.in.BatchPending:
		return 0, u.Stagger
	}
	return u.MaxParallel - s.batchUsed - r.underWay(s), u.Stagger
}

// replaceOld stops an instance so that one of the newest version takes its
// spot.
func (r *perNode) replaceOld(s *nodeGroup, at spot, a *berth.Alloc) {
	r.stop(a, berth.StopReplaced, berth.ClientPending)
	s.counts.Replace++
	delete(s.kept, at)
	delete(s.outdated, at)
	s.follow(at, a)
	if s.roll.canaries > 0 {
		s.chosen[a.ID] = true
	}
}

// underWay counts the instances that were stopped to be replaced and whose
// replacement is not placed yet.
func (r *perNode) underWay(s *nodeGroup) (n int) {
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			at := spot{node.ID, index}
			if a := s.previous[at]; a != nil && s.kept[at] == nil && isReplaced(a) && r.feasible(s, place) {
				n++
			}
		}
	}
	return n
}

// waitDisconnected marks a disconnected allocation unknown and schedules the
// time at which it is given up. It gets no stand-in, because an instance
// belongs to its node.
func (r *perNode) waitDisconnected(a *berth.Alloc) {
	if a.Client != berth.ClientUnknown {
		r.Stop = append(r.Stop, berth.AllocStop{ID: a.ID, StopReason: berth.UnknownAway, Client: berth.ClientUnknown})
	}
	if at, ever := lostAt(a, r.Now); ever && at.After(r.Now) { // as for other jobs
		r.followUp(a, at, berth.TriggerMaxDisconnectTimeout)
	}
}
