package api

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/op"
)

// evals registers the operations on evaluations.
func (s *Server) evals() {
	read(s, op.ListEvals, listEvals)
	read(s, op.ReadEval, readEval)
	read(s, op.EvalAllocs, evalAllocs)
}

// listEvals returns the evaluations that the caller may see, by creation, or by
// ID if a prefix is given.
func listEvals(r *Read, in *op.EvalsQuery) ([]op.Eval, error) {
	r.Table(state.Evals)
	keep := func(e *berth.Eval) bool {
		return r.visible(op.ListEvals.Need, e.Namespace) && (in.Job == "" || in.Job == string(e.JobID)) && (in.Status == "" || in.Status == e.Status)
	}
	rows, sorted := r.Evals(), byTime(r.Query, func(e *berth.Eval) (uint64, string) { return e.CreateIndex, e.ID.String() })
	switch {
	// The evaluations of one job are found without reading the table, and the
	// answer changes with them alone.
	case in.Job != "" && r.Space() != berth.AllNamespaces:
		list := r.evalsOf(in.Job)
		if r.Query.Reverse {
			slices.Reverse(list)
		}
		rows = slices.Values(list)
	case r.Query.Reverse:
		rows = r.EvalsBack()
	}
	if r.Query.Prefix != "" {
		p, err := berth.ParseIDPrefix(r.Query.Prefix)
		if err != nil {
			return nil, err
		}
		rows, sorted = turned(r.Query, r.EvalsFrom(p), byID(func(e *berth.Eval) string { return e.ID.String() }))
	}
	return page(r, rows, sorted, keep, r.evalView)
}

// evalsOf returns the evaluations of a job, oldest first, and watches them.
func (r *Read) evalsOf(job string) []*berth.Eval {
	k := berth.JobKey{Namespace: r.Space(), ID: berth.JobID(job)}
	index := r.LastChange(state.Evals)
	if sum := r.Summary(k); sum != nil {
		index = max(sum.Evals, sum.Created)
	}
	r.At(index, state.OnEvalsOf(k))
	return slices.SortedFunc(r.EvalsOf(k), func(a, b *berth.Eval) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), strings.Compare(a.ID.String(), b.ID.String()))
	})
}

// eval returns the evaluation that a request names.
func (r *Read) eval(id string) (*berth.Eval, error) {
	full, err := berth.ParseID[berth.Eval](id)
	if err != nil {
		return nil, err
	}
	e := r.Eval(full)
	if e == nil {
		if err := r.may(op.ReadEval.Need, r.Space()); err != nil {
			return nil, err
		}
		return nil, berth.Errorf(berth.NotFound, "eval not found: %s", id)
	}
	return e, r.may(op.ReadEval.Need, e.Namespace)
}

// readEval returns one evaluation, on request with those that it is linked with
// and that the caller may see.
func readEval(r *Read, in *op.EvalQuery) (op.Eval, error) {
	e, err := r.eval(in.EvalID)
	if err != nil {
		return op.Eval{}, err
	}
	r.At(e.ModifyIndex, state.OnEval(e.ID))
	v := r.evalView(e)
	if !in.Related {
		return v, nil
	}
	index, watch := e.ModifyIndex, []state.WatchKey{state.OnEval(e.ID)}
	v.RelatedEvals = []op.EvalStub{}
	for _, x := range explain.Related(r.Snapshot, e) {
		if r.visible(op.ReadEval.Need, x.Namespace) {
			v.RelatedEvals = append(v.RelatedEvals, evalStub(x))
			index, watch = max(index, x.ModifyIndex), append(watch, state.OnEval(x.ID))
		}
	}
	r.At(index, watch...)
	return v, nil
}

// evalAllocs returns the allocations that an evaluation placed, oldest first.
func evalAllocs(r *Read, in *op.EvalRef) ([]op.AllocStub, error) {
	e, err := r.eval(in.EvalID)
	if err != nil {
		return nil, err
	}
	index := e.ModifyIndex
	out := []op.AllocStub{}
	for a := range r.AllocsBy(e.ID) {
		index = max(index, a.ModifyIndex)
		out = append(out, allocStub(r.Snapshot, a, true, false))
	}
	r.At(index, state.OnAllocsBy(e.ID), state.OnEval(e.ID))
	sortAllocs(out)
	return out, nil
}

// evalView shows an evaluation; where an open one is, the leader knows.
func (r *Read) evalView(e *berth.Eval) op.Eval {
	v := op.Eval{
		ID: e.ID, Namespace: e.Namespace, Priority: e.Priority, Type: e.Type, TriggeredBy: e.TriggeredBy, Cause: e.Cause,
		JobID: e.JobID, JobModifyIndex: e.JobModifyIndex, NodeID: e.NodeID, NodeModifyIndex: e.NodeModifyIndex,
		DeploymentID: e.DeploymentID, Status: e.Status, StatusDescription: e.StatusDescription, Failure: e.Failure,
		NextEval: e.NextEval, PreviousEval: e.PreviousEval, BlockedEval: e.BlockedEval,
		FailedTGAllocs: e.FailedTGAllocs, QueuedAllocations: e.QueuedAllocations, Timeline: op.Timeline{Timeline: e.Timeline},
		SnapshotIndex: e.SnapshotIndex, CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex, CreateTime: e.CreateTime, ModifyTime: e.ModifyTime,
	}
	if e.WaitUntil != 0 {
		v.WaitUntil = time.Unix(0, e.WaitUntil).UTC()
	}
	// Classes of nodes that were found too small are named only while the
	// evaluation is blocked on them.
	if m := e.Missed; m != nil {
		v.ClassEligibility, v.EscapedComputedClass = m.Classes, m.Escaped
	}
	// Elsewhere than on the leader the view ends here.
	l := r.leader()
	switch {
	case l == nil:
	case e.Terminal():
		v.Timeline.Acked = l.Acked(e.ID)
	default:
		if quasi, t := l.Quasi(e.ID); t != (berth.Timeline{}) {
			v.QuasiStatus, v.Timeline.Timeline = quasi, t
		}
	}
	return v
}

// evalStub shows an evaluation that another one is linked with.
func evalStub(e *berth.Eval) op.EvalStub {
	v := op.EvalStub{
		ID: e.ID, Priority: e.Priority, Type: e.Type, TriggeredBy: e.TriggeredBy, Namespace: e.Namespace, JobID: e.JobID, NodeID: e.NodeID,
		DeploymentID: e.DeploymentID, Status: e.Status, StatusDescription: e.StatusDescription, NextEval: e.NextEval,
		PreviousEval: e.PreviousEval, BlockedEval: e.BlockedEval, CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex,
		CreateTime: e.CreateTime, ModifyTime: e.ModifyTime,
	}
	if e.WaitUntil != 0 {
		v.WaitUntil = time.Unix(0, e.WaitUntil).UTC()
	}
	return v
}
