package api

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/op"
)

// evals registers the operations on evaluations.
func (s *Server) evals() {
	readList(s, op.ListEvals, listEvals)
	read(s, op.ReadEval, readEval)
	readList(s, op.EvalAllocs, evalAllocs)
}

// listEvals returns the evaluations that the caller may see, by creation, or by
// ID if a prefix is given.
func listEvals(r *Read, in *op.EvalsQuery) ([]op.Eval, error) {
	r.Table(state.Evals)
	r.shownByLeader()
	keep := func(e *berth.Eval) bool {
		return r.visible(op.ListEvals.Need, e.Namespace) && (in.Job == "" || in.Job == string(e.JobID)) && (in.Status == "" || in.Status == e.Status)
	}
	l := byTime(r.Query, r.EvalsByTime, evalPlace)
	var err error
	switch {
	case r.Query.Prefix != "":
		l, err = byRange(r.Query, r.EvalRange, func(e *berth.Eval) berth.EvalID { return e.ID })
	// The evaluations of one job are found without reading the table, and the
	// answer changes with them alone.
	case in.Job != "" && r.Space() != berth.AllNamespaces:
		l = scanned(r.Query, slices.Values(r.evalsOf(in.Job)), order[*berth.Eval]{l.token, func(e *berth.Eval, token string) bool {
			first, _, _ := strings.Cut(token, ".")
			index, _ := strconv.ParseUint(first, 10, 64)
			return e.CreateIndex >= index
		}})
	}
	if err != nil {
		return nil, err
	}
	l.source = r.evalSource
	return page(r, l, keep, r.evalView)
}

// shownByLeader is called for lists of evaluations. On the leader they show what is
// in no state.
func (r *Read) shownByLeader() {
	if r.leader() != nil {
		r.Volatile()
	}
}

// evalPlace is where an evaluation stands in a list by creation.
func evalPlace(e *berth.Eval) (uint64, berth.EvalID) { return e.CreateIndex, e.ID }

// evalSource is what the view of an evaluation is made of: what the leader knows of
// it is part of that.
func (r *Read) evalSource(e *berth.Eval) source {
	l := r.leader()
	switch {
	case l == nil:
		return source{a: e}
	case e.Terminal():
		return source{a: e, n: l.Acked(e.ID)}
	}
	return source{} // where it is in the queues changes without notice
}

// evalsOf returns the evaluations of a job, oldest first, and watches them.
func (r *Read) evalsOf(job string) []*berth.Eval {
	k := berth.JobKey{Namespace: r.Space(), ID: berth.JobID(job)}
	index := r.LastChange(state.Evals)
	if sum := r.Summary(k); sum != nil {
		index = max(sum.Evals, sum.Created)
	}
	r.At(index, state.OnEvalsOf(k))
	r.Also(state.Evals) // those of earlier jobs, too
	r.shownByLeader()
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
	absent := r.absent(op.ReadEval.Need, "eval not found: %s", id)
	if e == nil {
		return nil, absent()
	}
	return e, mayOf(r.may, op.ReadEval.Need, e.Namespace, absent)
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

// evalAllocs returns the allocations that an evaluation placed, oldest first: none
// if it is unknown.
func evalAllocs(r *Read, in *op.EvalRef) ([]op.AllocStub, error) {
	id, err := berth.ParseID[berth.Eval](in.EvalID)
	e := r.Eval(id)
	if e != nil && errors.Is(r.may(op.EvalAllocs.Need, e.Namespace), errForeign) {
		e = nil
	}
	if err != nil || e == nil {
		// Who follows an evaluation may come before or after it is there.
		r.At(r.LastChange(state.Evals), state.OnAllocsBy(id), state.OnEval(id))
		return []op.AllocStub{}, r.may(op.EvalAllocs.Need, r.Space())
	}
	if err := r.may(op.EvalAllocs.Need, e.Namespace); err != nil {
		return nil, err
	}
	index, allocs := e.ModifyIndex, []*berth.Alloc{}
	for a := range r.AllocsBy(e.ID) {
		index, allocs = max(index, a.ModifyIndex), append(allocs, a)
	}
	r.At(index, state.OnAllocsBy(e.ID), state.OnEval(e.ID))
	return r.allocStubs(allocs), nil
}

// evalView shows an evaluation; where an open one is, the leader knows.
func (r *Read) evalView(e *berth.Eval) op.Eval {
	v := op.Eval{
		ID: e.ID, Namespace: e.Namespace, Priority: e.Priority, Type: e.Type, TriggeredBy: e.TriggeredBy, Cause: e.Cause,
		JobID: e.JobID, JobModifyIndex: e.JobModifyIndex, NodeID: e.NodeID, NodeModifyIndex: e.NodeModifyIndex,
		DeploymentID: e.DeploymentID, Status: e.Status, StatusDescription: e.StatusDescription, Failure: e.Failure,
		NextEval: e.NextEval, PreviousEval: e.PreviousEval, BlockedEval: e.BlockedEval, SupersededBy: e.SupersededBy,
		QuotaLimitReached: e.QuotaLimitReached, FailedTGAllocs: e.FailedTGAllocs, QueuedAllocations: e.QueuedAllocations, Timeline: op.Timeline{Timeline: e.Timeline},
		SnapshotIndex: e.SnapshotIndex, CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex, CreateTime: e.CreateTime, ModifyTime: e.ModifyTime,
	}
	if e.WaitUntil != 0 {
		v.WaitUntil = time.Unix(0, e.WaitUntil).UTC()
	}
	if v.QueuedAllocations == nil && e.SnapshotIndex > 0 { // it was decided, and nothing waits
		v.QueuedAllocations = map[string]int{}
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
	case e.Status == berth.EvalFailed && e.Timeline.Applied == 0: // nobody decided it; who had it was too late
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
		PreviousEval: e.PreviousEval, BlockedEval: e.BlockedEval, SupersededBy: e.SupersededBy, CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex,
		CreateTime: e.CreateTime, ModifyTime: e.ModifyTime,
	}
	if e.WaitUntil != 0 {
		v.WaitUntil = time.Unix(0, e.WaitUntil).UTC()
	}
	return v
}
