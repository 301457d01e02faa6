package api

import (
	"cmp"
	"slices"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// system registers the operations on rows that nothing needs any more.
func (s *Server) system() {
	write(s, op.CollectGarbage, collectGarbage)
	write(s, op.EvalDelete, deleteEvals)
}

// collectGarbage raises the evaluation that deletes what is no longer needed. It
// does not wait for it.
func collectGarbage(w *Write, _ *op.SystemGC) (Change[op.SystemGCRaised], error) {
	c := &state.RaiseCore{Force: true, Cause: w.cause(), Now: w.Now.UnixNano()}
	w.random(c.ID[:])
	return propose(c, func(*Outcome) op.SystemGCRaised { return op.SystemGCRaised{EvalID: c.ID} }), nil
}

// deleteEvals deletes evaluations with their allocations. What is still needed
// stays: an evaluation that is named refuses the request, one that a filter
// matches is skipped.
func deleteEvals(w *Write, in *op.DeleteEvals) (ch Change[op.EvalsDeleted], err error) {
	named := len(in.EvalIDs) > 0
	if named == (in.Filter != "") {
		return ch, berth.Errorf(berth.Invalid, "EvalIDs, Filter: want exactly one of them to name the evaluations to delete")
	}
	var evals []*berth.Eval
	if named {
		evals, err = w.evalsNamed(in.EvalIDs)
	} else {
		evals, err = w.evalsMeeting(in.Filter)
	}
	if err != nil {
		return ch, err
	}
	// An evaluation goes before those that follow from it.
	slices.SortFunc(evals, func(a, b *berth.Eval) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), strings.Compare(a.ID.String(), b.ID.String()))
	})
	sweep := state.NewSweep(w.Snapshot)
	c := &state.DeleteRows{}
	count := 0
	for _, e := range slices.Compact(evals) {
		// If one of its allocations stays, Eval returns why the evaluation
		// stays too.
		for a := range w.AllocsBy(e.ID) {
			if sweep.Alloc(a) == "" {
				if c.Len() == state.MaxDeletes {
					ch.Commands, c = append(ch.Commands, c), &state.DeleteRows{}
				}
				c.Allocs = append(c.Allocs, a.ID)
			}
		}
		if why := sweep.Eval(e); why != "" {
			if named {
				return ch, berth.Errorf(berth.Conflict, "evaluation %s cannot be deleted: %s", e.ID, why)
			}
			continue
		}
		if c.Len() == state.MaxDeletes {
			ch.Commands, c = append(ch.Commands, c), &state.DeleteRows{}
		}
		c.Evals = append(c.Evals, e.ID)
		count++
	}
	if c.Len() > 0 {
		ch.Commands = append(ch.Commands, c)
	}
	// Each command is within the limit of one log entry; together they may not
	// be.
	ch.Apart = true
	ch.Answer = func(*Outcome) op.EvalsDeleted { return op.EvalsDeleted{Count: count} }
	return ch, nil
}

// evalsNamed returns evaluations by their complete IDs, at most
// state.MaxDeletes; one that is unknown fails the request.
func (w *Write) evalsNamed(ids []string) (out []*berth.Eval, err error) {
	if len(ids) > state.MaxDeletes {
		return nil, berth.Errorf(berth.Invalid, "EvalIDs: %d IDs is too many: the limit is %d", len(ids), state.MaxDeletes)
	}
	for _, text := range ids {
		id, err := berth.ParseID[berth.Eval](text)
		if err != nil {
			return nil, err
		}
		e := w.Eval(id)
		if e == nil {
			return nil, berth.Errorf(berth.NotFound, "eval not found: %s", text)
		}
		out = append(out, e)
	}
	return out, nil
}

// evalsMeeting returns the evaluations in the namespace of the request that have
// ended and match an expression.
func (w *Write) evalsMeeting(text string) (out []*berth.Eval, err error) {
	r := w.read()
	wanted, err := rowFilter(text, nil, r.evalView)
	if err != nil {
		return nil, err
	}
	for e := range w.Evals() {
		if !e.Terminal() || w.Space() != berth.AllNamespaces && w.Space() != e.Namespace {
			continue
		}
		ok, err := wanted(e)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, e)
		}
	}
	return out, nil
}
