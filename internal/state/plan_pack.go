package state

import (
	"berth"
	"berth/internal/state/codec"
)

// ApplyPlan and ReportAllocs occur about once per allocation, so their fields
// are written one by one: a placement takes about ten bytes, a report about
// fifty. Nodes are written as numbers; the IDs of new allocations follow from
// the evaluation's and are not written at all.

// pack implements packed. Rare parts follow a bool each, so that a plain plan
// stays small.
func (c *ApplyPlan) pack(w *codec.Writer) {
	w.ID(c.Eval)
	w.Uint(c.Term)
	w.Int(c.Now)
	w.Uint(c.JobVersion)
	w.Placements(c.Place, c.nodes)
	w.Stops(c.Stop)
	codec.WriteIDs(w, c.Update)
	w.Bool(len(c.Explain) > 0)
	if len(c.Explain) > 0 {
		w.Value(c.Explain)
	}
	w.Bool(c.Deploy != nil || c.Deployed != nil)
	if c.Deploy != nil || c.Deployed != nil {
		w.Value(&planDeployment{c.Deploy, c.Deployed})
	}
	w.Bool(c.End != nil)
	if c.End != nil {
		c.End.pack(w, c.Now)
	}
}

// planDeployment is what few plans say of deployments.
type planDeployment struct {
	Deploy   *berth.Deployment
	Deployed *DeploymentChange
}

// unpack implements packed. The plan counts as from the log: its nodes are
// numbers and not IDs.
func (c *ApplyPlan) unpack(r *codec.Reader) {
	c.fromLog = true
	c.Eval = r.ID()
	c.Term = r.Uint()
	c.Now = r.Int()
	c.JobVersion = r.Uint()
	c.Place, c.nodes = r.Placements()
	c.Stop = r.Stops()
	c.Update = codec.ReadIDs[berth.Alloc](r)
	// The rare parts, each after a bool.
	if r.Bool() {
		r.Value(&c.Explain)
	}
	if r.Bool() {
		var d planDeployment
		r.Value(&d)
		c.Deploy, c.Deployed = d.Deploy, d.Deployed
	}
	if r.Bool() {
		c.End = &EvalEnd{}
		c.End.unpack(r, c.Now)
	}
}

// evalStatuses gives statuses their codes in log entries: append only.
var evalStatuses = []string{berth.EvalPending, berth.EvalBlocked, berth.EvalComplete, berth.EvalFailed, berth.EvalCanceled}

// An end is its status, its times as differences to now, and all that few
// evaluations have as msgpack.
func (e *EvalEnd) pack(w *codec.Writer, now int64) {
	for i, s := range evalStatuses {
		if s == e.Status {
			w.Byte(byte(i))
		}
	}
	w.Uint(e.SnapshotIndex)
	w.Timeline(e.Timeline, now)
	rest := endRest{e.Description, e.Failed, e.Queued, e.Missed, e.Blocked, e.Later, e.Nodes, e.Failure}
	plain := e.Description == "" && e.Failure == "" && len(e.Failed) == 0 && len(e.Queued) == 0 && e.Missed == nil && e.Blocked == nil && len(e.Later) == 0 && len(e.Nodes) == 0
	w.Bool(!plain)
	if !plain {
		w.Value(&rest)
	}
}

// endRest is what most ends of evaluations lack, in msgpack. Fields may be
// added, not renamed.
type endRest struct {
	Description string
	Failed      map[string]*berth.AllocMetric
	Queued      map[string]int
	Missed      *berth.Missed
	Blocked     *NewEval
	Later       []NewEval
	Nodes       []NodeWait `msgpack:",omitempty"`
	Failure     string     `msgpack:",omitempty"`
}

// unpack reads what pack wrote. now is the time of the plan, from which the
// timeline is counted.
func (e *EvalEnd) unpack(r *codec.Reader, now int64) {
	e.Status = evalStatuses[r.Below(uint64(len(evalStatuses)), "status")]
	e.SnapshotIndex = r.Uint()
	e.Timeline = r.Timeline(now)
	if r.Bool() {
		var rest endRest
		r.Value(&rest)
		e.Description, e.Failed, e.Queued = rest.Description, rest.Failed, rest.Queued
		e.Missed, e.Blocked, e.Later, e.Nodes, e.Failure = rest.Missed, rest.Blocked, rest.Later, rest.Nodes, rest.Failure
	}
}
