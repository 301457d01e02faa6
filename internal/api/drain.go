package api

import (
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

const (
	// mostDrain is the longest time that a drain can be given: its deadline must
	// be one that JSON can say.
	mostDrain = 100 * 365 * 24 * time.Hour
	// mostMeta bounds what an operator notes of a drain, of names and values
	// together.
	mostMeta = 4 << 10
)

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

// eligibilitySet answers a change of what may be placed on a node, and which
// evaluations it raised.
func eligibilitySet(o *Outcome, evals []berth.EvalID) op.EligibilitySet {
	out := op.EligibilitySet{NodeModifyIndex: o.Index, EvalIDs: evals}
	if len(evals) > 0 {
		out.EvalCreateIndex = o.Index
	}
	return out
}

// checkDrain refuses what no drain can be. MarkEligible beside a DrainSpec is
// what clients send that say the same of both; it means nothing then.
func checkDrain(in *op.UpdateDrain) error {
	if s := in.DrainSpec; s != nil && s.Deadline > mostDrain {
		return berth.Errorf(berth.Invalid, "DrainSpec.Deadline: %s is too long; allowed are up to %s, 0 for no deadline and less than 0 for at once", s.Deadline, mostDrain)
	}
	size := 0
	for k, v := range in.Meta {
		size += len(k) + len(v)
	}
	if size > mostMeta {
		return berth.Errorf(berth.Invalid, "Meta: %d bytes are too many; allowed are %d", size, mostMeta)
	}
	return nil
}
