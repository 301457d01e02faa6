package server

import (
	"context"
	"errors"
	"maps"
	"sync"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/internal/wire"
	"berth/internal/worker"
	"berth/op"
)

// What workers of other servers call on the leader.

// handed is what those were handed and have not settled. When the connection
// of a server ends, or its workers begin anew, others get its evaluations at
// once: an answer that nobody got holds nothing.
type handed struct {
	mu     sync.Mutex
	byPeer map[*wire.Session]*held
}

// held is what the workers of one server hold, in one life of theirs.
type held struct {
	life  uint64
	evals map[berth.EvalID]given
}

type given struct {
	term  *term
	token berth.Token
}

func (s *Server) handleWorkers() {
	peer.Handle(s.wire, op.EvalDequeue, s.dequeue)
	peer.Handle(s.wire, op.EvalAck, s.settle((*broker.Broker).Ack))
	peer.Handle(s.wire, op.EvalNack, s.settle((*broker.Broker).Nack))
	peer.Handle(s.wire, op.PlanSubmit, func(ctx context.Context, _ *wire.Call, in *op.SubmitPlan) (*op.PlanSubmitted, error) {
		return s.judge(ctx, in)
	})
}

const mostHanded = 64 // evaluations to one call

func (s *Server) dequeue(ctx context.Context, c *wire.Call, in *op.DequeueEvals) (*op.DequeuedEvals, error) {
	t := s.term.Load()
	if t == nil {
		return nil, peer.ErrNotLeader
	}
	if sess := c.Peer.Session(); sess != nil { // of a connection that is no session nobody hears when it ends
		s.handed.begin(sess, in.Life)
	}
	ctx, cancel := context.WithTimeout(ctx, in.MaxQueryTime)
	defer cancel()
	list, err := t.broker.Next(ctx, in.Schedulers, max(1, min(in.Most, mostHanded)))
	out := &op.DequeuedEvals{Term: t.number, Index: s.store.Snapshot().Index}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return out, nil
	case errors.Is(err, broker.ErrClosed):
		return nil, peer.ErrNotLeader
	case err != nil:
		return nil, err
	}
	s.handed.add(c.Peer.Session(), in.Life, t, list)
	for _, d := range list {
		out.Evals = append(out.Evals, op.DequeuedEval{EvalID: d.Eval.ID, Token: d.Token, Enqueued: d.Enqueued, Dequeued: d.Dequeued, Count: d.Count})
	}
	return out, nil
}

// begin says that workers of a server ask in a life of theirs. What they were
// handed in another one is given back. It watches the server's session, once.
func (h *handed) begin(sess *wire.Session, life uint64) {
	h.mu.Lock()
	before := h.byPeer[sess]
	if before != nil && before.life == life {
		h.mu.Unlock()
		return
	}
	if h.byPeer == nil {
		h.byPeer = map[*wire.Session]*held{}
	}
	h.byPeer[sess] = &held{life, map[berth.EvalID]given{}}
	h.mu.Unlock()
	if before != nil {
		before.giveBack()
		return
	}
	go func() { // ends with the session, which ends with wire.Serve
		<-sess.Done()
		h.mu.Lock()
		last := h.byPeer[sess]
		delete(h.byPeer, sess)
		h.mu.Unlock()
		last.giveBack()
	}()
}

// add notes what a server was handed. If its workers began anew meanwhile, or
// it is gone, that is given back.
func (h *handed) add(sess *wire.Session, life uint64, t *term, list []berth.Delivery) {
	if sess == nil {
		return
	}
	evals := map[berth.EvalID]given{}
	for _, d := range list {
		evals[d.Eval.ID] = given{t, d.Token}
	}
	h.mu.Lock()
	now := h.byPeer[sess]
	if now != nil && now.life == life {
		maps.Copy(now.evals, evals)
		evals = nil
	}
	h.mu.Unlock()
	(&held{evals: evals}).giveBack()
}

func (h *handed) drop(sess *wire.Session, id berth.EvalID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.byPeer[sess]; now != nil {
		delete(now.evals, id)
	}
}

// giveBack has others work on what a server does not hold any more.
func (h *held) giveBack() {
	for id, g := range h.evals {
		_ = g.term.broker.Nack(id, g.token) // it was settled, or the term is over
	}
}

// settle returns a handler that ends a delivery.
func (s *Server) settle(how func(*broker.Broker, berth.EvalID, berth.Token) error) func(context.Context, *wire.Call, *op.SettleEval) (*op.Nothing, error) {
	return func(_ context.Context, c *wire.Call, in *op.SettleEval) (*op.Nothing, error) {
		t := s.term.Load()
		if t == nil || t.number != in.Term {
			return nil, peer.ErrNotLeader
		}
		s.handed.drop(c.Peer.Session(), in.EvalID)
		return &op.Nothing{}, how(t.broker, in.EvalID, in.Token)
	}
}

// judge has the planner of the term in which a plan was decided judge it. It
// returns when what the plan changed is safe.
func (s *Server) judge(ctx context.Context, in *op.SubmitPlan) (*op.PlanSubmitted, error) {
	t := s.term.Load()
	switch {
	case t == nil:
		return nil, peer.ErrNotLeader
	case t.number != in.Term: // whoever decided it has lost its leader
		s.refused.Note(berth.CodeStaleEpoch)
		return nil, peer.ErrNotLeader
	}
	plan, err := state.Unship(in.Plan)
	if err != nil {
		return nil, err
	}
	if plan.Eval != in.EvalID {
		return nil, berth.Errorf(berth.Invalid, "plan: it is for evaluation %s, not %s", plan.Eval, in.EvalID)
	}
	pending, err := t.planner.Submit(&berth.Delivery{Eval: &berth.Eval{ID: in.EvalID}, Token: in.Token}, plan)
	if err != nil && berth.KindOf(err) == "" {
		return nil, err
	}
	out := &op.PlanSubmitted{Refused: plan.Refused}
	if err != nil {
		out.Kind, out.Code, out.Error = berth.KindOf(err), berth.CodeOf(err), err.Error()
	}
	out.Index = s.store.Snapshot().Index
	if pending != nil { // a refusal, too, counts once the state that it met is safe
		if err := pending.Wait(ctx); err != nil {
			return nil, err
		}
		out.Index = pending.Results[0].Index
	}
	return out, nil
}

// following is the work that this server's workers do for another that leads.
type following struct {
	mu    sync.Mutex
	leads bool
	stop  context.CancelFunc // of the work in hand, nil if there is none
	idle  *sync.Cond
}

func newFollowing() *following {
	f := &following{}
	f.idle = sync.NewCond(&f.mu)
	return f
}

// begin says whether there may be work, which is over when end is called.
func (f *following) begin(stop context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leads {
		return false
	}
	f.stop = stop
	return true
}

func (f *following) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	f.stop = nil
	f.idle.Broadcast()
}

// lead ends the work and keeps it from beginning, until follow is called.
func (f *following) lead() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leads = true
	for f.stop != nil {
		f.stop()
		f.idle.Wait()
	}
}

func (f *following) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leads = false
}

// follow has workers work for whoever leads, until ctx ends.
func (s *Server) follow(ctx context.Context) error {
	for {
		changed := s.leading.changed()
		if now := s.leading.current(); now.addr != "" && now.addr != s.config.Advertise {
			s.workFor(ctx, now)
			if err := await(ctx, changed, 2*retryPause); err != nil { // it could not be reached, or its term is over
				return err
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// workFor works until the leader, or its term, is lost.
func (s *Server) workFor(ctx context.Context, leader lease) {
	ctx, stop := context.WithCancel(ctx)
	defer context.AfterFunc(leader.life, stop)()
	if !s.following.begin(stop) {
		stop()
		return
	}
	defer s.following.end()
	f := worker.NewFollower(submitter{caller{s, leader.addr}}, s.store)
	f.Registry, f.Logger = &s.workers, s.config.Logger
	err := f.Run(ctx, s.crew)
	s.config.Logger.Debug("workers lost the leader", "address", leader.addr, "error", err)
}

// submitter is the leader as workers here call it: with plans past the
// failpoints, if any is armed.
type submitter struct{ caller }

// Call implements op.Caller.
func (c submitter) Call(ctx context.Context, method string, in, out any) error {
	if plan, ok := in.(*op.SubmitPlan); ok {
		return c.submitWithFaults(ctx, plan, out)
	}
	return c.caller.Call(ctx, method, in, out)
}
