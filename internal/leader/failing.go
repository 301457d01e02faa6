//go:build faults

package leader

import (
	"context"
	"fmt"
	"sync/atomic"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/state"
)

// FailpointNames are the failpoints of a submission and of its undoing, one for
// each kind of command. "Before" is before the command is proposed; "after" is
// when it is committed and nobody has been told.
var FailpointNames = []string{
	"planJob", "addConfigs", "addEndpoints", "addHostPools", "addExports", "addImports", "addParallelRegions", "addPes",
	"launchPe", addAlloc, "completeJob", "markJob", "gcStep", "retireAlloc", "finalizeJob",
	"deletePes", "deleteImports", "deleteExports", "deleteEndpoints", "deleteConfigs", "deleteHostPools", "deleteParallelRegions",
	PlanAlloc,
}

// PlanAlloc is the one point that servers pass that do not lead: where one of
// their workers submits a plan that launches processing elements.
const PlanAlloc = "planAlloc"

// addAlloc is the point of a placement of a stream job, which is passed once
// for each allocation.
const addAlloc = "addAlloc"

// Failing is a log whose commands pass failpoints.
type Failing struct {
	state.Log
	ctx    context.Context
	points *failpoint.Set
	act    func(action string)
	over   atomic.Bool   // the server exits: nothing reaches the log any more
	placed chan struct{} // holds a token while a plan passes its points

	// Held, if set, is called for a command that hung before it was proposed
	// until the term ended. Calling do proposes it, as a leader would that had
	// not noticed the end of its term.
	Held func(name, when string, do func(context.Context) error)
}

// NewFailing returns a log for a term with the context ctx. Its commands pass
// the points of the set. act exits or steps down; commands proposed meanwhile
// are lost. While nothing is armed the only cost is one check.
func NewFailing(ctx context.Context, log state.Log, points *failpoint.Set, act func(action string)) *Failing {
	return &Failing{Log: log, ctx: ctx, points: points, act: act, placed: make(chan struct{}, 1)}
}

// Propose implements state.Log. While a point is armed each command is an entry
// of its own.
func (f *Failing) Propose(ctx context.Context, cmds ...state.Command) ([]state.Result, error) {
	switch {
	case f.over.Load():
		return nil, errExits
	case !f.points.Armed():
		return f.Log.Propose(ctx, cmds...)
	}
	var all []state.Result
	for _, c := range cmds {
		pending, err := f.one(c)
		if err != nil {
			return nil, err
		}
		if err := pending.Wait(ctx); err != nil {
			return nil, err
		}
		all = append(all, pending.Results...)
	}
	return all, state.FirstRefusal(all)
}

// Stage implements state.Log. While a point is armed it waits until the
// commands that pass points are committed.
func (f *Failing) Stage(cmds ...state.Command) (*state.Pending, error) {
	switch {
	case f.over.Load():
		return nil, errExits
	case !f.points.Armed():
		return f.Log.Stage(cmds...)
	}
	var last *state.Pending
	var all []state.Result
	for _, c := range cmds {
		pending, err := f.one(c)
		if err != nil {
			return nil, err
		}
		last, all = pending, append(all, pending.Results...)
	}
	if len(cmds) == 1 {
		return last, nil
	}
	// The last was staged after all others, so once it is committed, all are.
	out := state.NewPending(all)
	if last == nil {
		out.Resolve(nil)
		return out, nil
	}
	go func() { out.Resolve(last.Wait(f.ctx)) }() // ends with the term
	return out, nil
}

// errExits ends the term of a leader that is about to exit.
var errExits = fmt.Errorf("%w: it exits at a failpoint", state.ErrLost)

// one takes one command past its points.
func (f *Failing) one(c state.Command) (*state.Pending, error) {
	name, n := f.name(c)
	if name == "" {
		return f.Log.Stage(c)
	}
	if name == addAlloc { // plans come from many workers; this keeps the order of counting and the order of staging the same
		select {
		case f.placed <- struct{}{}:
			defer func() { <-f.placed }()
		case <-f.ctx.Done():
			return nil, fmt.Errorf("%w: %w", state.ErrLost, f.ctx.Err())
		}
	}
	// A command that is held may be sent later, as a slow leader would.
	if action, err := f.pass(name, failpoint.Before, n); err != nil {
		if action == failpoint.Hang && f.Held != nil {
			f.Held(name, failpoint.Before, func(ctx context.Context) error { return f.late(ctx, c) })
		}
		return nil, err
	}
	pending, err := f.Log.Stage(c)
	if err != nil {
		return nil, err
	}
	// The point after a command means after its commit.
	if err := pending.Wait(f.ctx); err != nil {
		return nil, err
	}
	if state.FirstRefusal(pending.Results) == nil {
		_, err = f.pass(name, failpoint.After, n)
	}
	return pending, err
}

// late proposes a command though the term is over.
func (f *Failing) late(ctx context.Context, c state.Command) error {
	pending, err := f.Log.Stage(c)
	if err != nil {
		return err
	}
	if err := pending.Wait(ctx); err != nil {
		return err
	}
	return state.FirstRefusal(pending.Results)
}

// pass performs the action that is armed at a point and returns it. After an
// error this server must not go on.
func (f *Failing) pass(name, when string, n int) (action string, err error) {
	switch action = f.points.Pass(f.ctx, name, when, n); action {
	case failpoint.Exit, failpoint.StepDown:
		f.over.Store(action == failpoint.Exit)
		f.act(action)
		<-f.ctx.Done()
	}
	if err := f.ctx.Err(); err != nil {
		return action, fmt.Errorf("%w: failpoint %s %s: %w", state.ErrLost, when, name, err)
	}
	return action, nil
}

// addsOf names the point that creating objects of a kind passes.
var addsOf = map[string]string{
	berth.KindConfig: "addConfigs", berth.KindEndpoint: "addEndpoints", berth.KindHostPool: "addHostPools", berth.KindExport: "addExports",
	berth.KindImport: "addImports", berth.KindRegion: "addParallelRegions", berth.KindPE: "addPes",
}

// deletesOf names the point that deleting objects of a kind passes.
var deletesOf = map[string]string{
	berth.KindConfig: "deleteConfigs", berth.KindEndpoint: "deleteEndpoints", berth.KindHostPool: "deleteHostPools", berth.KindExport: "deleteExports",
	berth.KindImport: "deleteImports", berth.KindRegion: "deleteParallelRegions", berth.KindPE: "deletePes",
}

// name returns the point that a command passes, or "" if it passes none, and
// how often: once for each allocation that a plan places.
func (f *Failing) name(c state.Command) (name string, n int) {
	switch c := c.(type) {
	case *state.PlanSubmission:
		return "planJob", 1
	case *state.EnsureResources:
		return addsOf[c.Kind], 1
	case *state.LaunchPE:
		return "launchPe", 1
	case *state.CompleteSubmission:
		return "completeJob", 1
	case *state.RecoverJobs:
		return "markJob", 1
	case *state.DeleteJob:
		if c.Policy == berth.Foreground {
			return "markJob", 1
		}
	case *state.FinalizeDeletions:
		return "finalizeJob", 1
	case *state.CollectResources:
		if r := f.Tip().Resource(c.UIDs[0]); r != nil && f.Tip().Managed(r) {
			return deletesOf[r.Kind], 1
		}
		return "gcStep", 1
	case *state.ApplyPlan:
		if e := f.Tip().Eval(c.Eval); e != nil && e.Type == berth.TypeStream && len(c.Place) > 0 {
			return addAlloc, len(c.Place)
		}
	case *state.ReportAllocs:
		for _, u := range c.Updates {
			if a := f.Tip().Alloc(u.ID); u.Client.Ended() && a != nil && !a.Ended() && a.Rest().PE != nil {
				n++
			}
		}
		if n > 0 {
			return "retireAlloc", n
		}
	}
	return "", 0
}
