package api

import (
	"slices"
	"time"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/op"
)

// explanations registers the operations that say why things are as they are.
func (s *Server) explanations() {
	read(s, op.TraceJob, traceJob)
	read(s, op.TraceEval, traceEval)
	read(s, op.ExplainJob, explainJob)
	read(s, op.ExplainEval, explainEval)
}

// traceJob returns the evaluations of a job, and what each did. With All, those
// of deleted jobs of the same name are among them.
func traceJob(r *Read, in *op.JobTraceQuery) (op.Trace, error) {
	k := berth.JobKey{Namespace: r.Space(), ID: berth.JobID(in.JobID)}
	j := r.Job(k)
	if j == nil && !r.remembers(k) {
		return op.Trace{}, berth.Errorf(berth.NotFound, "job not found: %s", k)
	}
	var uid *berth.UID
	if j != nil && !in.All {
		uid = &j.UID
	}
	return r.trace(k, uid, berth.EvalID{}, in.Limit)
}

// remembers reports whether an evaluation or an allocation is left of a job that
// may be gone.
func (r *Read) remembers(k berth.JobKey) bool {
	for range r.EvalsOf(k) {
		return true
	}
	for range r.AllocsOf(k) {
		return true
	}
	return false
}

// traceEval returns the trace of the job that an evaluation is of.
func traceEval(r *Read, in *op.EvalTraceQuery) (op.Trace, error) {
	e, err := r.eval(in.EvalID)
	if err != nil {
		return op.Trace{}, err
	}
	return r.trace(e.Key(), &e.JobUID, e.ID, in.Limit)
}

// trace returns the evaluations of a job, the tree of one among them if it is not
// zero. The answer changes with any of them and with any allocation of the job.
func (r *Read) trace(k berth.JobKey, uid *berth.UID, of berth.EvalID, limit int) (op.Trace, error) {
	if limit < 0 {
		return op.Trace{}, berth.Errorf(berth.Invalid, "limit: must not be negative, got %d", limit)
	}
	matches, err := rowFilter(r.Query.Filter, nil, r.tracedEval)
	if err != nil {
		return op.Trace{}, err
	}
	// A job without a summary was purged. Then any change may be about it.
	index := max(r.LastChange(state.Evals), r.LastChange(state.Allocs))
	if sum := r.Summary(k); sum != nil {
		index = max(sum.Evals, sum.Allocs, sum.Created)
	}
	r.At(index, state.OnEvalsOf(k), state.OnAllocsOf(k), state.OnJob(k))
	out := op.Trace{Namespace: k.Namespace, JobID: k.ID, Evals: []op.TracedEval{}}
	// The index is known by now, and the rest is expensive.
	if r.Waits() {
		return out, nil
	}
	if uid != nil {
		out.JobUID = uid.Text('j')
	}
	// The status is that of the present job, not of one that had its name
	// before.
	if j := r.Job(k); j != nil && (uid == nil || j.UID == *uid) {
		out.JobStatus, _ = r.Summary(k).Status(j)
	}
	// The filter comes after the rights: it must not reveal rows by its errors.
	steps := slices.DeleteFunc(explain.Trace(r.Snapshot, k, uid), func(s explain.Step) bool { return !r.visible(op.TraceJob.Need, s.Eval.Namespace) })
	all := len(steps)
	if r.Query.Filter != "" {
		if steps, err = explain.Matching(steps, matches); err != nil {
			return op.Trace{}, err
		}
	}
	out.Unmatched = all - len(steps)
	steps, out.Older, out.Later = explain.Newest(steps, limit, of)
	for i := range steps {
		out.Evals = append(out.Evals, r.tracedEval(&steps[i]))
	}
	return out, nil
}

// tracedEval shows one evaluation of a trace.
func (r *Read) tracedEval(s *explain.Step) op.TracedEval {
	return op.TracedEval{
		Eval: r.evalView(s.Eval), JobUID: s.Eval.JobUID.Text('j'), Depth: s.Depth, Parent: s.Parent, Link: s.Link,
		Placed: r.traced(s.Placed), Updated: r.traced(s.Updated), Stopped: r.traced(s.Stopped),
	}
}

// traced returns allocations as a trace shows them, with the reason for their
// desired status.
func (r *Read) traced(list []*berth.Alloc) []op.TracedAlloc {
	out := []op.TracedAlloc{}
	for _, a := range list {
		v := op.TracedAlloc{ID: a.ID, Name: a.Name(), NodeID: a.NodeID, ClientStatus: a.Client, Why: a.Rest().DesiredDescription}
		if n := r.Node(a.NodeID); n != nil {
			v.NodeName = n.Name
		}
		out = append(out, v)
	}
	return out
}

// explainJob explains how a job stands now: what is placed, and what is not,
// for which reasons.
func explainJob(r *Read, in *op.JobRef) (op.Explanation, error) {
	k := berth.JobKey{Namespace: r.Space(), ID: berth.JobID(in.JobID)}
	if r.Job(k) == nil && !r.remembers(k) {
		return op.Explanation{}, berth.Errorf(berth.NotFound, "job not found: %s", k)
	}
	r.anything()
	return *explain.Job(r.Snapshot, k, r.where, time.Now()), nil
}

// explainEval explains what one evaluation decided.
func explainEval(r *Read, in *op.EvalRef) (op.Explanation, error) {
	e, err := r.eval(in.EvalID)
	if err != nil {
		return op.Explanation{}, err
	}
	r.anything()
	return *explain.Eval(r.Snapshot, e, r.where, time.Now()), nil
}

// anything sets the index of an answer that changes with everything a scheduler
// looks at. It watches nothing: the next answer would come at once and cost as
// much.
func (r *Read) anything() {
	var index uint64
	for _, t := range []state.Table{state.Nodes, state.Jobs, state.Evals, state.Allocs} {
		index = max(index, r.LastChange(t))
	}
	r.At(index)
}

// where returns the status of an open evaluation in the leader's queues, "" on a
// follower.
func (r *Read) where(id berth.EvalID) string {
	if l := r.leader(); l != nil {
		quasi, _ := l.Quasi(id)
		return quasi
	}
	return ""
}
