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

// This file has the calls that workers of other servers make to the leader.

// outstanding holds the evaluations that workers of other servers have taken
// and not yet acknowledged. When a server's connection ends, or its workers
// restart, other workers get its evaluations at once.
type outstanding struct {
	mu     sync.Mutex
	byPeer map[*wire.Session]*peerEvals
}

// peerEvals is what the workers of one server hold. life tells their runs apart.
type peerEvals struct {
	run   uint64 // chosen by the workers when they start
	evals map[berth.EvalID]delivery
}

// delivery is one evaluation that a worker holds: the term whose broker
// delivered it, and the token to return it with.
type delivery struct {
	term  *term
	token berth.Token
}

// handleWorkers registers the calls that workers of other servers make.
func (s *Server) handleWorkers() {
	peer.Handle(s.wire, op.EvalDequeue, s.dequeue)
	peer.Handle(s.wire, op.EvalAck, s.settle(func(b *broker.Broker, in *op.SettleEval) error { return b.Ack(in.EvalID, in.Token) }))
	peer.Handle(s.wire, op.EvalNack, s.settle(func(b *broker.Broker, in *op.SettleEval) error {
		if in.Unread {
			return b.Return(in.EvalID, in.Token)
		}
		return b.Nack(in.EvalID, in.Token)
	}))
	peer.Handle(s.wire, op.PlanSubmit, func(ctx context.Context, _ *wire.Call, in *op.SubmitPlan) (*op.PlanSubmitted, error) {
		return s.submitPlan(ctx, in)
	})
}

const maxDequeue = 64 // evaluations per call

// dequeue hands evaluations to the workers of another server. It waits as long
// as the caller asks; without an evaluation by then the list is empty, and not
// an error.
func (s *Server) dequeue(ctx context.Context, c *wire.Call, in *op.DequeueEvals) (*op.DequeuedEvals, error) {
	t := s.term.Load()
	if t == nil {
		return nil, peer.ErrNotLeader
	}
	if sess := c.Peer.Session(); sess != nil { // a connection without a session does not report its end
		s.outstanding.begin(sess, in.Life)
	}
	ctx, cancel := context.WithTimeout(ctx, in.MaxQueryTime)
	defer cancel()
	list, err := t.broker.Next(ctx, in.Schedulers, max(1, min(in.Most, maxDequeue)))
	out := &op.DequeuedEvals{Term: t.number, Index: s.store.Snapshot().Index}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return out, nil
	case errors.Is(err, broker.ErrClosed):
		return nil, peer.ErrNotLeader
	case err != nil:
		return nil, err
	}
	// Recorded before the answer leaves, so that a broken connection loses no
	// evaluation.
	s.outstanding.add(c.Peer.Session(), in.Life, t, list)
	for _, d := range list {
		out.Evals = append(out.Evals, op.DequeuedEval{EvalID: d.Eval.ID, Token: d.Token, Enqueued: d.Enqueued, Dequeued: d.Dequeued, Count: d.Count})
	}
	return out, nil
}

// begin records a call from a server's workers in their current run.
// Evaluations from an earlier run are given back. The first call starts a watch
// of the session.
func (h *outstanding) begin(sess *wire.Session, life uint64) {
	h.mu.Lock()
	before := h.byPeer[sess]
	if before != nil && before.run == life {
		h.mu.Unlock()
		return
	}
	if h.byPeer == nil {
		h.byPeer = map[*wire.Session]*peerEvals{}
	}
	// Broker calls follow after the lock is released: the broker has a lock of
	// its own.
	h.byPeer[sess] = &peerEvals{life, map[berth.EvalID]delivery{}}
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

// add records what a server was given. If its workers restarted meanwhile, or the
// server is gone, the evaluations are given back.
func (h *outstanding) add(sess *wire.Session, life uint64, t *term, list []berth.Delivery) {
	if sess == nil {
		return
	}
	evals := map[berth.EvalID]delivery{}
	for _, d := range list {
		evals[d.Eval.ID] = delivery{t, d.Token}
	}
	h.mu.Lock()
	now := h.byPeer[sess]
	if now != nil && now.run == life {
		maps.Copy(now.evals, evals)
		evals = nil
	}
	h.mu.Unlock()
	(&peerEvals{evals: evals}).giveBack()
}

// drop forgets an evaluation that a server's workers have settled.
func (h *outstanding) drop(sess *wire.Session, id berth.EvalID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.byPeer[sess]; now != nil {
		delete(now.evals, id)
	}
}

// giveBack returns evaluations to the broker, for other workers.
func (h *peerEvals) giveBack() {
	for id, g := range h.evals {
		_ = g.term.broker.Nack(id, g.token) // fails if it is settled, or the term is over
	}
}

// settle returns the handler that acknowledges, or rejects, a delivery.
func (s *Server) settle(how func(*broker.Broker, *op.SettleEval) error) func(context.Context, *wire.Call, *op.SettleEval) (*op.Nothing, error) {
	return func(_ context.Context, c *wire.Call, in *op.SettleEval) (*op.Nothing, error) {
		t := s.term.Load()
		if t == nil || t.number != in.Term {
			return nil, peer.ErrNotLeader
		}
		s.outstanding.drop(c.Peer.Session(), in.EvalID)
		return &op.Nothing{}, how(t.broker, in)
	}
}

// submitPlan submits a plan to the planner, if the term in which it was made
// still lasts. It returns when the plan's changes are committed.
func (s *Server) submitPlan(ctx context.Context, in *op.SubmitPlan) (*op.PlanSubmitted, error) {
	t := s.term.Load()
	switch {
	case t == nil:
		return nil, peer.ErrNotLeader
	case t.number != in.Term: // the worker's leader has changed
		s.refused.Note(berth.CodeStaleEpoch)
		return nil, peer.ErrNotLeader
	}
	plan, err := state.Unship(in.Plan)
	if err != nil {
		return nil, err
	}
	if plan.Eval != in.EvalID {
		return nil, berth.Errorf(berth.Invalid, "plan: must be for evaluation %s, got one for %s", in.EvalID, plan.Eval)
	}
	// The planner checks the token: a worker that lost its evaluation cannot
	// submit for it.
	pending, err := t.planner.Submit(&berth.Delivery{Eval: &berth.Eval{ID: in.EvalID}, Token: in.Token}, plan)
	if err != nil && berth.KindOf(err) == "" {
		return nil, err
	}
	out := &op.PlanSubmitted{Refused: plan.Refused}
	if err != nil {
		out.Kind, out.Code, out.Error = berth.KindOf(err), berth.CodeOf(err), err.Error()
	}
	out.Index = s.store.Snapshot().Index
	if pending != nil { // a refusal, too, is only valid once the state it saw is committed
		if err := pending.Wait(ctx); err != nil {
			return nil, err
		}
		out.Index = pending.Results[0].Index
	}
	return out, nil
}

// following controls the work of this server's workers for another leader.
type following struct {
	mu    sync.Mutex
	leads bool               // this server leads, so its workers must not work for another
	stop  context.CancelFunc // ends the current work; nil: none
	idle  *sync.Cond         // signaled when the current work has stopped
}

// newFollowing returns a following that allows work.
func newFollowing() *following {
	f := &following{}
	f.idle = sync.NewCond(&f.mu)
	return f
}

// begin reports whether work may start. Call end when it is over.
func (f *following) begin(stop context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leads {
		return false
	}
	f.stop = stop
	return true
}

// end records that the work begun has stopped, and wakes lead. It must be
// called once for each begin that returned true.
func (f *following) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	f.stop = nil
	f.idle.Broadcast()
}

// lead stops the work and keeps new work from starting until follow is called.
func (f *following) lead() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leads = true
	for f.stop != nil {
		f.stop()
		f.idle.Wait()
	}
}

// follow lets work start again, after a term of this server.
func (f *following) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leads = false
}

// follow runs the workers against the current leader until ctx ends.
func (s *Server) follow(ctx context.Context) error {
	for {
		changed := s.leading.changed()
		// The leader may be this server. Then the term runs the workers.
		if now := s.leading.current(); now.addr != "" && now.addr != s.config.Advertise {
			s.workFor(ctx, now)
			if err := await(ctx, changed, 2*retryPause); err != nil { // the leader was not reached, or its term is over
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

// workFor runs the workers until the connection to the leader or its term ends.
func (s *Server) workFor(ctx context.Context, leader lease) {
	ctx, stop := context.WithCancel(ctx)
	defer context.AfterFunc(leader.ctx, stop)()
	if !s.following.begin(stop) {
		stop()
		return
	}
	defer s.following.end()
	f := worker.NewFollower(submitter{caller{s, leader.addr}}, s.store)
	f.Registry, f.Logger = &s.workers, s.config.Logger
	err := f.Run(ctx, s.pool)
	s.config.Logger.Debug("workers lost the leader", "address", leader.addr, "error", err)
}

// submitter calls the leader for workers of this server. Plans pass the fault
// points, if any is armed.
type submitter struct{ caller }

// Call implements op.Caller.
func (c submitter) Call(ctx context.Context, method string, in, out any) error {
	if plan, ok := in.(*op.SubmitPlan); ok {
		return c.submitWithFaults(ctx, plan, out)
	}
	return c.caller.Call(ctx, method, in, out)
}
