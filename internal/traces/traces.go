// Package traces tells a collector of OpenTelemetry what became of jobs: when
// something was asked for, how long it took to be stored, to wait, to be decided
// and to be planned, and when its tasks ran. Spans are made from what the state
// records anyway, so tracing costs those who work nothing; they are sent as OTLP
// over HTTP in JSON. A collector that is slow or absent costs spans, and nothing
// ever waits for it.
//
// A trace is a chain of evaluations: its ID is that of the first one. IDs of
// spans follow from those of evaluations and allocations, so servers that report
// the same thing report the same span.
package traces

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth"
)

// Span is one step of a trace.
type Span struct {
	Trace      berth.EvalID // the first evaluation of the chain
	ID, Parent SpanID       // no Parent: the first step
	Name       string
	Start, End int64 // ns since 1970
	Failed     string
	Attributes map[string]string
}

// SpanID identifies a span in its trace.
type SpanID [8]byte

// spanOf returns the ID of the span that a name stands for.
func spanOf(name, id string) SpanID {
	sum := sha256.Sum256([]byte(name + " " + id))
	return SpanID(sum[:8])
}

// ofEval returns the ID of an evaluation's span.
func ofEval(id berth.EvalID) SpanID { return spanOf("evaluation", id.String()) }

// Chain is where an evaluation stands among those that led to it.
type Chain struct {
	First  berth.EvalID // of the chain; it may be the evaluation itself
	Before berth.EvalID // the one that led to it, zero if none did
}

// Eval returns the spans of an evaluation that ended: the whole, and as far as
// the times are known, how long it took to store it, how long it waited for a
// worker, was decided, and was planned, which includes that its plan was checked
// and stored. acked is when its worker was done, 0 if none was.
func Eval(e *berth.Eval, acked int64, c Chain) []Span {
	end := max(acked, e.ModifyTime, e.Timeline.Applied)
	whole := Span{
		Trace: c.First, ID: ofEval(e.ID), Name: e.TriggeredBy, Start: e.CreateTime, End: end,
		Attributes: map[string]string{
			"berth.eval.id": e.ID.String(), "berth.eval.trigger": e.TriggeredBy, "berth.eval.status": e.Status, "berth.job": string(e.JobID), "berth.namespace": e.Namespace,
			"berth.cause": e.Cause.Kind,
		},
	}
	if e.Cause.Request != nil {
		whole.Name = e.Cause.Request.Op
	}
	if !c.Before.IsZero() {
		whole.Parent = ofEval(c.Before)
	}
	if !e.NodeID.IsZero() {
		whole.Attributes["berth.node.id"] = e.NodeID.String()
	}
	if !e.DeploymentID.IsZero() {
		whole.Attributes["berth.deployment.id"] = e.DeploymentID.String()
	}
	if e.Status == berth.EvalFailed {
		whole.Failed = cmp.Or(e.StatusDescription, "failed")
	}
	t := e.Timeline
	if t.Deliveries > 0 {
		whole.Attributes["berth.eval.deliveries"] = strconv.Itoa(t.Deliveries)
		whole.Attributes["berth.plan.refused"] = strconv.Itoa(t.Refused)
	}
	out := []Span{whole}
	due := max(t.Enqueued, e.WaitUntil)
	for _, s := range []struct {
		name       string
		start, end int64
	}{
		{"raft apply", e.CreateTime, t.Enqueued}, {"delay", t.Enqueued, e.WaitUntil}, {"evaluation wait", due, t.Dequeued},
		{"scheduling", t.Dequeued, cmp.Or(t.Planned, acked)}, {"plan", t.Planned, max(t.Applied, acked)},
	} {
		if s.start > 0 && s.end > 0 && (s.end > s.start || s.name != "delay") {
			out = append(out, Span{Trace: c.First, ID: spanOf(s.name, e.ID.String()), Parent: whole.ID, Name: s.name, Start: s.start, End: max(s.start, s.end)})
		}
	}
	return out
}

// Alloc returns the spans of an allocation that runs or has ended: the whole,
// from its placement to its last task's start, when its agent received it, and
// the start of each task.
func Alloc(a *berth.Alloc, tasks map[string]*berth.TaskState, node string, first berth.EvalID) []Span {
	id := a.ID.String()
	whole := Span{
		Trace: first, ID: spanOf("allocation", id), Parent: ofEval(a.EvalID), Name: "allocation", Start: a.CreateTime, End: a.CreateTime,
		Attributes: map[string]string{
			"berth.alloc.id": id, "berth.job": string(a.Job.ID), "berth.namespace": a.Job.Namespace, "berth.group": a.Group.Name,
			"berth.node.id": a.NodeID.String(), "berth.node": node, "berth.alloc.status": a.Client.String(),
		},
	}
	if a.Client == berth.ClientFailed {
		whole.Failed, whole.End = "the allocation failed", max(whole.End, a.ModifyTime)
	}
	out := []Span{whole}
	received := int64(0)
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		t := tasks[name]
		from := int64(0)
		for _, e := range t.Events {
			if e.Type == berth.EventReceived {
				from = max(a.CreateTime, e.Time)
			}
		}
		if from > 0 && received == 0 {
			received = from
			out = append(out, Span{Trace: first, ID: spanOf("received", id), Parent: whole.ID, Name: "allocation received", Start: a.CreateTime, End: from})
		}
		if t.StartedAt.IsZero() && !t.Failed {
			continue
		}
		s := Span{
			Trace: first, ID: spanOf("task "+name, id), Parent: whole.ID, Name: "task start", Start: cmp.Or(from, a.CreateTime), End: t.StartedAt.UnixNano(),
			Attributes: map[string]string{"berth.task": name},
		}
		if t.Failed {
			s.Failed = "the task failed"
		}
		if t.StartedAt.IsZero() {
			s.End = t.FinishedAt.UnixNano()
		}
		s.End = max(s.Start, s.End)
		out[0].End = max(out[0].End, s.End)
		out = append(out, s)
	}
	return out
}

// sampled reports whether a trace is among a share of them. All servers choose
// the same ones.
func sampled(first berth.EvalID, share float64) bool {
	sum := sha256.Sum256(first[:])
	n := uint64(0)
	for _, b := range sum[:7] {
		n = n<<8 | uint64(b)
	}
	return float64(n) < share*float64(uint64(1)<<56)
}

// longest is how long after its creation an allocation may start to be of
// interest.
const longest = time.Hour

// Fresh reports whether an allocation was placed not long before a time: the
// starts of old ones are not news.
func Fresh(a *berth.Alloc, now time.Time) bool {
	return a.CreateTime > now.Add(-longest).UnixNano()
}
