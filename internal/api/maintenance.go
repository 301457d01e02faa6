package api

import (
	"context"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// maintenance registers the operations by which operators look after nodes,
// evaluations and counts.
func (s *Server) maintenance() {
	read(s, op.EvalsCount, countEvals)
	write(s, op.NodeEvaluate, evaluateNode)
	write(s, op.NodePurge, purgeNode)
	write(s, op.DispatchPayload, dispatchJob)
	// The counts of a job change with what they count, in the same command, so
	// there is nothing to make again.
	effect(s, op.Reconcile, func(context.Context, *Write, *op.ReconcileSummaries) (op.Nothing, error) { return op.Nothing{}, nil })
	read(s, op.CheckVault, func(r *Read, _ *op.Query) (op.VaultUpgrade, error) {
		r.At(r.Index)
		return op.VaultUpgrade{JobsWithoutVaultIdentity: []op.JobStub{}, OutdatedNodes: []op.NodeStub{}, VaultTokens: []op.Nothing{}}, nil
	})
}

// countEvals counts the evaluations that the caller may see and that meet the
// filter.
func countEvals(r *Read, _ *op.CountEvals) (out op.EvalCount, err error) {
	r.Table(state.Evals)
	if r.Waits() {
		return out, nil
	}
	wanted, err := rowFilter(r.Query.Filter, nil, r.evalView)
	if err != nil {
		return out, err
	}
	for e := range r.Evals() {
		if !r.visible(op.EvalsCount.Need, e.Namespace) {
			continue
		}
		ok, err := wanted(e)
		if err != nil {
			return out, err
		}
		if ok {
			out.Count++
		}
	}
	return out, nil
}

// evaluateNode has the scheduler look at each job that has an allocation on a
// node.
func evaluateNode(w *Write, in *op.EvaluateNode) (ch Change[op.NodeEvaluated], err error) {
	n, err := w.nodeNamed(in.NodeID)
	if err != nil {
		return ch, err
	}
	seen, ids := map[berth.JobKey]bool{}, []berth.EvalID{}
	for a := range w.AllocsOn(n.ID) {
		k := a.Key()
		if j := w.Job(k); seen[k] || a.Ended() || j == nil || !j.Schedulable() {
			continue
		}
		seen[k] = true
		c := &state.EvaluateJob{Key: k, Eval: w.seed(berth.TriggerNodeUpdate, 0), Now: w.Now.UnixNano()}
		ids = append(ids, c.Eval.ID)
		ch.Commands = append(ch.Commands, c)
	}
	ch.Index = w.Snapshot.Index
	ch.Answer = func(o *Outcome) op.NodeEvaluated {
		out := op.NodeEvaluated{EvalIDs: ids, NodeModifyIndex: n.ModifyIndex, Meta: o.Meta()}
		if len(ids) > 0 {
			out.EvalID, out.EvalCreateIndex = ids[0], o.Index
		}
		return out
	}
	return ch, nil
}

// nodeNamed returns the node that a request names.
func (w *Write) nodeNamed(id string) (*berth.Node, error) {
	full, err := berth.ParseID[berth.Node](id)
	if err != nil {
		return nil, err
	}
	n := w.Snapshot.Node(full)
	if n == nil {
		return nil, berth.Errorf(berth.NotFound, "node not found: %s", id)
	}
	return n, nil
}

// purgeNode forgets a node that is down, with the allocations that ended on it. One
// that may still run something stays, and so does one with an allocation that a
// job needs to be remembered.
func purgeNode(w *Write, in *op.PurgeNode) (ch Change[op.NodePurged], err error) {
	n, err := w.nodeNamed(in.NodeID)
	if err != nil {
		return ch, err
	}
	if n.Status != berth.NodeDown {
		return ch, berth.Errorf(berth.Conflict, "node %s is %s: only a node that is down can be purged, so stop its agent first", n.ID, n.Status)
	}
	sweep, c := state.NewSweep(w.Snapshot), &state.DeleteRows{}
	for a := range w.AllocsOn(n.ID) {
		if why := sweep.Alloc(a); why != "" {
			return ch, berth.Errorf(berth.Conflict, "node %s cannot be purged: allocation %s on it is needed: %s", n.ID, a.ID, why)
		}
		if c.Len() == state.MaxDeletes {
			ch.Commands, c = append(ch.Commands, c), &state.DeleteRows{}
		}
		c.Allocs = append(c.Allocs, a.ID)
	}
	if why := sweep.Node(n); why != "" {
		return ch, berth.Errorf(berth.Conflict, "node %s cannot be purged: %s", n.ID, why)
	}
	if c.Len() == state.MaxDeletes {
		ch.Commands, c = append(ch.Commands, c), &state.DeleteRows{}
	}
	c.Nodes = append(c.Nodes, n.ID)
	ch.Commands, ch.Apart = append(ch.Commands, c), true
	ch.Answer = func(o *Outcome) op.NodePurged {
		return op.NodePurged{EvalIDs: []berth.EvalID{}, NodeModifyIndex: o.Index, Meta: o.Meta()}
	}
	return ch, nil
}
