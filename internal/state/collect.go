package state

import (
	"berth"
)

// MaxDeletes is the largest number of rows that one command deletes: nothing
// else is applied meanwhile (known bug class N24).
const MaxDeletes = 1000

// DeleteRows deletes rows that nothing needs any more. Rows that need each
// other can go together if one command names them all.
type DeleteRows struct {
	ByLeader
	Jobs        []JobRef
	Allocs      []berth.AllocID
	Evals       []berth.EvalID // if one leads to another, the older one first
	Deployments []berth.DeploymentID
	Nodes       []berth.NodeID
}

// Len returns the number of rows that the command names.
func (c *DeleteRows) Len() int {
	return len(c.Jobs) + len(c.Allocs) + len(c.Evals) + len(c.Deployments) + len(c.Nodes)
}

// Apply implements Command. Rows that are gone are skipped. A row that is still
// needed refuses the whole command: it was chosen from an older state.
func (c *DeleteRows) Apply(tx *Tx) error {
	if n := c.Len(); n == 0 || n > MaxDeletes {
		return berth.Errorf(berth.Invalid, "delete: must name 1 to %d rows, got %d", MaxDeletes, n)
	}
	// In the order that Sweep needs. One row that must stay refuses the
	// command.
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
	tx.storeCounts() // of jobs that are about to be removed
	for _, j := range jobs {
		tx.removeJob(j)
	}
	return nil
}

// each returns the existing rows among those named, each once, or an error if
// one of them must stay.
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

// RaiseCore creates an evaluation for garbage collection: of old rows, or, if
// forced, of all rows that nothing needs.
type RaiseCore struct {
	ByLeader
	ID    berth.EvalID
	Force bool
	Cause berth.Cause
	Now   int64
}

// Apply implements Command. An open evaluation that a timer created is reused.
// A user's request always creates one, so that it sees the state as it is now.
func (c *RaiseCore) Apply(tx *Tx) error {
	if err := tx.unusedEvals(c.ID); err != nil {
		return err
	}
	if e := tx.OpenCore(false); e != nil && !c.Force {
		return berth.Refusef(berth.CodeAlreadyDone, "evaluation %s is %s", e.ID, e.Status)
	}
	k := berth.CoreKey(c.Force)
	tx.putEval(nil, &berth.Eval{
		ID: c.ID, Namespace: k.Namespace, JobID: k.ID, Type: berth.TypeCore, Priority: berth.CorePriority,
		TriggeredBy: berth.TriggerScheduled, Cause: c.Cause, Status: berth.EvalPending, CreateTime: c.Now, ModifyTime: c.Now,
	})
	return nil
}

// OpenCore returns a pending or running evaluation for garbage collection,
// forced or not, or nil.
func (s *Snapshot) OpenCore(force bool) *berth.Eval {
	k := berth.CoreKey(force)
	for e := range of(&s.evals.rows, &s.evals.pending, keyHash(k), func(e *berth.Eval) bool { return e.Key() == k }) {
		return e
	}
	return nil
}
