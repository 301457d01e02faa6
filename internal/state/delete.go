package state

import (
	"berth"
	"berth/internal/fit"
)

// MaxDeletes is how many rows one command deletes at most: while it is applied
// nothing else is (known bug class N24).
const MaxDeletes = 1000

// DeleteRows forgets rows that nothing needs any more. Rows that hold on to
// each other go together if one command names them all.
type DeleteRows struct {
	ByLeader
	Jobs        []JobRef
	Allocs      []berth.AllocID
	Evals       []berth.EvalID // the older ones first, where one leads to another
	Deployments []berth.DeploymentID
	Nodes       []berth.NodeID
}

// JobRef names one incarnation of a job.
type JobRef struct {
	Key berth.JobKey
	UID berth.UID
}

// Len returns how many rows the command names.
func (c *DeleteRows) Len() int {
	return len(c.Jobs) + len(c.Allocs) + len(c.Evals) + len(c.Deployments) + len(c.Nodes)
}

// Apply implements Command. A row that is gone is passed over. One that is
// needed after all refuses the whole command: whoever chose it chose from an
// older state.
func (c *DeleteRows) Apply(tx *Tx) error {
	if n := c.Len(); n == 0 || n > MaxDeletes {
		return berth.Errorf(berth.Invalid, "delete: %d rows; allowed are 1 to %d", n, MaxDeletes)
	}
	w := NewSweep(tx.Snapshot)
	jobs, err := each(c.Jobs, "job", func(r JobRef) *berth.Job {
		if j := tx.Job(r.Key); j != nil && j.UID == r.UID {
			return j
		}
		return nil
	}, func(r JobRef) string { return r.Key.String() }, w.Job)
	if err != nil {
		return err
	}
	allocs, err := each(c.Allocs, "allocation", tx.Alloc, berth.AllocID.String, w.Alloc)
	if err != nil {
		return err
	}
	evals, err := each(c.Evals, "evaluation", tx.Eval, berth.EvalID.String, w.Eval)
	if err != nil {
		return err
	}
	deployments, err := each(c.Deployments, "deployment", tx.Deployment, berth.DeploymentID.String, w.Deployment)
	if err != nil {
		return err
	}
	nodes, err := each(c.Nodes, "node", tx.Node, berth.NodeID.String, w.Node)
	if err != nil {
		return err
	}
	for _, a := range allocs {
		tx.removeAlloc(a)
	}
	for _, e := range evals {
		tx.removeEval(e)
	}
	for _, d := range deployments {
		tx.removeDeployment(d)
	}
	for _, n := range nodes {
		tx.removeNode(n)
	}
	tx.storeCounts() // of jobs that go, while they are there
	for _, j := range jobs {
		tx.removeJob(j)
	}
	return nil
}

// each returns the rows that are there of those named, each once, or why one
// of them must stay.
func each[K comparable, T any](keys []K, what string, get func(K) *T, name func(K) string, free func(*T) string) (out []*T, err error) {
	seen := make(map[K]bool, len(keys))
	for _, k := range keys {
		row := get(k)
		if row == nil || seen[k] {
			continue
		}
		seen[k] = true
		if why := free(row); why != "" {
			return nil, berth.Errorf(berth.Conflict, "%s %s cannot be deleted: %s", what, name(k), why)
		}
		out = append(out, row)
	}
	return out, nil
}

// removeAlloc forgets an allocation that has ended, so that it holds nothing
// of its node any more.
func (tx *Tx) removeAlloc(a *berth.Alloc) {
	t := &tx.allocs
	slot, _ := t.find(a.ID)
	id, _ := a.ID.Words()
	on, _ := a.NodeID.Words()
	by, _ := a.EvalID.Words()
	t.byID.Remove(tx.edit, id, slot)
	t.byTime.Remove(tx.edit, a.CreateIndex, slot)
	t.byNode.Remove(tx.edit, on, slot)
	t.byJob.Remove(tx.edit, keyHash(a.Key()), slot)
	t.byEval.Remove(tx.edit, by, slot)
	t.remove(tx, slot)
	if n := tx.Node(a.NodeID); n != nil { // its agent must see that it is gone
		u := tx.nodes.usage.Edit(tx.edit, n.Number)
		u.Changed, u.Touched = tx.Index, tx.Index
	}
	tx.count(a.Key(), a.Job.UID, func(s *Summary) {
		*s.group(a.Group.Name).Of(a.Client)--
		s.Allocs = tx.Index
	})
	if tx.streams.count > 0 || a.Rest().PE != nil {
		tx.trace(a.Key())
	}
	tx.note(Allocs, a, nil)
}

// removeEval forgets an evaluation that has ended, and what it found.
func (tx *Tx) removeEval(e *berth.Eval) {
	t := &tx.evals
	slot, _ := t.find(e.ID)
	id, _ := e.ID.Words()
	t.byID.Remove(tx.edit, id, slot)
	t.byTime.Remove(tx.edit, e.CreateIndex, slot)
	t.byJob.Remove(tx.edit, keyHash(e.Key()), slot)
	t.remove(tx, slot)
	if slot, x := tx.explanations.find(e.ID); x != nil {
		tx.explanations.byEval.Remove(tx.edit, id, slot)
		tx.explanations.remove(tx, slot)
	}
	tx.count(e.Key(), e.JobUID, func(s *Summary) { s.Evals = tx.Index })
	tx.note(Evals, e, nil)
}

func (tx *Tx) removeDeployment(d *berth.Deployment) {
	t := &tx.deployments
	slot, _ := t.find(d.ID)
	id, _ := d.ID.Words()
	t.unlist(tx, d, slot)
	t.byID.Remove(tx.edit, id, slot)
	t.byJob.Remove(tx.edit, keyHash(d.Key()), slot)
	t.remove(tx, slot)
	tx.note(Deployments, d, nil)
}

// removeNode forgets a node without allocations; its number is free again.
func (tx *Tx) removeNode(n *berth.Node) {
	t := &tx.nodes
	id, _ := n.ID.Words()
	tx.leaveClass(t.usage.At(n.Number).Class)
	if n.Draining() {
		t.listDrain(tx, n.Number, false)
	}
	t.byID.Remove(tx.edit, id, n.Number)
	t.rows.Set(tx.edit, n.Number, nil)
	*t.usage.Edit(tx.edit, n.Number) = fit.Usage{}
	t.giveNumber(tx, n.Number)
	t.count--
	t.changed = tx.Index
	tx.note(Nodes, n, nil)
}

// giveNumber takes back a number. Runs of free numbers do not touch each other
// nor the numbers that were never used, so a server that loads the state has
// the same ones.
func (t *nodeTable) giveNumber(tx *Tx, n uint32) {
	first, more := n, uint32(0)
	for at, count := range t.gaps.BackFrom(n, 0) { // the run before
		if at+count+1 == n {
			t.gaps.Remove(tx.edit, at, count)
			first, more = at, count+1
		}
		break
	}
	for at, count := range t.gaps.From(n, 0) { // the run behind
		if at == n+1 {
			t.gaps.Remove(tx.edit, at, count)
			more += count + 1
		}
		break
	}
	if first+more+1 == t.numbers {
		t.numbers = first
		return
	}
	t.gaps.Add(tx.edit, first, more)
}

// RaiseCore raises an evaluation of the system's own upkeep: what is old and
// of no use is to be deleted; all that is of no use, if forced.
type RaiseCore struct {
	ByLeader
	ID    berth.EvalID
	Force bool
	Cause berth.Cause
	Now   int64
}

// Apply implements Command. One that a timer raised and that is open will do;
// one that a user wants looks at what there is now.
func (c *RaiseCore) Apply(tx *Tx) error {
	if err := tx.unusedEvals(c.ID); err != nil {
		return err
	}
	if e := tx.OpenCore(false); e != nil && !c.Force {
		return berth.Errorf(berth.Conflict, "already-done: evaluation %s is %s", e.ID, e.Status)
	}
	k := berth.CoreKey(c.Force)
	tx.putEval(nil, &berth.Eval{
		ID: c.ID, Namespace: k.Namespace, JobID: k.ID, Type: berth.TypeCore, Priority: berth.CorePriority,
		TriggeredBy: berth.TriggerScheduled, Cause: c.Cause, Status: berth.EvalPending, CreateTime: c.Now, ModifyTime: c.Now,
	})
	return nil
}

// OpenCore returns an evaluation of a collection, forced or not, that is to be
// done or is being done; nil if there is none.
func (s *Snapshot) OpenCore(force bool) *berth.Eval {
	k := berth.CoreKey(force)
	for e := range of(&s.evals.rows, &s.evals.pending, keyHash(k), func(e *berth.Eval) bool { return e.Key() == k }) {
		return e
	}
	return nil
}
