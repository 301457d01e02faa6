package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
)

// shapes sorts the evaluations that wait for capacity by what would help them:
// those of one shape lack the same capacity and could use nodes of the same
// classes. Most evaluations of a cluster have few shapes, so it is decided for
// each shape, and not for each evaluation, whether a node could help.
type shapes struct {
	byKey map[string]*shape
	of    map[berth.EvalID]place
	fresh map[berth.EvalID]*berth.Eval // not sorted yet
}

// place is where a sorted evaluation is.
type place struct {
	*shape
	*waiter
}

// shape is a group of evaluations for which the same nodes are of use.
type shape struct {
	key      string
	evals    []*waiter // the most urgent first; never empty
	requests []fit.Request
	// any means that it is not known what would help, so every node may.
	any bool
	// job stands for all jobs of the shape if these may preempt others: it has
	// their priority. Otherwise it is nil.
	job *berth.Job
}

// waiter is an evaluation that waits, with the number of instances that wait for
// each request of its shape.
type waiter struct {
	*berth.Eval
	queued []int
}

func newShapes() shapes {
	return shapes{map[string]*shape{}, map[berth.EvalID]place{}, map[berth.EvalID]*berth.Eval{}}
}

// add makes an evaluation wait. It is sorted when it is asked for, because that
// takes a snapshot and is in vain if it leaves before.
func (x *shapes) add(e *berth.Eval) { x.fresh[e.ID] = e }

// remove forgets an evaluation.
func (x *shapes) remove(id berth.EvalID) {
	delete(x.fresh, id)
	at, ok := x.of[id]
	if !ok {
		return
	}
	delete(x.of, id)
	i, _ := at.find(at.waiter)
	if at.evals = slices.Delete(at.evals, i, i+1); len(at.evals) == 0 {
		delete(x.byKey, at.key)
	}
}

// find returns where in the order of a shape an evaluation is, or belongs.
func (sh *shape) find(w *waiter) (i int, found bool) {
	return slices.BinarySearchFunc(sh.evals, w, func(a, b *waiter) int { return compareUrgency(a.Eval, b.Eval) })
}

// sort puts the new evaluations with those of their shape.
func (x *shapes) sort(s *state.Snapshot) {
	for _, e := range x.fresh {
		sh, w := shapeOf(s, e)
		if have := x.byKey[sh.key]; have != nil {
			sh = have
		} else {
			x.byKey[sh.key] = sh
		}
		i, _ := sh.find(w)
		sh.evals = slices.Insert(sh.evals, i, w)
		x.of[e.ID] = place{sh, w}
	}
	clear(x.fresh)
}

// compareUrgency orders evaluations as workers get them.
func compareUrgency(a, b *berth.Eval) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.CreateIndex, b.CreateIndex), compareIDs(a.ID, b.ID))
}

// shapeOf returns the shape of an evaluation.
func shapeOf(s *state.Snapshot, e *berth.Eval) (*shape, *waiter) {
	w := &waiter{Eval: e}
	unknown := &shape{key: "any " + e.ID.String(), any: true}
	job := s.Job(e.Key())
	m := e.Missed
	if job == nil || job.UID != e.JobUID || m == nil || len(e.FailedTGAllocs) == 0 || e.Type != berth.TypeService && e.Type != berth.TypeBatch {
		return unknown, w
	}
	older, priority := olderGroups(s, job)
	sh := &shape{}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		g := job.Group(name)
		if g == nil {
			return unknown, w
		}
		for _, g := range append([]*berth.TaskGroup{g}, older[name]...) {
			r := fit.RequestOf(g)
			if r.HasNamed() || len(r.Static) > 0 {
				fmt.Fprintf(&key, "%s ", e.ID) // what else it asks for has no short form
			}
			fmt.Fprintf(&key, "%d %d %d %d, ", r.CPU, r.MemoryMB, r.DiskMB, r.Dynamic)
			sh.requests = append(sh.requests, r)
			w.queued = append(w.queued, max(1, e.QueuedAllocations[name]))
		}
	}
	if mayPreempt(s, job) {
		fmt.Fprintf(&key, "preempts as %d, ", priority)
		sh.job = &berth.Job{Namespace: job.Namespace, Priority: priority}
	}
	fmt.Fprint(&key, m.Escaped)
	for _, class := range slices.Sorted(maps.Keys(m.Classes)) {
		fmt.Fprint(&key, " ", class, m.Classes[class])
	}
	sh.key = key.String()
	return sh, w
}

// olderGroups returns the groups of earlier versions of a job, by name: an
// instance may be placed again in the version that it had, which may ask for
// less, and be more urgent. priority is that of the most urgent version.
func olderGroups(s *state.Snapshot, job *berth.Job) (groups map[string][]*berth.TaskGroup, priority int) {
	priority = job.Priority
	for a := range s.AllocsOf(job.Key()) {
		if a.Job.Version == job.Version || a.Job.UID != job.UID || slices.Contains(groups[a.Group.Name], a.Group) {
			continue
		}
		if groups == nil {
			groups = map[string][]*berth.TaskGroup{}
		}
		groups[a.Group.Name] = append(groups[a.Group.Name], a.Group)
		priority = max(priority, a.Job.Priority)
	}
	return groups, priority
}

// mayPreempt reports whether operators let a job preempt others.
func mayPreempt(s *state.Snapshot, j *berth.Job) bool {
	c := s.SchedulerConfigFor(j.NodePool).PreemptionConfig
	switch j.Type {
	case berth.TypeService:
		return c.ServiceSchedulerEnabled
	case berth.TypeBatch:
		return c.BatchSchedulerEnabled
	}
	return true
}
