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
