package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/rest"
	"berth/internal/state"
	"berth/op"
)

const (
	followerBatch = 8                // number of evaluations that a worker on a follower takes at once
	dequeueWait   = 10 * time.Second // how long the leader may hold a request that finds no evaluation
	// lagTime is how long a worker keeps evaluations that it cannot decide yet
	// because this server's state is behind. Then another worker may get them.
	lagTime = 5 * time.Second
	// limitedPause is about how long a worker waits before it repeats a call that
	// was refused because too many were under way.
	limitedPause = time.Second
)

// Follower is the queue and the planner of one term for workers on a server
// that does not lead. A plan takes a while to the leader and back, so these
// workers decide on a guess: this server's state with their pending plans
// applied. The leader decides what counts. Where it refuses what the guess
// allowed, the evaluation is decided again, and then the worker waits for the
// leader's answer.
type Follower struct {
	leader op.Caller
	store  *state.Store

	ctx     context.Context // of Run
	submits sync.WaitGroup  // pending plans

	mu      sync.Mutex
	term    uint64 // 0 until the first evaluations arrive
	guess   *state.Tx
	tip     *state.Snapshot // snapshot of guess; nil if guess changed since
	flights []*flight

	life uint64

	Registry *Registry    // lists the workers while they run; may be nil
	Logger   *slog.Logger // of the workers; may be set before Run; slog.Default() if not
}

// flight is a plan that the leader has not answered yet, or whose result is not
// in this server's state.
type flight struct {
	plan  state.ApplyPlan
	index uint64 // of the first state that includes it; 0 if not known yet
	lost  bool   // it was not applied
}

// NewFollower returns the queue and planner for workers on a server with this
// store. An error of leader means that the outcome of a call is unknown, or
// that the leader no longer leads.
func NewFollower(leader op.Caller, store *state.Store) *Follower {
	return &Follower{Logger: slog.Default(), leader: patient{leader}, store: store, life: rand.Uint64()}
}

// patient repeats calls that the leader, or the session to it, refused because too
// many were under way: nothing was done, and the term goes on.
type patient struct{ op.Caller }

// Call implements [op.Caller].
func (p patient) Call(ctx context.Context, method string, in, out any) error {
	for {
		err := p.Caller.Call(ctx, method, in, out)
		if berth.KindOf(err) != berth.Limited {
			return err
		}
		if err := rest.For(ctx, limitedPause/2+rand.N(limitedPause)); err != nil {
			return err
		}
	}
}

// Run runs a pool of workers until ctx ends, or the leader or its term is lost.
// When it returns, nothing of it is still running.
func (f *Follower) Run(ctx context.Context, crew *Pool) error {
	ctx, end := context.WithCancel(ctx)
	defer f.submits.Wait()
	defer end()
	f.ctx = ctx
	return crew.follow(ctx, func(types []string) *Worker {
		w := New(f, f, types).On(f.Registry)
		w.batch, w.remote, w.Logger = followerBatch, true, f.Logger
		return w
	})
}

// Next implements Queue. It returns when this server's state is new enough to
// decide the evaluations.
func (f *Follower) Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error) {
	return f.nextWhile(ctx, ctx, types, most)
}

// nextWhile is Next for a worker that takes nothing more once taking has ended.
// A request that waits at the leader then is not broken off, because what it is
// just being given would be lost for a while: it goes back unread.
func (f *Follower) nextWhile(ctx, taking context.Context, types []string, most int) ([]berth.Delivery, error) {
	in := &op.DequeueEvals{Query: op.Query{MinQueryIndex: 1, MaxQueryTime: dequeueWait}, Schedulers: types, Most: most, Life: f.life}
	for {
		out, err := op.Call(ctx, f.leader, op.EvalDequeue, in)
		if err != nil {
			return nil, f.lost(err)
		}
		if err := f.serve(out.Term); err != nil {
			return nil, err
		}
		if taking.Err() != nil && ctx.Err() == nil {
			return nil, f.giveBack(out.Evals, true)
		}
		if len(out.Evals) == 0 {
			continue
		}
		// The evaluations may be newer than this server's state.
		if late, err := f.late(ctx, out); late || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		snap := f.Tip()
		list := make([]berth.Delivery, len(out.Evals))
		for i, e := range out.Evals {
			row := snap.Eval(e.EvalID)
			if row == nil {
				row = &berth.Eval{ID: e.EvalID} // it was deleted, as the worker will find
			}
			list[i] = berth.Delivery{Eval: row, Token: e.Token, Enqueued: e.Enqueued, Dequeued: e.Dequeued, Count: e.Count}
		}
		return list, nil
	}
}

// late waits until this server's state is new enough. If that takes too long it
// returns the evaluations to the leader, waits on, and returns late.
func (f *Follower) late(ctx context.Context, out *op.DequeuedEvals) (late bool, err error) {
	short, cancel := context.WithTimeout(ctx, lagTime)
	defer cancel()
	if err := f.catchUp(short, out.Index); err == nil || ctx.Err() != nil {
		return false, err
	}
	if err := f.giveBack(out.Evals, false); err != nil {
		return true, err
	}
	return true, f.catchUp(ctx, out.Index)
}

// giveBack returns evaluations to the leader; unread ones need not wait before
// they are handed out again.
func (f *Follower) giveBack(list []op.DequeuedEval, unread bool) error {
	for _, e := range list {
		in := f.settle(e.EvalID, e.Token)
		in.Unread = unread
		if _, err := op.Call(f.ctx, f.leader, op.EvalNack, in); err != nil {
			return f.lost(err)
		}
	}
	return nil
}

// serve keeps f to one term: its pending plans belong to that one.
func (f *Follower) serve(term uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.term == 0 {
		f.term = term
	}
	if f.term != term {
		return fmt.Errorf("%w: term %d has begun", state.ErrLost, term)
	}
	return nil
}

// lost turns the error of a call into state.ErrLost: for a worker the term is
// over.
func (f *Follower) lost(err error) error {
	if cause := f.ctx.Err(); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: %v", state.ErrLost, err) // without the cause's kind
}

// Ack implements Queue.
func (f *Follower) Ack(id berth.EvalID, token berth.Token) error {
	_, err := op.Call(f.ctx, f.leader, op.EvalAck, f.settle(id, token))
	return err
}

// Nack implements Queue.
func (f *Follower) Nack(id berth.EvalID, token berth.Token) error {
	_, err := op.Call(f.ctx, f.leader, op.EvalNack, f.settle(id, token))
	return err
}

// settle returns the request that settles an evaluation with the leader of the
// current term.
func (f *Follower) settle(id berth.EvalID, token berth.Token) *op.SettleEval {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &op.SettleEval{Term: f.term, EvalID: id, Token: token}
}

// catchUp waits for a state and starts a new guess from it.
func (f *Follower) catchUp(ctx context.Context, index uint64) error {
	if _, err := f.store.Await(ctx, index); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Not the state that was waited for: another worker may have gone on from a
	// newer one since.
	base := f.store.Snapshot()
	f.flights = slices.DeleteFunc(f.flights, func(x *flight) bool { return x.lost || x.index > 0 && x.index <= base.Index })
	f.guess, f.tip = state.Begin(base), nil
	for _, x := range f.flights {
		own := x.copy()
		f.guess.Apply(&own)
	}
	return nil
}

// copy returns the plan to be sent, so that the caller's stays as it was.
func (x *flight) copy() state.ApplyPlan {
	own := x.plan
	own.Place = slices.Clone(own.Place) // Apply rounds scores
	return own
}

// Tip implements Planner.
func (f *Follower) Tip() *state.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guess == nil {
		f.guess = state.Begin(f.store.Snapshot())
	}
	if f.tip == nil {
		f.tip = f.guess.Seal()
	}
	return f.tip
}

// Submit implements Planner. plan.Refused comes from the guess, unless the
// guess refuses something; then Submit waits for the leader's answer.
func (f *Follower) Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error) {
	in := f.pack(d, plan)
	x, guessed := f.apply(plan)
	if guessed.Err != nil {
		return nil, guessed.Err // the plan was decided on an outdated state
	}
	pending := state.NewPending([]state.Result{guessed})
	if len(plan.Refused) > 0 {
		return pending, f.wait(x, in, plan, pending)
	}
	f.submits.Go(func() {
		out, err := f.send(x, in)
		switch {
		case err != nil:
		case out.Kind != "":
			err = &berth.Error{Kind: out.Kind, Code: out.Code, Err: errors.New(out.Error)}
		case len(out.Refused) > 0:
			err = berth.Errorf(berth.Conflict, "%d of %d placements were refused, the first because %s", len(out.Refused), len(plan.Place), out.Refused[0].Reason)
		}
		pending.Resolve(err)
	})
	return pending, nil
}

// pack builds the request for a plan, before the plan is applied to the guess.
func (f *Follower) pack(d *berth.Delivery, plan *state.ApplyPlan) *op.SubmitPlan {
	s := f.settle(d.Eval.ID, d.Token)
	plan.Stamp(s.Term)
	return &op.SubmitPlan{SettleEval: *s, Plan: plan.Ship()}
}

// apply applies a plan to the guess.
func (f *Follower) apply(plan *state.ApplyPlan) (*flight, state.Result) {
	x := &flight{plan: *plan}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guess == nil {
		f.guess = state.Begin(f.store.Snapshot())
	}
	own := x.copy()
	r := f.guess.Apply(&own)
	plan.Refused = own.Refused
	if r.Err == nil {
		f.tip = nil
		f.flights = append(f.flights, x)
	}
	return x, r
}

// send sends a plan to the leader. An error has no kind: the term is lost.
func (f *Follower) send(x *flight, in *op.SubmitPlan) (*op.PlanSubmitted, error) {
	out, err := op.Call(f.ctx, f.leader, op.PlanSubmit, in)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		x.lost = true
		return nil, f.lost(err)
	}
	x.index, x.lost = out.Index, out.Kind != ""
	return out, nil
}

// wait sends a plan to the leader, and returns when the leader's answer is in
// the plan and its result in this server's state. pending is resolved by then.
func (f *Follower) wait(x *flight, in *op.SubmitPlan, plan *state.ApplyPlan, pending *state.Pending) error {
	out, err := f.send(x, in)
	if err == nil {
		err = f.catchUp(f.ctx, out.Index)
	}
	pending.Resolve(err)
	if err != nil {
		return err
	}
	plan.Refused = out.Refused
	if out.Kind != "" {
		return &berth.Error{Kind: out.Kind, Code: out.Code, Err: errors.New(out.Error)}
	}
	return nil
}

// Confirmed returns a planner that waits for the leader's answer on each plan.
func (f *Follower) Confirmed() Planner { return confirmed{f} }

// confirmed is a Follower that waits for the leader's answer to each plan.
type confirmed struct{ *Follower }

// Submit implements Planner.
func (s confirmed) Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error) {
	in := s.pack(d, plan)
	pending := state.NewPending(nil)
	return pending, s.wait(&flight{lost: true}, in, plan, pending)
}
