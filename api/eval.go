package api

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/op"
	"berth/state"
)

func (s *Server) evals() {
	read(s, op.ListEvals, listEvals)
	read(s, op.ReadEval, readEval)
	read(s, op.EvalAllocs, evalAllocs)
}

// visible says whether a row of the namespace belongs in the answer.
func (r *Read) visible(namespace string) bool {
	return r.Space() == berth.AllNamespaces || r.Space() == namespace
}

func listEvals(r *Read, in *op.EvalsQuery) ([]op.Eval, error) {
	r.Table(state.Evals)
	keep := func(e *berth.Eval) bool {
		return r.visible(e.Namespace) && (in.Job == "" || in.Job == string(e.JobID)) && (in.Status == "" || in.Status == e.Status)
	}
	if in.Job != "" && r.Space() != berth.AllNamespaces {
		return jobEvals(r, &op.JobRef{JobID: in.Job, Query: in.Query})
	}
	rows, key := r.Evals(), func(e *berth.Eval) string { return token26(e.CreateIndex, e.ID.String()) }
	if r.Query.Reverse {
		rows = r.EvalsBack()
	}
	if r.Query.Prefix != "" {
		p, err := berth.ParseIDPrefix(r.Query.Prefix)
		if err != nil {
			return nil, err
		}
		rows, key = r.EvalsFrom(p), func(e *berth.Eval) string { return e.ID.String() }
	}
	return page(r, rows, key, keep, r.evalView)
}

// eval returns the evaluation that a request names.
func (r *Read) eval(id string) (*berth.Eval, error) {
	full, err := berth.ParseID[berth.Eval](id)
	if err != nil {
		return nil, err
	}
	e := r.Eval(full)
	if e == nil {
		return nil, berth.Errorf(berth.NotFound, "eval not found: %s", id)
	}
	if err := r.server.Authorize(r.Caller, op.ReadEval.Need, e.Namespace); err != nil {
		return nil, err
	}
	return e, nil
}

func readEval(r *Read, in *op.EvalRef) (op.Eval, error) {
	e, err := r.eval(in.EvalID)
	if err != nil {
		return op.Eval{}, err
	}
	r.At(e.ModifyIndex, state.OnEval(e.ID))
	return r.evalView(e), nil
}

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
		DeploymentID: e.DeploymentID, Status: e.Status, StatusDescription: e.StatusDescription,
		NextEval: e.NextEval, PreviousEval: e.PreviousEval, BlockedEval: e.BlockedEval,
		FailedTGAllocs: e.FailedTGAllocs, QueuedAllocations: e.QueuedAllocations, Timeline: e.Timeline,
		SnapshotIndex: e.SnapshotIndex, CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex, CreateTime: e.CreateTime, ModifyTime: e.ModifyTime,
	}
	if e.WaitUntil != 0 {
		v.WaitUntil = time.Unix(0, e.WaitUntil).UTC()
	}
	if m := e.Missed; m != nil {
		v.ClassEligibility, v.EscapedComputedClass = m.Classes, m.Escaped
	}
	if !e.Terminal() {
		if l, err := r.server.Cluster.Leader(); err == nil {
			if quasi, t := l.Quasi(e.ID); t != (berth.Timeline{}) {
				v.QuasiStatus, v.Timeline = quasi, t
			}
		}
	}
	return v
}

func sortEvals(list []op.Eval) {
	slices.SortFunc(list, func(a, b op.Eval) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), strings.Compare(a.ID.String(), b.ID.String()))
	})
}
