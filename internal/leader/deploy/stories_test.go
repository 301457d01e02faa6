package deploy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/leader/deploy"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// The stories in testdata tell how deployments go on. Each step ends with how
// the job web fares.
//
//	nodes N …                 nodes that are ready
//	down N | up N | ineligible N | eligible N   what becomes of a node
//	job web …                 the job is registered
//	well | ill | silent [N]   agents tell of what runs: all of it, or the first N that nothing was said of, is healthy or not
//	crash INDEX               the tasks of a healthy or new instance fail; of a system job, INDEX is a node
//	pass 10m                  time goes by
//	back 24h                  the clock is put back
//	pause | resume | fail | promote [GROUP]…   what a user does
//	healthy INDEX | unhealthy INDEX           what a user says of an instance
//	stop | purge | scale N
//	leader                    another server leads
//	log VERSION               all servers know a log version; at first it is 1
func TestStories(t *testing.T) {
	statetest.Stories(t, "testdata/*.txt", func(t *testing.T) func(input string) string {
		w := newWorld(t)
		return func(input string) string {
			var said strings.Builder
			for _, l := range statetest.Lines(t, input) {
				if err := w.line(t, l); err != nil {
					fmt.Fprintf(&said, "refused: %v\n", err)
				}
			}
			w.agree()
			return said.String() + w.show("web")
		}
	})
}

func (w *world) line(t *testing.T, l *statetest.Line) error {
	web := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}
	arg := func(n int) string {
		if n < len(l.Words) {
			return l.Words[n]
		}
		return ""
	}
	id := func() berth.DeploymentID {
		if d := w.of("web"); d != nil {
			return d.ID
		}
		return berth.DeploymentID{}
	}
	var err error
	switch l.Verb {
	case "node", "nodes":
		for _, n := range statetest.NodesOf(t, l) {
			w.apply(&state.RegisterNode{Node: n, Seed: w.seed(), Now: w.ns()})
		}
	case "down", "up":
		c := &state.SetNodeStatus{ID: w.node(arg(0)), Status: berth.NodeReady, Seed: w.seed(), Now: w.ns()}
		if l.Verb == "down" {
			c.Status = berth.NodeDown
		}
		w.apply(c)
	case "eligible", "ineligible":
		w.apply(&state.SetNodeEligibility{ID: w.node(arg(0)), Eligibility: l.Verb, Seed: w.seed(), Now: w.ns()})
	case "job":
		w.register(statetest.JobOf(t, l))
	case "well", "ill", "silent":
		w.settle() // who reports has something to report
		most := 1 << 30
		if len(l.Words) > 0 {
			fmt.Sscan(arg(0), &most)
		}
		told, ok := 0, l.Verb == "well"
		w.agents(func(a *berth.Alloc) *bool {
			s := a.Rest().DeploymentStatus
			if l.Verb == "silent" || !a.Live() || a.Rest().DeploymentID != id() || s != nil && s.Healthy != nil || told == most {
				return nil
			}
			told++
			return &ok
		})
	case "crash":
		w.settle()
		a := w.instance(arg(0))
		err = w.try(&state.ReportAllocs{Node: a.NodeID, Now: w.ns(), Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientFailed}}})
	case "healthy", "unhealthy":
		w.settle()
		c := &state.SetAllocHealth{ID: id(), Fail: true, Now: w.ns()}
		if l.Verb == "healthy" {
			c.Healthy = []berth.AllocID{w.instance(arg(0)).ID}
		} else {
			c.Unhealthy = []berth.AllocID{w.instance(arg(0)).ID}
		}
		err = w.try(c)
	case "pass":
		d, wrong := time.ParseDuration(arg(0))
		if wrong != nil {
			t.Fatal(wrong)
		}
		w.pass(d)
	case "back":
		d, wrong := time.ParseDuration(arg(0))
		if wrong != nil {
			t.Fatal(wrong)
		}
		w.now = w.now.Add(-d)
		w.pass(0)
	case "pause":
		err = w.try(&state.SetDeploymentStatus{ID: id(), Status: berth.DeploymentPaused, Now: w.ns()})
	case "resume":
		err = w.try(&state.SetDeploymentStatus{ID: id(), Status: berth.DeploymentRunning, Now: w.ns()})
	case "fail":
		err = w.try(&state.FailDeployment{ID: id(), Description: berth.DeploymentUserFailed, Now: w.ns()})
	case "promote":
		err = w.try(&state.PromoteDeployment{ID: id(), Groups: l.Words, Now: w.ns()})
	case "stop", "purge":
		w.evals++
		err = w.try(&state.StopJob{Key: web, Purge: l.Verb == "purge", Now: w.ns(), Eval: state.EvalSeed{
			ID: statetest.ID[berth.Eval](w.evals), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser},
		}})
	case "scale":
		w.evals++
		c := &state.ScaleJob{Key: web, Group: "g", Change: true, Now: w.ns(), Eval: state.EvalSeed{
			ID: statetest.ID[berth.Eval](w.evals), TriggeredBy: berth.TriggerJobScaling, Cause: berth.Cause{Kind: berth.CauseUser},
		}}
		fmt.Sscan(arg(0), &c.Count)
		err = w.try(c)
	case "leader":
		w.watch = deploy.New()
	case "log":
		c := &state.RaiseLogVersion{}
		fmt.Sscan(arg(0), &c.To)
		w.apply(c)
	default:
		t.Fatalf("%s: what is that?", l)
	}
	w.settle()
	return err
}

// seed is that of the evaluations which a change of a node raises.
func (w *world) seed() [16]byte {
	w.seeds++
	return statetest.ID[berth.Eval](1_000_000 + w.seeds)
}

func (w *world) node(name string) berth.NodeID {
	for n := range w.snap.Nodes() {
		if n.Name == name {
			return n.ID
		}
	}
	w.t.Fatalf("there is no node %s", name)
	return berth.NodeID{}
}

// instance returns the newest live allocation of an index, or of a node.
func (w *world) instance(index string) (found *berth.Alloc) {
	for a := range w.snap.AllocsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}) {
		if (fmt.Sprint(a.Index) == index || w.snap.Node(a.NodeID).Name == index) && a.Live() && (found == nil || a.CreateIndex > found.CreateIndex) {
			found = a
		}
	}
	if found == nil {
		w.t.Fatalf("nothing runs as %s", index)
	}
	return found
}
