package deploy_test

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/leader/deploy"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// Whatever versions, agents and people do: every invariant holds after every
// command, the controller is silent after its own, what it never saw it learns
// from the state, and left alone a deployment ends. (One that waits for people
// waits for people.)
func TestDeploymentsEnd(t *testing.T) { deploymentsEnd(t, berth.TypeService) }

// The same of a system job, whose nodes come and go.
func TestSystemDeploymentsEnd(t *testing.T) { deploymentsEnd(t, berth.TypeSystem) }

func deploymentsEnd(t *testing.T, kind string) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.kind = kind
		for n := range 3 {
			w.apply(&state.RegisterNode{Node: statetest.Node(n+1, 4000, 4000), Now: w.ns()})
		}
		w.registerRandom(t, rt)
		for range rapid.IntRange(1, 25).Draw(rt, "events") {
			w.event(t, rt)
			w.settle()
		}
		w.agree()
		if d := w.of("web"); d != nil && d.Status == berth.DeploymentPaused {
			w.apply(&state.SetDeploymentStatus{ID: d.ID, Status: berth.DeploymentRunning, Now: w.ns()})
		}
		w.leftAlone(rt)
		if w.returnNodes() { // canaries may have waited for them
			w.leftAlone(rt)
		}
	})
}

// leftAlone checks that in time each deployment ends that waits for nobody.
func (w *world) leftAlone(rt *rapid.T) {
	for range 12 { // each may revert once, and each step may take its whole deadline
		w.pass(15 * time.Minute)
	}
	w.agree()
	away := false
	for n := range w.snap.Nodes() {
		away = away || !n.Ready()
	}
	for d := range w.snap.ActiveDeployments(0) {
		waits := false
		for name, s := range d.TaskGroups {
			waits = waits || s.Waits() && w.snap.HealthyCanaries(d, name) >= s.DesiredCanaries || s.PlacedAllocs == 0 || away && !s.Past()
		}
		if !waits {
			rt.Fatalf("a deployment does not end:\n%s", w.show("web"))
		}
	}
}

// returnNodes makes all nodes ready and eligible, and reports whether any was
// not.
func (w *world) returnNodes() (changed bool) {
	for n := range w.snap.Nodes() {
		if n.Ready() {
			continue
		}
		changed = true
		w.apply(&state.SetNodeStatus{ID: n.ID, Status: berth.NodeReady, Seed: w.seed(), Now: w.ns()})
		w.apply(&state.SetNodeEligibility{ID: n.ID, Eligibility: berth.NodeEligible, Seed: w.seed(), Now: w.ns()})
	}
	w.settle()
	return changed
}

func (w *world) registerRandom(t *testing.T, rt *rapid.T) {
	canary, count := rapid.IntRange(0, 2).Draw(rt, "canary"), rapid.IntRange(1, 4).Draw(rt, "count")
	if w.kind == berth.TypeSystem {
		canary, count = 50*canary, 1
	}
	u := fmt.Sprintf(`{"MaxParallel":%d,"Canary":%d,"AutoRevert":%v,"AutoPromote":%v`, rapid.IntRange(1, 3).Draw(rt, "parallel"), canary,
		rapid.Bool().Draw(rt, "revert"), canary > 0 && rapid.Bool().Draw(rt, "promote by itself"))
	if rapid.IntRange(0, 3).Draw(rt, "no time") == 0 {
		u += `,"ProgressDeadline":0`
	}
	u += "}"
	w.register(statetest.Job(t, fmt.Sprintf(`{"ID":"web","Type":%q,"TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":%d,"MemoryMB":50},"Update":%s}]}`,
		w.kind, count, 100+10*rapid.IntRange(0, 2).Draw(rt, "cpu"), u)))
}

func (w *world) event(t *testing.T, rt *rapid.T) {
	web := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}
	var id berth.DeploymentID
	if d := w.of("web"); d != nil {
		id = d.ID
	}
	w.evals++
	seed := state.EvalSeed{ID: statetest.ID[berth.Eval](w.evals), TriggeredBy: berth.TriggerJobScaling, Cause: berth.Cause{Kind: berth.CauseUser}}
	most := 9
	if w.kind == berth.TypeSystem {
		most = 11
	}
	switch rapid.IntRange(0, most).Draw(rt, "event") {
	case 0:
		w.registerRandom(t, rt)
	case 1, 2, 3:
		w.agents(func(a *berth.Alloc) *bool {
			switch rapid.IntRange(0, 4).Draw(rt, "health") {
			case 0:
				return nil
			case 1:
				return new(false)
			}
			return new(true)
		})
	case 4:
		w.pass(time.Duration(rapid.IntRange(1, 900).Draw(rt, "seconds")) * time.Second)
	case 5:
		_ = w.try(&state.SetDeploymentStatus{ID: id, Now: w.ns(), Status: rapid.SampledFrom([]string{berth.DeploymentRunning, berth.DeploymentPaused}).Draw(rt, "status")})
	case 6:
		_ = w.try(&state.PromoteDeployment{ID: id, Now: w.ns()})
	case 7:
		_ = w.try(&state.ScaleJob{Key: web, Group: "g", Change: true, Count: int64(rapid.IntRange(0, 5).Draw(rt, "scale")), Eval: seed, Now: w.ns()})
	case 8:
		w.watch = deploy.New()
	case 9:
		for a := range w.snap.AllocsOf(web) {
			if a.Live() && rapid.IntRange(0, 2).Draw(rt, "crash") == 0 {
				w.apply(&state.ReportAllocs{Node: a.NodeID, Now: w.ns(), Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientFailed}}})
				break
			}
		}
	case 10:
		w.apply(&state.SetNodeStatus{
			ID: statetest.ID[berth.Node](rapid.IntRange(1, 3).Draw(rt, "node")), Seed: seed.ID, Now: w.ns(),
			Status: rapid.SampledFrom([]string{berth.NodeReady, berth.NodeDown}).Draw(rt, "node status"),
		})
	case 11:
		w.apply(&state.SetNodeEligibility{
			ID: statetest.ID[berth.Node](rapid.IntRange(1, 3).Draw(rt, "node")), Seed: seed.ID, Now: w.ns(),
			Eligibility: rapid.SampledFrom([]string{berth.NodeEligible, berth.NodeIneligible}).Draw(rt, "eligible"),
		})
	}
}

// While canaries of a system job wait to be promoted, nodes that go, come back
// or join promote nothing: each instance is a canary or of the version before.
func TestNodesPromoteNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		nodes := rapid.IntRange(1, 3).Draw(rt, "nodes")
		for n := range nodes {
			w.apply(&state.RegisterNode{Node: statetest.Node(n+1, 4000, 4000), Now: w.ns()})
		}
		update := fmt.Sprintf(`{"MaxParallel":%d,"Canary":%d}`, rapid.IntRange(1, 3).Draw(rt, "parallel"), rapid.IntRange(1, 100).Draw(rt, "canary"))
		for version := range 2 {
			w.register(statetest.Job(t, fmt.Sprintf(`{"ID":"web","Type":"system","TaskGroups":[{"Name":"g","Count":1,"Resources":{"CPU":%d,"MemoryMB":50},"Update":%s}]}`,
				100+version, update)))
			w.settle()
			w.agents(func(*berth.Alloc) *bool { return new(true) })
			w.settle()
		}
		for range rapid.IntRange(1, 25).Draw(rt, "events") {
			w.nodeEvent(rt, nodes)
			w.settle()
			for a := range w.snap.AllocsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}) {
				if s := a.Rest().DeploymentStatus; a.Live() && a.Job.Version == 1 && (s == nil || !s.Canary) {
					rt.Fatalf("nobody promoted what runs on %s:\n%s", w.snap.Node(a.NodeID).Name, w.show("web"))
				}
			}
		}
	})
}

// nodeEvent changes one of the nodes, or lets one join beyond them, or agents
// report.
func (w *world) nodeEvent(rt *rapid.T, nodes int) {
	w.evals++
	seed, n := statetest.ID[berth.Eval](w.evals), rapid.IntRange(1, nodes+1).Draw(rt, "node")
	id := statetest.ID[berth.Node](n)
	switch event := rapid.IntRange(0, 4).Draw(rt, "event"); {
	case event == 0:
		w.agents(func(*berth.Alloc) *bool { return new(true) })
	case w.snap.Node(id) == nil:
		w.apply(&state.RegisterNode{Node: statetest.Node(n, 4000, 4000), Seed: seed, Now: w.ns()})
	case event < 3:
		status := []string{berth.NodeReady, berth.NodeDown}[event-1]
		w.apply(&state.SetNodeStatus{ID: id, Status: status, Seed: seed, Now: w.ns()})
	default:
		eligibility := []string{berth.NodeEligible, berth.NodeIneligible}[event-3]
		w.apply(&state.SetNodeEligibility{ID: id, Eligibility: eligibility, Seed: seed, Now: w.ns()})
	}
}
