// Package reconcile compares what a job wants with what there is, and says
// what must change: which instances to place, to stop, to carry over to the
// job's new version, to take for unknown, which to look at again later, and
// what becomes of the job's deployment. It does not say where; package place
// does. It is a function of its input alone.
//
// Each instance of a group has a name, an index below the group's count. The
// allocations of one name are judged together (judge.go), those that fail by
// the reschedule policy (reschedule.go), those that are not heard by the
// disconnect block (disconnect.go); then the group goes towards the newest
// version as fast as its deployment lets it (deploy.go, update.go).
package reconcile

import (
	"cmp"
	"slices"
	"time"

	"berth"
)

// Input is what there is.
type Input struct {
	Job        *berth.Job // nil if the job was purged
	UID        berth.UID  // the incarnation that the evaluation means
	Eval       berth.EvalID
	Allocs     []*berth.Alloc    // of the job's name, in any order, of any incarnation
	Deployment *berth.Deployment // the newest of the incarnation, nil if it has none
	Now        time.Time
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
	Canary   bool         // it runs beside what has its name, until its deployment is promoted
	// OldVersion says that the version wanted is that of Previous, not the newest:
	// that one was not promoted, or its deployment is paused or has failed.
	OldVersion bool
}

// Followup is a time at which allocations are to be looked at again.
type Followup struct {
	At      time.Time
	Trigger string // of the evaluation that looks
	Allocs  []berth.AllocID
}

// Counts says what is changed of one group. Place counts every instance that
// wants a place; Replace, Migrate and Canary say of which of them why. Stop
// counts every allocation that is stopped, those that are replaced included.
// Ignore counts what stays as it is, Later what waits for its time.
type Counts struct {
	Place, Stop, Update, Replace, Migrate, Canary, Ignore, Later int
}

// Result is what must change. Missing instances are in order of group and
// index, canaries behind the others of their group; stops and updates in order
// of group and index of what they are about.
type Result struct {
	Missing   []Missing
	Stop      []berth.AllocStop
	Update    []berth.AllocID
	Followups []Followup
	Counts    map[string]*Counts // by group

	// Deploy is the deployment to be made with this plan, nil if none. It has
	// no ID yet.
	Deploy *berth.Deployment
	// Deployed is what the deployment there was is now, nil if it stays.
	Deployed *DeploymentChange
}

// DeploymentChange is what a deployment becomes: its status, none if that
// stays, and how many instances and canaries its groups want, of those of which
// that changed.
type DeploymentChange struct {
	ID                  berth.DeploymentID
	Status, Description string
	Sizes               map[string]berth.DeploymentSize
}

// Compare returns what must change. It does not change its input; the order of
// Allocs does not matter.
func Compare(in Input) Result {
	r := &reconciler{Input: in, changed: map[versions]bool{}}
	r.Counts = map[string]*Counts{}
	allocs := slices.Clone(in.Allocs)
	slices.SortFunc(allocs, byNameAndAge)
	var groups []*group
	var of *group // of the allocation before
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
	r.deployments(groups)
	for _, g := range groups {
		g.reconcile()
	}
	r.succeeded(groups)
	r.sortChanges(allocs)
	r.mergeLater()
	return r.Result
}

func groupNamed(groups []*group, name string) *group {
	for _, g := range groups {
		if g.spec.Name == name {
			return g
		}
	}
	return nil
}

// byNameAndAge sorts allocations by name and age.
func byNameAndAge(a, b *berth.Alloc) int {
	return cmp.Or(cmp.Compare(a.Group.Name, b.Group.Name), cmp.Compare(a.Index, b.Index),
		cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
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

// stopUnwanted stops an allocation that no group wants.
func (r *reconciler) stopUnwanted(a *berth.Alloc, why string) {
	switch {
	case a.Ended():
	case r.lost(a):
		r.stop(a, r.lostReason(a), berth.ClientLost)
	case a.Wanted():
		r.stop(a, why, berth.ClientPending)
	}
}

// stop stops an allocation, once.
func (r *reconciler) stop(a *berth.Alloc, why string, client berth.ClientStatus) {
	r.Stop = append(r.Stop, berth.AllocStop{ID: a.ID, Description: why, Client: client})
	r.counts(a.Group.Name).Stop++
}

// stopOrLose stops an allocation that has no claim to its name: as lost if its
// node is.
func (r *reconciler) stopOrLose(a *berth.Alloc, why string) {
	if r.lost(a) {
		r.stop(a, r.lostReason(a), berth.ClientLost)
	} else {
		r.stop(a, why, berth.ClientPending)
	}
}

func (r *reconciler) counts(group string) *Counts {
	c := r.Counts[group]
	if c == nil {
		c = &Counts{}
		r.Counts[group] = c
	}
	return c
}

// sortChanges brings stops and updates into the order of what they are about: what
// is stopped for different reasons was found at different times.
func (r *reconciler) sortChanges(allocs []*berth.Alloc) {
	if len(r.Stop) < 2 && len(r.Update) < 2 {
		return
	}
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

// laterWindow is how far apart two times may lie that one evaluation serves.
const laterWindow = 5 * time.Second

// mergeLater joins times of one kind that lie close together: at the first of
// them all failed ones are replaced, the last a little early. What is not heard
// is never given up early, so of such times the last counts.
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
		o := &out[last[l.Trigger]]
		o.Allocs = append(o.Allocs, l.Allocs...)
		if l.Trigger == berth.TriggerMaxDisconnectTimeout {
			o.At = l.At
		}
	}
	r.Followups = out
}
