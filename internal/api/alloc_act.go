package api

import (
	"context"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// stopAlloc decides the stop of the allocation that a request names. It needs
// the right in the namespace of the allocation's job.
func stopAlloc(w *Write, in *op.StopAlloc) (ch Change[op.AllocStopped], err error) {
	a, err := w.read().alloc(in.AllocID, op.HaltAlloc.Need)
	if err != nil {
		return ch, err
	}
	return haltAlloc(w, a, in.NoShutdownDelay), nil
}

// haltAlloc stops an allocation. An orphan gets no evaluation, because nothing
// replaces it.
func haltAlloc(w *Write, a *berth.Alloc, noDelay bool) Change[op.AllocStopped] {
	c := &state.StopAlloc{ID: a.ID, NoShutdownDelay: noDelay, Eval: w.seed(berth.TriggerAllocStop, 0), Now: w.Now.UnixNano()}
	return propose(c, func(o *Outcome) op.AllocStopped {
		out := op.AllocStopped{EvalID: c.Eval.ID, Index: o.Index, Meta: o.Meta()}
		if now := o.After.Alloc(c.ID); now != nil && now.Orphaned {
			out.EvalID = berth.EvalID{}
		}
		return out
	})
}

// actTime is how long an agent may take to answer.
const actTime = 30 * time.Second

// restartAlloc restarts tasks in place. It refuses processing elements: their
// peers know them by launch, so only a new allocation may start them again.
func (s *Server) restartAlloc(ctx context.Context, w *Write, in *op.RestartAlloc) (out op.Nothing, err error) {
	a, err := w.read().alloc(in.AllocID, op.RestartTask.Need)
	if err != nil {
		return out, err
	}
	if ref := a.Rest().PE; ref != nil {
		return out, berth.Errorf(berth.Invalid, "allocation %s is launch %d of processing element %s, and a restart in place would not count as a launch: stop the allocation to have it launched again",
			a.ID.Short(), ref.Launch, a.Name())
	}
	return out, s.act(ctx, w, in.AllocID, in.TaskName, op.RestartTask.Need, func(ctx context.Context, a *berth.Alloc) error {
		_, err := callAgent(ctx, s, a.NodeID, op.AgentRestartTask, &op.RestartAlloc{AllocID: a.ID.String(), TaskName: in.TaskName, AllTasks: in.AllTasks})
		return err
	})
}

// signalAlloc sends a signal to one task of an allocation, or to all if none is
// named. The agent of the node checks the name of the signal.
func (s *Server) signalAlloc(ctx context.Context, w *Write, in *op.SignalAlloc) (out op.Nothing, err error) {
	if in.Signal == "" {
		return out, berth.Errorf(berth.Invalid, "Signal: missing: want a signal name such as SIGHUP")
	}
	return out, s.act(ctx, w, in.AllocID, in.Task, op.SignalTask.Need, func(ctx context.Context, a *berth.Alloc) error {
		_, err := callAgent(ctx, s, a.NodeID, op.AgentSignalTask, &op.SignalAlloc{AllocID: a.ID.String(), Task: in.Task, Signal: in.Signal})
		return err
	})
}

// act has the agent of an allocation do something to its tasks. It leaves the
// state alone.
func (s *Server) act(ctx context.Context, w *Write, id, task string, need acl.Capability, do func(context.Context, *berth.Alloc) error) error {
	a, err := w.read().alloc(id, need)
	switch {
	case err != nil:
		return err
	case task != "" && a.Group.Task(task) == nil:
		return berth.Errorf(berth.NotFound, "Could not find task named: %q in allocation %s", berth.Clip(task, 64), a.ID.Short())
	case !a.Live():
		return berth.Errorf(berth.Invalid, "Task not running: the desired status of allocation %s is %s, its client status %s", a.ID.Short(), a.Desired, a.Client)
	}
	return do(ctx, a)
}
