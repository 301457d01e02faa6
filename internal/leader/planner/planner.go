// Package planner takes plans from workers and brings them into the log, many
// in one entry. A plan counts only while its worker holds the evaluation. The
// state decides what of it still fits, when the plan is applied after
// everything that came before it in the log. A plan that was decided on the
// planner's tip meets nothing new there.
package planner

import (
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
)

// Queue is the part of the broker that the planner uses.
type Queue interface {
	// Extend gives a worker more time. applying states whether its plan is
	// being applied. Extend fails if the worker no longer holds the evaluation.
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
	queued  []*state.Pending // plans that are not committed yet, the oldest first, and some that are
}

// New returns the planner of a term, with DefaultTracker.
func New(term uint64, log state.Log, queue Queue) *Planner {
	p := &Planner{Logger: slog.Default(), term: term, log: log, queue: queue}
	p.Track(DefaultTracker)
	return p
}

// Track sets what happens to nodes that refuse placements. It must come before the
// first plan.
func (p *Planner) Track(t Tracker) {
	p.refused = refusals{tracker: t, nodes: map[berth.NodeID]*nodeRefusals{}}
}

// Tip returns the newest state, including plans that are not yet committed. It
// is the state to decide on.
func (p *Planner) Tip() *state.Snapshot { return p.log.Tip() }

// Submit brings a plan into the log and reports at once, in plan.Refused, what
// was refused of it. The plan is committed once Wait of the returned value has
// returned nil. An error with a kind refuses the whole plan.
func (p *Planner) Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error) {
	if err := p.queue.Extend(d.Eval.ID, d.Token, true); err != nil {
		return nil, err
	}
	plan.Stamp(p.term)
	pending, err := p.log.Stage(plan)
	if err != nil {
		return nil, err
	}
	if err := p.tell(p.count(plan, pending)); err != nil {
		return nil, err
	}
	err = pending.Results[0].Err
	if err != nil || len(plan.Refused) > 0 {
		// The worker decides again. If it has just lost the evaluation, its
		// next plan is refused.
		_ = p.queue.Extend(d.Eval.ID, d.Token, false)
	}
	return pending, err
}

// count counts a plan and returns commands that add events to nodes, or take them out.
func (p *Planner) count(plan *state.ApplyPlan, pending *state.Pending) (tell []state.Command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans++
	p.queued = append(p.open(), pending)
	now := time.Now()
	for i := range plan.Refused {
		r := &plan.Refused[i]
		e, disable := p.refused.note(r, now)
		if e != nil {
			p.Logger.Warn("a node keeps refusing placements", "node", r.NodeID, "reason", r.Reason, "disabled", disable)
			tell = append(tell, &state.AddNodeEvents{ID: r.NodeID, Events: []berth.NodeEvent{*e}})
		}
		if disable {
			c := &state.SetNodeEligibility{ID: r.NodeID, Eligibility: berth.NodeIneligible, Now: now.UnixNano()}
			_, _ = rand.Read(c.Seed[:]) // never fails
			tell = append(tell, c)
		}
	}
	return tell
}

// tell stages the commands of count and does not wait for them. A node that was
// deleted gets none.
func (p *Planner) tell(events []state.Command) error {
	if len(events) == 0 {
		return nil
	}
	_, err := p.log.Stage(events...)
	return err
}

// open returns the plans that are still queued. They are committed in
// order. The lock is held.
func (p *Planner) open() []*state.Pending {
	n := 0
	for n < len(p.queued) && p.queued[n].Done() {
		n++
	}
	return slices.Delete(p.queued, 0, n)
}

// Queued returns the number of plans that are not committed yet.
func (p *Planner) Queued() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued = p.open()
	return len(p.queued)
}

// Stats returns the number of plans, and for each node the number of placements
// it refused, by the kind of reason.
func (p *Planner) Stats() (plans uint64, refused map[berth.NodeID]map[berth.RefusalKind]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused = make(map[berth.NodeID]map[berth.RefusalKind]int, len(p.refused.nodes))
	for n, c := range p.refused.nodes {
		refused[n] = maps.Clone(c.kinds)
	}
	return p.plans, refused
}
