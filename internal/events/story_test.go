package events

import (
	"fmt"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// teller plays what happens and tells which events come of it.
type teller struct {
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	seen  *state.Commit
	eval  int
	now   int64
}

func TestStories(t *testing.T) {
	statetest.Stories(t, "testdata/*.txt", func(t *testing.T) func(input string) string {
		store, log := statetest.New(t)
		x := &teller{t: t, store: store, log: log, seen: store.Commit()}
		return x.play
	})
}

func (x *teller) play(input string) string {
	var cmds []state.Command
	together := false
	for _, l := range statetest.Lines(x.t, input) {
		if l.Verb == "together" { // the lines after it are one commit
			together = true
			continue
		}
		cmds = append(cmds, x.command(l))
		if !together {
			x.log.Must(x.t, cmds...)
			cmds = nil
		}
	}
	if len(cmds) > 0 {
		x.log.Must(x.t, cmds...)
	}
	return x.told()
}

func (x *teller) command(l *statetest.Line) state.Command {
	x.now++
	snap := x.log.Tip()
	switch l.Verb {
	case "node":
		return &state.RegisterNode{Node: statetest.NodesOf(x.t, l)[0], Now: x.now}
	case "is": // n1 is down
		c := &state.SetNodeStatus{ID: statetest.ID[berth.Node](statetest.NodeNumber(x.t, l.Word(0))), Status: l.Word(1), Seed: [16]byte{1}, Now: x.now}
		l.Done(x.t)
		return c
	case "eligible", "ineligible":
		c := &state.SetNodeEligibility{ID: statetest.ID[berth.Node](statetest.NodeNumber(x.t, l.Word(0))), Eligibility: l.Verb, Seed: [16]byte{2}, Now: x.now}
		l.Done(x.t)
		return c
	case "pool":
		c := &state.UpsertNodePools{Pools: []*berth.NodePool{{Name: l.Word(0)}}}
		l.Done(x.t)
		return c
	case "unpool":
		c := &state.DeleteNodePools{Names: []string{l.Word(0)}}
		l.Done(x.t)
		return c
	case "note":
		c := &state.AddNodeEvents{ID: statetest.ID[berth.Node](statetest.NodeNumber(x.t, l.Word(0))), Events: []berth.NodeEvent{{Message: l.Word(1)}}}
		l.Done(x.t)
		return c
	case "job":
		x.eval++
		return statetest.Register(statetest.JobOf(x.t, l), x.eval)
	case "stop":
		x.eval++
		k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(l.Word(0))}
		return &state.StopJob{Key: k, Purge: l.Int(x.t, "purge", 0) == 1, NoShutdownDelay: l.Int(x.t, "nodelay", 0) == 1, Now: x.now, Eval: state.EvalSeed{
			ID: statetest.ID[berth.Eval](x.eval), TriggeredBy: berth.TriggerJobDeregister,
		}}
	case "plan": // of the newest evaluation: place on a node, stop what is there
		c := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](x.eval), End: &state.EvalEnd{Status: berth.EvalComplete}, Now: x.now}
		j := snap.Job(snap.Eval(c.Eval).Key())
		c.JobVersion = j.Version
		if on := l.Text("place", ""); on != "" {
			c.Place = append(c.Place, berth.Placement{NodeID: statetest.ID[berth.Node](statetest.NodeNumber(x.t, on))})
		}
		for a := range snap.AllocsOf(j.Key()) {
			if l.Int(x.t, "stop", 0) == 1 {
				c.Stop = append(c.Stop, berth.AllocStop{ID: a.ID, StopReason: berth.StopSurplus})
			}
		}
		return c
	case "report":
		c := &state.ReportAllocs{Now: x.now}
		for a := range snap.Allocs() {
			c.Node = a.NodeID
			status := map[string]berth.ClientStatus{"running": berth.ClientRunning, "complete": berth.ClientComplete, "failed": berth.ClientFailed}
			c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: status[l.Word(0)]})
		}
		return c
	case "fail":
		x.eval++
		return &state.FailEval{ID: statetest.ID[berth.Eval](x.eval - 1), Why: "nobody took it", FollowUp: statetest.ID[berth.Eval](x.eval), Wait: x.now + 1, Now: x.now}
	case "collect": // all that nothing needs
		c, w := &state.DeleteRows{}, state.NewSweep(snap)
		for j := range snap.Jobs(berth.AllNamespaces, "") {
			if w.Job(j) == "" {
				c.Jobs = append(c.Jobs, state.JobRef{Key: j.Key(), UID: j.UID})
			}
		}
		for a := range snap.Allocs() {
			if w.Alloc(a) == "" {
				c.Allocs = append(c.Allocs, a.ID)
			}
		}
		for e := range snap.Evals() {
			if w.Eval(e) == "" {
				c.Evals = append(c.Evals, e.ID)
			}
		}
		for n := range snap.Nodes() {
			if w.Node(n) == "" {
				c.Nodes = append(c.Nodes, n.ID)
			}
		}
		return c
	}
	x.t.Fatalf("%s: what is that?", l)
	return nil
}

// told prints the events since the last step.
func (x *teller) told() string {
	var b strings.Builder
	for {
		next := x.seen.TryNext()
		if next == nil {
			return b.String()
		}
		x.seen = next
		for _, s := range sets(next) {
			fmt.Fprintf(&b, "%d:\n", s.Index)
			for i := range s.Events {
				b.WriteString("  " + tell(&s.Events[i]) + "\n")
			}
		}
	}
}

func tell(e *Event) string {
	var of string
	switch v := e.Row.(type) {
	case *berth.Job:
		status, _ := "of which nothing is counted", ""
		if e.Summary != nil {
			status, _ = e.Summary.Status(v)
		}
		of = fmt.Sprintf("%s version %d, %s", v.ID, v.Version, status)
	case *berth.Eval:
		of = fmt.Sprintf("%s %s of %s", v.TriggeredBy, v.Status, v.JobID)
	case *berth.Alloc:
		of = fmt.Sprintf("%s %s, %s", v.Name(), v.Desired, v.Client)
	case *berth.Node:
		of = fmt.Sprintf("%s %s", v.Name, v.Status)
		if v.SchedulingEligibility != berth.NodeEligible {
			of += " " + v.SchedulingEligibility
		}
	case *berth.NodePool:
		of = v.Name
	}
	if e.Deleted {
		of += " (deleted)"
	}
	return fmt.Sprintf("%s %s: %s", e.Topic, e.Type, of)
}
