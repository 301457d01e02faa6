package state

import (
	"berth"
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
		return berth.Refusef(berth.CodeAlreadyDone, "evaluation %s is %s", e.ID, e.Status)
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
