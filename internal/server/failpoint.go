//go:build faults

package server

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
	"berth/internal/failpoint"
	"berth/internal/leader"
	"berth/internal/rest"
	"berth/internal/state"
	"berth/op"
)

// Faults configures a server's fault points for tests. The zero value gives the
// server a set of its own.
type Faults struct {
	Points *failpoint.Set
	Exit   func() // ends the process at a point; nil is an exit with failpoint.ExitCode
}

// faults is the state of a server's fault points.
type faults struct{ late late }

// open prepares the points for a run of the server. wait returns when all delayed
// actions have ended.
func (f *faults) open(ctx context.Context) (wait func()) {
	f.late.ctx = ctx
	return f.late.Wait
}

// withFaults returns a log for a term whose commands pass the fault points.
func (s *Server) withFaults(ctx context.Context, log state.Log) state.Log {
	f := leader.NewFailing(ctx, log, s.config.Faults.Points, s.fail)
	f.Held = s.hold
	return f
}

// newFaults adds a set of points to a configuration without one.
func newFaults(c *Config) {
	if c.Faults.Points == nil {
		c.Faults.Points = failpoint.NewSet(leader.FailpointNames)
	}
}

// fail carries out the action of a fault point.
func (s *Server) fail(action string) {
	switch action {
	case failpoint.StepDown:
		s.faults.late.Go(s.stepDown) // the caller at the point waits until the term ends
	case failpoint.Exit:
		if s.config.Faults.Exit == nil {
			os.Exit(failpoint.ExitCode)
		}
		s.config.Faults.Exit()
	}
}

// stepDown hands over leadership. It retries, since peers may have to catch up.
func (s *Server) stepDown() {
	for s.consensus.Leader() {
		err := s.consensus.Transfer(s.faults.late.ctx, "")
		if err == nil || rest.For(s.faults.late.ctx, 2*retryPause) != nil {
			return
		}
		s.config.Logger.Warn("a fault point could not hand over leadership; trying again", "error", err)
	}
}

// late runs actions that hung at a fault point until their term was over.
type late struct {
	ctx context.Context // of Run
	sync.WaitGroup
}

// hold runs an action that hung at a point until its term ended, once the point
// is removed. The result, usually a refusal, is logged.
func (s *Server) hold(name, when string, do func(context.Context) error) {
	free := s.config.Faults.Points.Held(name, when)
	s.faults.late.Go(func() {
		if free != nil {
			select {
			case <-free:
			case <-s.faults.late.ctx.Done():
				return
			}
		}
		s.config.Logger.Warn("a command that hung at a fault point was sent after its term", "point", when+" "+name, "refused", do(s.faults.late.ctx))
	})
}

// submitWithFaults submits a plan through the fault points for plans.
func (c caller) submitWithFaults(ctx context.Context, in *op.SubmitPlan, out any) error {
	if !c.server.config.Faults.Points.Armed() {
		return c.Call(ctx, op.PlanSubmit.RPC, in, out)
	}
	n := c.server.launches(in)
	if n == 0 {
		return c.Call(ctx, op.PlanSubmit.RPC, in, out)
	}
	if action, err := c.server.passPlan(ctx, failpoint.Before, n); err != nil {
		if action == failpoint.Hang {
			c.server.hold(leader.PlanAlloc, failpoint.Before, func(ctx context.Context) error { return c.server.submitLate(ctx, in) })
		}
		return err
	}
	if err := c.Call(ctx, op.PlanSubmit.RPC, in, out); err != nil {
		return err
	}
	_, err := c.server.passPlan(ctx, failpoint.After, n)
	return err
}

// launches returns the number of processing elements that a plan launches.
func (s *Server) launches(in *op.SubmitPlan) int {
	plan, err := state.Unship(in.Plan)
	if err != nil {
		return 0
	}
	if e := s.store.Snapshot().Eval(plan.Eval); e == nil || e.Type != berth.TypeStream {
		return 0
	}
	return len(plan.Place)
}

// passPlan passes the points of a plan with n launches. After an error the worker
// must stop.
func (s *Server) passPlan(ctx context.Context, when string, n int) (action string, err error) {
	action = s.config.Faults.Points.Pass(ctx, leader.PlanAlloc, when, n)
	if action == failpoint.Exit { // StepDown does not apply to a follower
		s.fail(action)
		<-ctx.Done()
	}
	return action, ctx.Err()
}

// submitLate submits a plan to the current leader.
func (s *Server) submitLate(ctx context.Context, in *op.SubmitPlan) error {
	addr, _, err := s.Route(ctx, false)
	switch {
	case err != nil:
		return err
	case addr == "":
		_, err = s.submitPlan(ctx, in)
		return err
	}
	return caller{s, addr}.Call(ctx, op.PlanSubmit.RPC, in, new(op.PlanSubmitted))
}

// Failpoints returns the points of this server, for the API.
func (s *Server) Failpoints() *failpoint.Set { return s.config.Faults.Points }

// entries are the commands that can be proposed by name: the commands about
// stream jobs that the leader, workers and agents write.
var entries = map[string]func() state.Command{
	"EnsureResources":    func() state.Command { return &state.EnsureResources{} },
	"LaunchPE":           func() state.Command { return &state.LaunchPE{} },
	"CompleteSubmission": func() state.Command { return &state.CompleteSubmission{} },
	"FailSubmission":     func() state.Command { return &state.FailSubmission{} },
	"CollectResources":   func() state.Command { return &state.CollectResources{} },
	"RecoverJobs":        func() state.Command { return &state.RecoverJobs{} },
	"FinalizeDeletions":  func() state.Command { return &state.FinalizeDeletions{} },
	"ApplyPlan":          func() state.Command { return &state.ApplyPlan{} },
	"SetConnectivity":    func() state.Command { return &state.SetConnectivity{} },
}

// ProposeEntry proposes a command unchanged, for the API. The command contains
// the term it belongs to.
func (s *Server) ProposeEntry(ctx context.Context, in *op.LogEntry) (index uint64, err error) {
	blank, known := entries[in.Command]
	if !known {
		return 0, berth.Errorf(berth.Invalid, "unknown Command %.64q: want one of %s", in.Command, strings.Join(slices.Sorted(maps.Keys(entries)), ", "))
	}
	c := blank()
	if err := admit.Fill(c, decode.Tree(in.Fields), "Fields").Err(); err != nil {
		return 0, err
	}
	t := s.term.Load()
	if t == nil {
		return 0, state.ErrLost
	}
	results, err := t.Propose(ctx, c)
	if err != nil {
		return 0, err
	}
	return results[0].Index, nil
}
