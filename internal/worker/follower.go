package worker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// The calls that workers on other servers make to the leader.
const (
	DequeueRPC = "Eval.Dequeue"
	AckRPC     = "Eval.Ack"
	NackRPC    = "Eval.Nack"
	SubmitRPC  = "Plan.Submit"
)

// Dequeue asks for evaluations. As a blocking query it waits for some.
type Dequeue struct {
	op.Query
	Schedulers []string // the types that the worker can decide
	Most       int
	// Life is one run of the workers of a server. Who calls in another life holds
	// nothing of what was handed out in those before it, whether the answers came
	// or not.
	Life uint64
}

// Dequeued is what a worker gets. It must not decide on a state before Index.
type Dequeued struct {
	Term  uint64
	Index uint64
	Evals []Handed
}

// Handed is an evaluation that was handed out. The row is in the state.
type Handed struct {
	EvalID             berth.EvalID
	Token              berth.Token
	Enqueued, Dequeued int64 // ns since 1970, by the leader's clock
	Count              int
}

// Settle says of an evaluation that its worker is done with it, or could not
// decide it.
type Settle struct {
	Term   uint64
	EvalID berth.EvalID
	Token  berth.Token
}

// Submit hands in a plan, which ApplyPlan.Ship made bytes of.
type Submit struct {
	Settle
	Plan []byte
}

// Submitted is what became of a plan, once that is safe. Who decides the next
// on the same evaluation does so on a state that is not before Index.
type Submitted struct {
	Index   uint64
	Refused []berth.Refusal // placements that did not fit
	Kind    berth.Kind      // of the error that refused the plan as a whole, "" if none did
	Error   string
}

// Caller calls a method of the leader. An error means that what became of the
// call is not known, or that the leader is not the leader any more.
type Caller interface {
	Call(ctx context.Context, method string, in, out any) error
}

const (
	followerBatch = 8 // evaluations that a worker on a follower takes at once
	dequeueWait   = 10 * time.Second
	// lagTime is how long a worker holds what it cannot decide yet, because this
	// server is behind. Another may decide it meanwhile.
	lagTime = 5 * time.Second
)

// Follower is the queue and the planner of one term as the workers of another
// server have them. Plans take a while to the leader and back. So workers
// decide on a guess: the state of this server, with the plans applied to it
// that are on their way. The leader has the word; where it refuses what the
// guess allowed, the evaluation is decided again, and then the worker waits.
type Follower struct {
	leader Caller
	store  *state.Store

	ctx   context.Context // of Run
	hands sync.WaitGroup  // plans on their way

	mu      sync.Mutex
	term    uint64 // 0 until the first evaluations came
	guess   *state.Tx
	tip     *state.Snapshot // of guess, nil if that changed
	flights []*flight

	life uint64

	Roster *Roster      // of the workers, while they run; nil is none
	Logger *slog.Logger // of the workers; may be set before Run; slog.Default() if not
}

// flight is a plan on its way.
type flight struct {
	plan  state.ApplyPlan
	index uint64 // of the state that has it, 0 if that is not known yet
	lost  bool   // nothing of it is in the state
}

// NewFollower returns the queue and planner for workers of a server with that
// store.
func NewFollower(leader Caller, store *state.Store) *Follower {
	return &Follower{Logger: slog.Default(), leader: leader, store: store, life: rand.Uint64()}
}

// Run has a crew work until ctx ends, or the leader or its term is lost. It
// leaves nothing behind.
func (f *Follower) Run(ctx context.Context, crew *Crew) error {
	ctx, end := context.WithCancel(ctx)
	defer f.hands.Wait()
	defer end()
	f.ctx = ctx
	return crew.follow(ctx, func(types []string) *Worker {
		w := New(f, f, types).On(f.Roster)
		w.batch, w.far, w.Logger = followerBatch, true, f.Logger
		return w
	})
}

// Next implements Queue. It returns when this server has the state to decide
// on.
func (f *Follower) Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error) {
	in := &Dequeue{Query: op.Query{MinQueryIndex: 1, MaxQueryTime: dequeueWait}, Schedulers: types, Most: most, Life: f.life}
	for {
		var out Dequeued
		if err := f.leader.Call(ctx, DequeueRPC, in, &out); err != nil {
			return nil, f.lost(err)
		}
		if err := f.serve(out.Term); err != nil {
			return nil, err
		}
		if len(out.Evals) == 0 {
			continue
		}
		if late, err := f.late(ctx, &out); late || err != nil {
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
				row = &berth.Eval{ID: e.EvalID} // it is gone, as the worker will find
			}
			list[i] = berth.Delivery{Eval: row, Token: e.Token, Enqueued: e.Enqueued, Dequeued: e.Dequeued, Count: e.Count}
		}
		return list, nil
	}
}

// late waits until this server has the state to decide on. If that takes too
// long it gives back what was handed out, and returns, as late, when it has.
func (f *Follower) late(ctx context.Context, out *Dequeued) (late bool, err error) {
	short, cancel := context.WithTimeout(ctx, lagTime)
	defer cancel()
	if err := f.catchUp(short, out.Index); err == nil || ctx.Err() != nil {
		return false, err
	}
	for _, e := range out.Evals {
		if err := f.Nack(e.EvalID, e.Token); err != nil {
			return true, f.lost(err)
		}
	}
	return true, f.catchUp(ctx, out.Index)
}

// serve keeps to one term: what is on its way is of that one.
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

// lost says of a call that failed that the term is over: for a worker it is.
func (f *Follower) lost(err error) error {
	if cause := f.ctx.Err(); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: %v", state.ErrLost, err) // without the cause's kind
}

// Ack implements Queue.
func (f *Follower) Ack(id berth.EvalID, token berth.Token) error {
	return f.leader.Call(f.ctx, AckRPC, f.settle(id, token), nil)
}

// Nack implements Queue.
func (f *Follower) Nack(id berth.EvalID, token berth.Token) error {
	return f.leader.Call(f.ctx, NackRPC, f.settle(id, token), nil)
}

func (f *Follower) settle(id berth.EvalID, token berth.Token) *Settle {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &Settle{Term: f.term, EvalID: id, Token: token}
}

// catchUp waits for a state, and begins the guess anew on what there is then.
func (f *Follower) catchUp(ctx context.Context, index uint64) error {
	base, err := f.store.Await(ctx, index)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flights = slices.DeleteFunc(f.flights, func(x *flight) bool { return x.lost || x.index > 0 && x.index <= base.Index })
	f.guess, f.tip = state.Begin(base), nil
	for _, x := range f.flights {
		own := x.copy()
		f.guess.Apply(&own)
	}
	return nil
}

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

// Submit implements Planner. What of the plan is refused it says by the guess,
// unless the guess refuses something: then the leader's word is waited for.
func (f *Follower) Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error) {
	in := f.pack(d, plan)
	x, guessed := f.apply(plan)
	if guessed.Err != nil {
		return nil, guessed.Err // the state that it was decided on is past
	}
	pending := state.NewPending([]state.Result{guessed})
	if len(plan.Refused) > 0 {
		return pending, f.wait(x, in, plan, pending)
	}
	f.hands.Go(func() {
		out, err := f.hand(x, in)
		switch {
		case err != nil:
		case out.Kind != "":
			err = berth.Errorf(out.Kind, "%s", out.Error)
		case len(out.Refused) > 0:
			err = berth.Errorf(berth.Conflict, "%d of %d placements were refused, one because %s", len(out.Refused), len(plan.Place), out.Refused[0].Reason)
		}
		pending.Resolve(err)
	})
	return pending, nil
}

// pack makes the call of a plan, before the plan is applied to the guess.
func (f *Follower) pack(d *berth.Delivery, plan *state.ApplyPlan) *Submit {
	s := f.settle(d.Eval.ID, d.Token)
	plan.Stamp(s.Term)
	return &Submit{*s, plan.Ship()}
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

// hand brings a plan to the leader. An error has no kind: the term is lost.
func (f *Follower) hand(x *flight, in *Submit) (*Submitted, error) {
	out := new(Submitted)
	err := f.leader.Call(f.ctx, SubmitRPC, in, out)
	f.mu.Lock()
	defer f.mu.Unlock()
	x.index, x.lost = out.Index, err != nil || out.Kind != ""
	if err != nil {
		return nil, f.lost(err)
	}
	return out, nil
}

// wait brings a plan to the leader, and returns when its word is in the plan
// and in this server's state. pending is resolved by then.
func (f *Follower) wait(x *flight, in *Submit, plan *state.ApplyPlan, pending *state.Pending) error {
	out, err := f.hand(x, in)
	if err == nil {
		err = f.catchUp(f.ctx, out.Index)
	}
	pending.Resolve(err)
	if err != nil {
		return err
	}
	plan.Refused = out.Refused
	if out.Kind != "" {
		return berth.Errorf(out.Kind, "%s", out.Error)
	}
	return nil
}

// Sure returns a planner that waits for the leader's word on each plan.
func (f *Follower) Sure() Planner { return sure{f} }

type sure struct{ *Follower }

// Submit implements Planner.
func (s sure) Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error) {
	in := s.pack(d, plan)
	pending := state.NewPending(nil)
	return pending, s.wait(&flight{lost: true}, in, plan, pending)
}
