package api

import (
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// Limits of a drain.
const (
	// mostDrain is the longest deadline of a drain: the time at which it ends
	// must fit into JSON.
	mostDrain = 100 * 365 * 24 * time.Hour
	// mostMeta limits the metadata of a drain: the bytes of all keys and values.
	mostMeta = 4 << 10
)

// drainNode decides that a node's drain begins, changes or, without a
// DrainSpec, ends. The answer names the evaluations that this raised.
func drainNode(w *Write, in *op.UpdateDrain) (ch Change[op.EligibilitySet], err error) {
	id, err := berth.ParseID[berth.Node](in.NodeID)
	if err != nil {
		return ch, err
	}
	if err := checkDrain(in); err != nil {
		return ch, err
	}
	c := &state.UpdateDrain{ID: id, Spec: in.DrainSpec, MarkEligible: in.MarkEligible, Meta: in.Meta, Now: w.Now.UnixNano()}
	w.random(c.Seed[:])
	return propose(c, func(o *Outcome) op.EligibilitySet { return eligibilitySet(o, c.Evals) }), nil
}

// drainSelf decides that a node is drained because its agent is about to end, or that
// this is over since the agent is back. What an operator decided of the node is left
// alone.
func drainSelf(w *Write, in *op.DrainSelf) (ch Change[op.EligibilitySet], err error) {
	n, err := prove(w.Snapshot, in.NodeID, in.AuthToken)
	if err != nil {
		return ch, err
	}
	if err := checkDrain(&op.UpdateDrain{DrainSpec: in.Spec}); err != nil {
		return ch, err
	}
	own := n.LastDrain != nil && n.LastDrain.Meta[op.ShutdownDrain] != ""
	if in.Spec != nil && n.Draining() || in.Spec == nil && (!own || n.SchedulingEligibility == berth.NodeEligible) {
		return unchanged(op.EligibilitySet{}), nil
	}
	c := &state.UpdateDrain{ID: n.ID, Spec: in.Spec, MarkEligible: in.Spec == nil, Now: w.Now.UnixNano()}
	if in.Spec != nil {
		c.Meta = map[string]string{op.ShutdownDrain: "the agent ends"}
	}
	w.random(c.Seed[:])
	return propose(c, func(o *Outcome) op.EligibilitySet { return eligibilitySet(o, c.Evals) }), nil
}

// eligibilitySet answers a change of a node's eligibility that raised
// evaluations.
func eligibilitySet(o *Outcome, evals []berth.EvalID) op.EligibilitySet {
	out := op.EligibilitySet{NodeModifyIndex: o.Index, EvalIDs: evals}
	if len(evals) > 0 {
		out.EvalCreateIndex = o.Index
	}
	return out
}

// checkDrain refuses an impossible drain. MarkEligible beside a DrainSpec is
// ignored: some clients always send both.
func checkDrain(in *op.UpdateDrain) error {
	if s := in.DrainSpec; s != nil && s.Deadline > mostDrain {
		return berth.Errorf(berth.Invalid, "DrainSpec.Deadline: %s is too long: want at most %s, 0 for no deadline, or a negative value to drain at once", s.Deadline, mostDrain)
	}
	size := 0
	for k, v := range in.Meta {
		size += len(k) + len(v)
	}
	if size > mostMeta {
		return berth.Errorf(berth.Invalid, "Meta: %d bytes is too long: the limit is %d", size, mostMeta)
	}
	return nil
}
