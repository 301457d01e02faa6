package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/leader"
	"berth/internal/leader/broker"
	"berth/internal/leader/claims"
	"berth/internal/leader/collector"
	"berth/internal/leader/deploy"
	"berth/internal/leader/drain"
	"berth/internal/leader/expire"
	"berth/internal/leader/fence"
	"berth/internal/leader/finalize"
	"berth/internal/leader/heartbeat"
	"berth/internal/leader/locks"
	"berth/internal/leader/periodic"
	"berth/internal/leader/planner"
	"berth/internal/leader/replicate"
	"berth/internal/leader/rotate"
	"berth/internal/leader/turns"
	"berth/internal/state"
	"berth/internal/streams/submit"
	"berth/internal/worker"
	"berth/op"

	"golang.org/x/sync/errgroup"
)

// term is what runs while this server leads.
type term struct {
	state.Log
	number    uint64             // of Raft
	broker    *broker.Broker     // hands out evaluations
	planner   *planner.Planner   // checks and proposes plans
	heartbeat *heartbeat.Monitor // marks nodes that are silent
	locks     *locks.Monitor     // ends locks that are not renewed
	turns     *turns.Monitor     // lets allocations restart one after another
	replica   *replicate.Loop    // copies from the authoritative region; nil: that is this one
	confirm   func(context.Context) error
	writable  func() error
}

// Writable implements api.Leader.
func (t *term) Writable() error { return t.writable() }

// Confirm implements api.Leader.
func (t *term) Confirm(ctx context.Context) error { return t.confirm(ctx) }

// Beat implements api.Leader.
func (t *term) Beat(ctx context.Context, id berth.NodeID) (time.Duration, error) {
	return t.heartbeat.Heartbeat(ctx, id)
}

// RenewLock implements api.Leader.
func (t *term) RenewLock(k berth.VariableKey, id berth.LockID) bool { return t.locks.Renew(k, id) }

// Turn implements api.Leader.
func (t *term) Turn(id berth.AllocID, how string) op.TurnAnswer { return t.turns.Tell(id, how) }

// Quasi implements api.Leader.
func (t *term) Quasi(id berth.EvalID) (string, berth.Timeline) {
	q, _ := t.broker.Quasi(id)
	return q.Status, q.Timeline
}

// Acked implements api.Leader.
func (t *term) Acked(id berth.EvalID) int64 { return t.broker.Acked(id) }

// lead runs the services of a term until it ends.
func (s *Server) lead(ctx context.Context, c consensus.Term) error {
	c.Log = s.withFaults(ctx, s.refused.Counting(c.Log))
	t := &term{Log: c.Log, number: c.Number, confirm: c.Confirm, writable: s.consensus.DiskError}
	t.broker = broker.New(c.Number, s.store, c.Log, broker.DefaultLimits)
	t.broker.OnEnd = s.ended
	// All of them carry the term's number, so that none can act for a later
	// term.
	t.planner = planner.New(c.Number, c.Log, t.broker)
	if s.config.Rejection.Threshold > 0 {
		t.planner.Track(s.config.Rejection)
	}
	t.heartbeat = heartbeat.New(c.Number, s.store, c.Log, s.config.Heartbeat)
	t.locks = locks.New(c.Number, s.store, c.Log)
	t.turns = turns.New(s.store)
	if s.config.elsewhere() {
		t.replica = s.newReplication(t)
	}
	t.broker.Logger, t.planner.Logger, t.heartbeat.Logger = s.config.Logger, s.config.Logger, s.config.Logger
	// Initial configuration, and recovery of what the previous leader left
	// unfinished, come before anything is scheduled or answered.
	for _, first := range []func(context.Context, consensus.Term) error{
		s.firstSchedulerConfig, s.trackVersions, s.firstAutopilotConfig, s.recoverSubmissions,
	} {
		if err := first(ctx, c); err != nil {
			return err
		}
	}
	// This server's workers must have let go of the previous leader before they
	// work for this term.
	s.following.lead()
	defer s.following.follow()
	s.setTerm(t)
	defer s.setTerm(nil)
	g, ctx := errgroup.WithContext(ctx)
	for _, x := range s.services(t, c) {
		g.Go(func() error {
			err := x.run(ctx)
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s: %w", x.name, err)
			}
			return err
		})
	}
	// A service that finds its term over says so in its own words. The cause is
	// what ended the term.
	err := g.Wait()
	if errors.Is(err, broker.ErrClosed) || errors.Is(err, state.ErrLost) {
		err = context.Cause(ctx)
	}
	return err
}

// setTerm sets the term that requests are answered in; nil: this server does not
// lead.
func (s *Server) setTerm(t *term) {
	s.term.Store(t)
	s.leading.notify()
}

// service runs while this server leads. When one service ends, so does the term.
type service struct {
	name string // for errors
	run  func(context.Context) error
}

// services returns all services of a term.
func (s *Server) services(t *term, c consensus.Term) []service {
	controller := func(name string, step leader.Controller, watched ...state.WatchKey) service {
		return service{name, func(ctx context.Context) error { return leader.Run(ctx, step, c.Number, s.store, c.Log, watched...) }}
	}
	all := []service{
		{"broker", t.broker.Run},
		{"heartbeat", t.heartbeat.Run},
		{"locks", t.locks.Run},
		controller("rotate", rotate.New(s.config.Keyring, s.config.KeyAges, s.config.Logger), rotate.Watched()...),
		controller("expire", expire.New(s.config.KeepTokens, s.config.elsewhere())),
		controller("collector", collector.NewTimer(s.config.Collect, seed()), collector.Watched()...),
		controller("drain", drain.New(seed()), drain.Watched()...),
		controller("fence", fence.New(seed()), fence.Watched()...),
		controller("periodic", periodic.New(seed()), state.OnTable(state.Jobs)),
		controller("finalize", finalize.New(seed()), finalize.Watched()...),
		{"claims", s.claims(t, c).Run},
		controller("submit", submit.New(seed()).OnSubmitted(s.metrics.submissions.observe), submit.Watched()...),
		controller("deploy", deploy.New(), state.OnTable(state.Deployments)),
		{"core worker", s.coreWorker(t, c).Run},
		{"workers", func(ctx context.Context) error { return s.pool.Lead(ctx, s.newWorker(t)) }},
	}
	if t.replica != nil {
		all = append(all, service{"replication", t.replica.Run})
	}
	// A single server has nothing for autopilot to do.
	if s.config.Cluster != nil {
		all = append(all, service{"autopilot", s.autopilot})
	}
	return all
}

// seed returns a random seed for the IDs that a controller creates.
func seed() (b [32]byte) {
	rand.Read(b[:])
	return b
}

// coreWorker returns the worker for core evaluations (garbage collection).
func (s *Server) coreWorker(t *term, c consensus.Term) *collector.Worker {
	w := collector.NewWorker(c.Number, c.Log, t.broker, t.planner, s.config.Collect)
	w.Logger = s.config.Logger
	return w
}

// claims returns what works on the claims on CSI volumes.
func (s *Server) claims(t *term, c consensus.Term) *claims.Service {
	return &claims.Service{
		Term: c.Number, Store: s.store, Log: c.Log, Lost: cmp.Or(s.config.LostClaims, claims.DefaultLost), Logger: s.config.Logger,
		Call: func(ctx context.Context, node berth.NodeID, in *op.AgentCSI) (*op.CSIDone, error) {
			return op.Call(ctx, s.Agent(node), op.CallCSI, in)
		},
	}
}

// newWorker returns a constructor of workers for evaluation types.
func (s *Server) newWorker(t *term) func(types []string) *worker.Worker {
	return func(types []string) *worker.Worker {
		w := worker.New(t.broker, t.planner, types).On(&s.workers)
		w.Logger = s.config.Logger
		return w
	}
}

// firstSchedulerConfig writes the scheduler configuration of a new cluster. What
// an operator has set is never overwritten from the agent's file.
func (s *Server) firstSchedulerConfig(ctx context.Context, c consensus.Term) error {
	if s.config.Scheduler == nil || s.store.Snapshot().SchedulerConfig().ModifyIndex > 0 {
		return nil
	}
	_, err := c.Log.Propose(ctx, &state.SetSchedulerConfig{Config: *s.config.Scheduler, Enforce: true})
	if berth.KindOf(err) == berth.Conflict { // an operator was faster
		return nil
	}
	return err
}

// trackVersions writes how many versions of each job are kept, if that differs
// from what the previous leader wrote.
func (s *Server) trackVersions(ctx context.Context, c consensus.Term) error {
	want := s.config.TrackedVersions
	if kept, _ := s.store.Snapshot().TrackedVersions(); want == 0 || want == kept {
		return nil
	}
	_, err := c.Log.Propose(ctx, &state.SetTrackedVersions{Number: want})
	return err
}

// recoverSubmissions restarts the submissions of stream jobs that the previous
// leader did not finish, before a controller continues them.
func (s *Server) recoverSubmissions(ctx context.Context, c consensus.Term) error {
	do := submit.Interrupted(s.store.Snapshot(), time.Now())
	if len(do) == 0 {
		return nil
	}
	leader.Stamp(c.Number, do...)
	if _, err := c.Log.Propose(ctx, do...); berth.KindOf(err) == "" {
		return err
	}
	return nil // a user was faster
}

// firstAutopilotConfig writes the autopilot configuration of a new cluster.
func (s *Server) firstAutopilotConfig(ctx context.Context, c consensus.Term) error {
	first := s.config.Autopilot
	if s.config.Cluster == nil || first == nil || *first == berth.DefaultAutopilotConfig || s.store.Snapshot().AutopilotConfig().ModifyIndex > 0 {
		return nil
	}
	_, err := c.Log.Propose(ctx, &state.SetAutopilotConfig{Config: *first, Enforce: true})
	if berth.KindOf(err) == berth.Conflict {
		return nil
	}
	return err
}
