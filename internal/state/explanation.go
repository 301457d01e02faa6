package state

import (
	"berth"
)

// Explanation returns the reasons of an evaluation's placements, or nil.
func (s *Snapshot) Explanation(id berth.EvalID) *Explanation {
	_, x := s.explanations.find(id)
	return x
}

// find returns the explanation of an evaluation and its slot, or nil.
func (t *explanationTable) find(id berth.EvalID) (slot uint32, x *Explanation) {
	hi, _ := id.Words()
	return find(&t.rows, &t.byEval, hi, func(x *Explanation) bool { return x.Eval == id })
}

// LastExplained returns the index of the last change of any explanation.
func (s *Snapshot) LastExplained() uint64 { return s.explanations.changed }

// putExplanation adds to the explanation of an evaluation.
func (tx *Tx) putExplanation(x *Explanation) {
	t := &tx.explanations
	slot, old := t.find(x.Eval)
	if old == nil {
		hi, _ := x.Eval.Words()
		t.byEval.Add(tx.edit, hi, t.insert(tx, x))
		return
	}
	merged := &Explanation{x.Eval, map[string]*berth.AllocMetric{}}
	for _, groups := range []map[string]*berth.AllocMetric{old.Groups, x.Groups} {
		for g, m := range groups {
			merged.Groups[g] = m
		}
	}
	t.set(tx, slot, merged)
}
