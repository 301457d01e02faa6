package explain

import (
	"cmp"
	"slices"
	"strings"

	"berth"
	"berth/internal/state"
)

// Step is one evaluation in the history of a job.
type Step struct {
	Eval                     *berth.Eval
	Depth                    int // 0 for one without a parent
	Parent                   berth.EvalID
	Link                     string // how Parent is known, see op.TracedEval
	Placed, Updated, Stopped []*berth.Alloc
}

// Trace returns the evaluations of a job as a tree, in depth-first order. uid
// selects an incarnation; nil selects all of that name. The tree includes
// linked evaluations of other jobs.
func Trace(snap *state.Snapshot, key berth.JobKey, uid *berth.UID) []Step {
	t := &tracer{snap: snap, evals: map[berth.EvalID]*berth.Eval{}, parent: map[berth.EvalID]berth.EvalID{}, link: map[berth.EvalID]string{}, below: map[berth.EvalID][]*berth.Eval{}}
	for e := range snap.EvalsOf(key) {
		if uid == nil || e.JobUID == *uid {
			t.add(e)
		}
	}
	t.linkParents()
	t.findChanges()
	var roots []*berth.Eval
	for id, e := range t.evals {
		if p := t.parent[id]; t.evals[p] == nil {
			roots = append(roots, e)
		} else {
			t.below[p] = append(t.below[p], e)
		}
	}
	t.walk(roots, 0)
	return t.steps
}

// tracer is one run of Trace. Its maps are keyed by evaluation.
type tracer struct {
	snap    *state.Snapshot
	evals   map[berth.EvalID]*berth.Eval   // all in the tree
	parent  map[berth.EvalID]berth.EvalID  // the evaluation that each came from
	link    map[berth.EvalID]string        // how its parent is known
	below   map[berth.EvalID][]*berth.Eval // children, by parent
	changes map[berth.EvalID]*Step         // what each evaluation did
	steps   []Step                         // the result, depth first
}

// add adds an evaluation and those in other jobs that it is linked with.
func (t *tracer) add(e *berth.Eval) {
	if e == nil || t.evals[e.ID] != nil {
		return
	}
	t.evals[e.ID] = e
	if id, _ := origin(t.snap, e); !id.IsZero() {
		t.add(t.snap.Eval(id))
	}
	for _, id := range []berth.EvalID{e.NextEval, e.BlockedEval} {
		if !id.IsZero() {
			t.add(t.snap.Eval(id))
		}
	}
}

// origin returns the evaluation that another one came from, by its own row: by
// its pointer or, without one, by its cause.
func origin(snap *state.Snapshot, e *berth.Eval) (id berth.EvalID, link string) {
	switch {
	case !e.PreviousEval.IsZero():
		return e.PreviousEval, "previous"
	case e.Cause.Kind == berth.CauseEval:
		if id, err := berth.ParseID[berth.Eval](e.Cause.ID); err == nil {
			return id, berth.CauseEval
		}
	case e.Cause.Kind == berth.CauseDeployment:
		// A step of a deployment, or what followed its failure, comes from the
		// evaluation that began the deployment.
		id, err := berth.ParseID[berth.Deployment](e.Cause.ID)
		if err != nil {
			break
		}
		if d := snap.Deployment(id); d != nil && d.EvalID != e.ID {
			return d.EvalID, berth.CauseDeployment
		}
	case e.Cause.Kind == berth.CauseAlloc:
		id, err := berth.ParseID[berth.Alloc](e.Cause.ID)
		if err != nil {
			break
		}
		a := snap.Alloc(id)
		if a == nil {
			break
		}
		// The evaluation that placed the allocation, or last updated it in
		// place, is older than what the allocation caused; otherwise it is
		// unrelated.
		if by := snap.Eval(a.EvalID); by != nil && by.ID != e.ID && by.CreateIndex < e.CreateIndex {
			return by.ID, berth.CauseAlloc
		}
	}
	return berth.EvalID{}, ""
}

// linkParents finds the parent of every evaluation. Pointers to an evaluation
// count if it has no pointer back. A parent is always older, so the result is a
// forest.
func (t *tracer) linkParents() {
	for id, e := range t.evals {
		if p, link := origin(t.snap, e); !p.IsZero() {
			if from := t.snap.Eval(p); from == nil || from.CreateIndex < e.CreateIndex {
				t.parent[id], t.link[id] = p, link
			}
		}
	}
	for id, e := range t.evals {
		for _, forward := range []struct {
			to   berth.EvalID
			link string
		}{{e.NextEval, "next"}, {e.BlockedEval, "blocked"}} {
			child := t.evals[forward.to]
			if child != nil && t.parent[child.ID].IsZero() && child.CreateIndex > e.CreateIndex {
				t.parent[child.ID], t.link[child.ID] = id, forward.link
			}
		}
	}
}

// findChanges finds out what each evaluation did. The row of an allocation does
// not tell which evaluation stopped it, and an in-place update overwrites the
// one that placed it. But each plan has an index of its own, shared by the
// evaluation it ended and the allocations it changed.
func (t *tracer) findChanges() {
	t.changes = map[berth.EvalID]*Step{}
	at := map[uint64]*berth.Eval{}
	keys := map[berth.JobKey]bool{}
	for id, e := range t.evals {
		t.changes[id] = &Step{Eval: e}
		keys[e.Key()] = true
		if e.Status != berth.EvalPending {
			at[e.ModifyIndex] = e
		}
	}
	for k := range keys {
		for a := range t.snap.AllocsOf(k) {
			placed := t.evalOfPlan(at, a.CreateIndex, a.EvalID)
			if s := t.changes[placed]; s != nil {
				s.Placed = append(s.Placed, a)
			}
			if s := t.changes[a.EvalID]; s != nil && a.EvalID != placed {
				s.Updated = append(s.Updated, a)
			}
			if !a.Wanted() {
				if s := t.changes[t.evalOfPlan(at, a.AllocModifyIndex, berth.EvalID{})]; s != nil {
					s.Stopped = append(s.Stopped, a)
				}
			}
		}
	}
	for _, s := range t.changes {
		for _, list := range [][]*berth.Alloc{s.Placed, s.Updated, s.Stopped} {
			slices.SortFunc(list, func(a, b *berth.Alloc) int {
				return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
			})
		}
	}
}

// evalOfPlan returns the evaluation whose plan had an index: the one that the
// plan ended or, if the plan was refused in part, the one that was open then.
// said is what the allocation's row tells.
func (t *tracer) evalOfPlan(at map[uint64]*berth.Eval, index uint64, said berth.EvalID) berth.EvalID {
	if e := at[index]; e != nil {
		return e.ID
	}
	open := func(e *berth.Eval) bool {
		return e != nil && e.CreateIndex < index && (index < e.ModifyIndex || !e.Terminal())
	}
	if e := t.evals[said]; open(e) {
		return said
	}
	var found berth.EvalID
	for id, e := range t.evals {
		if open(e) && (e.Timeline.Refused > 0 || e.Status == berth.EvalPending) {
			if !found.IsZero() {
				return berth.EvalID{} // ambiguous
			}
			found = id
		}
	}
	return found
}

// walk appends the evaluations and, after each, those below it. The parents
// form a forest, so it ends.
func (t *tracer) walk(list []*berth.Eval, depth int) {
	byAge(list)
	for _, e := range list {
		s := *t.changes[e.ID]
		s.Depth, s.Parent, s.Link = depth, t.parent[e.ID], t.link[e.ID]
		if !s.Parent.IsZero() && t.snap.Eval(s.Parent) == nil {
			s.Link = "gone"
		}
		t.steps = append(t.steps, s)
		t.walk(t.below[e.ID], depth+1)
	}
}

// byAge sorts the oldest first; those of one index are in order of ID.
func byAge(list []*berth.Eval) {
	slices.SortFunc(list, func(a, b *berth.Eval) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), strings.Compare(a.ID.String(), b.ID.String()))
	})
}

// Related returns the evaluations that are reached from one by the pointers to
// previous, next, blocked and superseding evaluations, oldest first, without itself.
func Related(snap *state.Snapshot, e *berth.Eval) (out []*berth.Eval) {
	seen := map[berth.EvalID]bool{e.ID: true}
	for list := []*berth.Eval{e}; len(list) > 0; {
		at := list[0]
		list = list[1:]
		for _, id := range []berth.EvalID{at.PreviousEval, at.NextEval, at.BlockedEval, at.SupersededBy} {
			if x := snap.Eval(id); x != nil && !seen[id] {
				seen[id] = true
				out, list = append(out, x), append(list, x)
			}
		}
	}
	byAge(out)
	return out
}
