package server

import (
	"context"
	"errors"
	"time"

	"berth"
	"berth/internal/events"
	"berth/internal/leader/broker"
	"berth/internal/state"
	"berth/internal/traces"
)

// ended takes note of an evaluation that ended, for metrics and traces.
func (s *Server) ended(e broker.Ended) {
	s.metrics.intervals.observe(e)
	if s.config.Traces != nil {
		s.config.Traces.Add(traces.Eval(e.Eval, e.Acked, chainOf(s.store.Snapshot(), e.Eval)))
	}
}

// mostLinks bounds how far a chain of evaluations is followed.
const mostLinks = 64

// chainOf returns the chain of evaluations that led to one. Evaluations that are
// gone end it.
func chainOf(snap *state.Snapshot, e *berth.Eval) (c traces.Chain) {
	c.First = e.ID
	for range mostLinks {
		before := e.PreviousEval
		if before.IsZero() && e.Cause.Kind == berth.CauseEval {
			before, _ = berth.ParseID[berth.Eval](e.Cause.ID)
		}
		if before.IsZero() || before == c.First {
			return c
		}
		if c.First = before; c.Before.IsZero() {
			c.Before = before
		}
		if e = snap.Eval(before); e == nil {
			return c
		}
	}
	return c
}

// mostTraced bounds how many allocations are remembered whose start was reported.
const mostTraced = 20_000

// traceAllocs reports the start of allocations while this server leads.
func (s *Server) traceAllocs(ctx context.Context) error {
	done := map[berth.AllocID]bool{}
	for {
		r, err := s.events.From(s.store.Snapshot().Index + 1)
		if errors.Is(err, events.ErrClosed) {
			<-ctx.Done()
			return ctx.Err()
		}
		if err != nil {
			continue // they fell behind in between
		}
		err = s.traceFrom(ctx, r, done)
		r.Close()
		// One that fell behind goes on with what is new.
		if gap := new(events.Gap); !errors.As(err, &gap) && !errors.Is(err, events.ErrClosed) {
			return err
		}
	}
}

// traceFrom reports starts until a reader of events fails.
func (s *Server) traceFrom(ctx context.Context, r *events.Reader, done map[berth.AllocID]bool) error {
	for {
		sets, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if s.term.Load() == nil {
			continue
		}
		for _, set := range sets {
			for i := range set.Events {
				a, ok := set.Events[i].Row.(*berth.Alloc)
				if !ok || set.Events[i].Topic == events.Resource || a.Client == berth.ClientPending || done[a.ID] || !traces.Fresh(a, time.Now()) {
					continue
				}
				if len(done) >= mostTraced {
					clear(done)
				}
				done[a.ID] = true
				s.traceAlloc(a)
			}
		}
	}
}

// traceAlloc reports the start of an allocation.
func (s *Server) traceAlloc(a *berth.Alloc) {
	snap := s.store.Snapshot()
	first, node := a.EvalID, ""
	if e := snap.Eval(a.EvalID); e != nil {
		first = chainOf(snap, e).First
	}
	if n := snap.Node(a.NodeID); n != nil {
		node = n.Name
	}
	s.config.Traces.Add(traces.Alloc(a, state.TaskStates(a), node, first))
}
