// Package planner takes plans from workers and brings them into the log, many
// in one entry. A plan counts only while its worker holds the evaluation. What
// of it still fits is decided by the state, where the plan meets whatever came
// before it in the log; a plan that was decided on the planner's tip meets
// nothing it did not know.
package planner

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
)

// Queue is what the planner asks the broker.
type Queue interface {
	// Extend gives a worker more time, and says whether its plan is on its way.
	// It fails if the worker does not hold the evaluation any more.
	Extend(id berth.EvalID, token berth.Token, applying bool) error
}

// Planner takes the plans of one term.
type Planner struct {
	Logger *slog.Logger // may be set before the first plan comes; slog.Default() if not

	term  uint64
	log   state.Log
	queue Queue

	mu      sync.Mutex
	refused refusals
	plans   uint64
}

// New returns the planner of a term.
func New(term uint64, log state.Log, queue Queue) *Planner {
	return &Planner{Logger: slog.Default(), term: term, log: log, queue: queue, refused: refusals{}}
}

// Tip returns the newest state, plans included that are still on their way. It
// is the state to decide on.
func (p *Planner) Tip() *state.Snapshot { return p.log.Tip() }

// Submit brings a plan into the log and says at once what of it was refused,
// in plan.Refused. It is safe once Wait of what is returned has returned nil.
// An error with a kind refuses the plan as a whole.
func (p *Planner) Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error) {
	if err := p.queue.Extend(d.Eval.ID, d.Token, true); err != nil {
		return nil, err
	}
	plan.Stamp(p.term)
	pending, err := p.log.Stage(plan)
	if err != nil {
		return nil, err
	}
	if err := p.tell(p.count(plan)); err != nil {
		return nil, err
	}
	err = pending.Results[0].Err
	if err != nil || len(plan.Refused) > 0 {
		// The worker decides again. If it lost the evaluation just now, its next
		// plan is refused.
		_ = p.queue.Extend(d.Eval.ID, d.Token, false)
	}
	return pending, err
}

// count counts a plan, and returns what is to be told of nodes.
func (p *Planner) count(plan *state.ApplyPlan) (tell []state.Command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans++
	now := time.Now()
	for i := range plan.Refused {
		r := &plan.Refused[i]
		if e := p.refused.note(r, now); e != nil {
			p.Logger.Warn("placements on a node are refused again and again", "node", r.NodeID, "reason", r.Reason)
			tell = append(tell, &state.AddNodeEvents{ID: r.NodeID, Events: []berth.NodeEvent{*e}})
		}
	}
	return tell
}

// tell brings events of nodes into the log, and waits for nothing. A node that
// is gone has none.
func (p *Planner) tell(events []state.Command) error {
	if len(events) == 0 {
		return nil
	}
	_, err := p.log.Stage(events...)
	return err
}

// Stats counts plans, and the placements that each node refused, by what kind
// of reason.
func (p *Planner) Stats() (plans uint64, refused map[berth.NodeID]map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused = make(map[berth.NodeID]map[string]int, len(p.refused))
	for n, c := range p.refused {
		refused[n] = maps.Clone(c.kinds)
	}
	return p.plans, refused
}
