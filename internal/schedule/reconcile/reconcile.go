// Package reconcile compares what a job wants with what exists, and returns
// what must change: which instances to place, to stop, to update in place to
// the job's new version or to mark unknown, which to look at again later, and
// how the job's deployment changes. Package place decides where instances go.
// The result depends on the input alone.
//
// Each instance of a group has a name with an index below the group's count.
// The allocations of one name are judged together (judge.go): failed ones by
// the reschedule policy (reschedule.go), disconnected ones by the disconnect
// block (disconnect.go). Then the group moves towards the newest version as
// fast as its deployment allows (deploy.go, update.go).
package reconcile

import (
	"cmp"
	"slices"
	"time"

	"berth"
)

// Input is the current state of a job.
type Input struct {
	Job        *berth.Job // nil if the job was purged
	UID        berth.UID  // the incarnation that the evaluation is about
	Eval       berth.EvalID
	Allocs     []*berth.Alloc    // of the job's name, in any order, of any incarnation
	Deployment *berth.Deployment // the newest of the incarnation, nil if it has none
	Now        time.Time
	// Node returns a node, nil if it is gone.
	Node func(berth.NodeID) *berth.Node
	// Feasible reports whether a node meets the constraints of a group of Job,
	// regardless of free capacity.
	Feasible func(group int, n *berth.Node) bool
	// Replaced returns how often in a row an instance was replaced because it
	// failed, and the newest replacements, oldest first.
	Replaced func(group string, index uint32) (streak int, events []berth.RescheduleEvent)
	// Waiting reports whether an evaluation exists, has not ended, and waits
	// for a time in the future. One whose time has come may be superseded by
	// the current one, so nothing can be left to it.
	Waiting func(berth.EvalID) bool
}

// Missing is an instance that needs a place.
type Missing struct {
	Group    int // in Job.TaskGroups
	Index    uint32
	Previous *berth.Alloc // what it replaces, nil if nothing
	Failed   bool         // Previous failed: the replacement counts as a reschedule
	Canary   bool         // it runs beside the allocation with its name until the deployment is promoted
	// OldVersion reports that the instance gets the version of Previous, not
	// the newest: the newest was not promoted, or its deployment is paused or
	// has failed.
	OldVersion bool
}

// Followup is a time at which allocations must be looked at again.
type Followup struct {
	At      time.Time
	Trigger string // of the evaluation created for it
	Allocs  []berth.AllocID
}

// Counts counts the changes of one group. Place counts every instance that
// needs a place; Replace, Migrate and Canary count those among them with that
// reason. Stop counts every stopped allocation, including those that are
// replaced. Ignore counts what stays as it is, Later what changes at a later
// time.
type Counts struct {
	Place, Stop, Update, Replace, Migrate, Canary, Ignore, Later int

	// Old is how many of those to ignore have the tasks of an older version
	// because their nodes take no new allocation now.
	Old int
}

// Result is what must change. Missing is ordered by group and index, with
// canaries after the others of their group. Stop and Update are ordered by
// group and index.
type Result struct {
	Missing   []Missing          // to be placed, in order of group
	Stop      []berth.AllocStop  // each allocation once
	Update    []berth.AllocID    // in place
	Followups []Followup         // evaluations to create, which are due later
	Counts    map[string]*Counts // by group
	Waits     map[string][]Wait  // by group: the groups that come first and are not ready; nil if none waits

	// Deploy is the deployment to create with this plan, nil if none. It has no
	// ID yet.
	Deploy *berth.Deployment
	// Deployed is the change of the existing deployment, nil if it stays as it
	// is.
	Deployed *DeploymentChange
}

// DeploymentChange is a change of a deployment: its new status, empty if that
// stays, and the new numbers of instances and canaries of the groups for which
// they changed.
type DeploymentChange struct {
	ID                  berth.DeploymentID
	Status, Description string
	Sizes               map[string]berth.DeploymentSize // by group, where they change
}

// Compare returns what must change. It does not modify its input. The order of
// Allocs does not matter.
func Compare(in Input) Result {
	r := &reconciler{Input: in, changed: map[versions]bool{}}
	r.Counts = map[string]*Counts{}
	// Sorted by name, allocations of a group and of an instance are together.
	allocs := slices.Clone(in.Allocs)
	slices.SortFunc(allocs, byNameAndAge)
	var groups []*group
	var of *group // of the previous allocation
	if in.Job != nil && !in.Job.Stop {
		for i, g := range in.Job.TaskGroups {
			groups = append(groups, &group{reconciler: r, index: i, spec: g, counts: r.counts(g.Name)})
		}
	}
	for _, a := range allocs {
		switch {
		case a.Orphaned:
		case in.Job == nil || in.Job.Stop:
			r.stopUnwanted(a, berth.StopJobEnded)
		case a.Job.UID != in.Job.UID:
			r.stopUnwanted(a, berth.StopOldJob)
		default:
			if of == nil || of.spec.Name != a.Group.Name {
				of = groupNamed(groups, a.Group.Name)
			}
			if of == nil {
				r.stopUnwanted(a, berth.StopGroupGone)
			} else {
				of.allocs = append(of.allocs, a)
			}
		}
	}
	// The deployment limits what groups may do, and is concluded after they
	// have.
	r.deployments(groups)
	r.inOrder(groups)
	r.succeeded(groups)
	r.sortChanges(allocs)
	r.mergeLater()
	return r.Result
}

// groupNamed returns the group of that name, nil if the job has none.
func groupNamed(groups []*group, name string) *group {
	for _, g := range groups {
		if g.spec.Name == name {
			return g
		}
	}
	return nil
}

// byNameAndAge compares allocations by name, then age.
func byNameAndAge(a, b *berth.Alloc) int {
	return cmp.Or(cmp.Compare(a.Group.Name, b.Group.Name), cmp.Compare(a.Index, b.Index),
		cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
}

// reconciler is one run of Reconcile: what it is given and what it has found so
// far.
type reconciler struct {
	Input
	Result
	changed map[versions]bool // whether a version's allocations must be replaced to become the newest
}

// versions is a pair of versions of a group that are compared once.
type versions struct {
	old   *berth.Job
	group *berth.TaskGroup // of the new version
}

// stopUnwanted stops an allocation that belongs to no group of the job.
func (r *reconciler) stopUnwanted(a *berth.Alloc, why berth.StopReason) {
	switch {
	case a.Ended():
	case r.lost(a):
		r.stop(a, r.lostReason(a), berth.ClientLost)
	case a.Wanted():
		r.stop(a, why, berth.ClientPending)
	}
}

// stop adds a stop to the result. It must be called once per allocation.
func (r *reconciler) stop(a *berth.Alloc, why berth.StopReason, client berth.ClientStatus) {
	r.Stop = append(r.Stop, berth.AllocStop{ID: a.ID, StopReason: why, Client: client})
	r.counts(a.Group.Name).Stop++
}

// stopOrLose stops an allocation that loses its name, or marks it lost if its
// node is.
func (r *reconciler) stopOrLose(a *berth.Alloc, why berth.StopReason) {
	if r.lost(a) {
		r.stop(a, r.lostReason(a), berth.ClientLost)
	} else {
		r.stop(a, why, berth.ClientPending)
	}
}

// counts returns the counts of a group for changing. They begin at 0.
func (r *reconciler) counts(group string) *Counts {
	c := r.Counts[group]
	if c == nil {
		c = &Counts{}
		r.Counts[group] = c
	}
	return c
}

// sortChanges sorts stops and updates by group and index. They were found in
// the order of their reasons.
func (r *reconciler) sortChanges(allocs []*berth.Alloc) {
	if len(r.Stop) < 2 && len(r.Update) < 2 {
		return
	}
	// Only what changes needs its position, which is far less than all.
	at := make(map[berth.AllocID]int, len(r.Stop)+len(r.Update))
	for _, s := range r.Stop {
		at[s.ID] = 0
	}
	for _, u := range r.Update {
		at[u] = 0
	}
	for i, a := range allocs {
		if _, ok := at[a.ID]; ok {
			at[a.ID] = i
		}
	}
	slices.SortStableFunc(r.Stop, func(a, b berth.AllocStop) int { return cmp.Compare(at[a.ID], at[b.ID]) })
	slices.SortStableFunc(r.Update, func(a, b berth.AllocID) int { return cmp.Compare(at[a], at[b]) })
}

// laterWindow is the span of time within which one evaluation serves several
// due times.
const laterWindow = 5 * time.Second

// mergeLater merges due times of one kind that are close together. For failed
// allocations the first time counts, so the last are replaced a little early.
// Disconnected allocations are never given up early, so for them the last time
// counts.
func (r *reconciler) mergeLater() {
	slices.SortStableFunc(r.Followups, func(a, b Followup) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Trigger, b.Trigger)) })
	var out []Followup
	first := map[string]time.Time{}
	last := map[string]int{}
	for _, l := range r.Followups {
		at, ok := first[l.Trigger]
		if !ok || l.At.Sub(at) >= laterWindow {
			first[l.Trigger], last[l.Trigger] = l.At, len(out)
			out = append(out, l)
			continue
		}
		// Close enough to the one before: one evaluation serves both.
		o := &out[last[l.Trigger]]
		o.Allocs = append(o.Allocs, l.Allocs...)
		if l.Trigger == berth.TriggerMaxDisconnectTimeout {
			o.At = l.At
		}
	}
	r.Followups = out
}
