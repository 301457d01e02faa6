package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// drawLine draws words of a line, each of which may be absent.
func drawLine(t *rapid.T, first string, words ...[]string) string {
	line := []string{first}
	for i, w := range words {
		line = append(line, rapid.SampledFrom(w).Draw(t, fmt.Sprint("word ", i)))
	}
	return strings.Join(line, " ")
}

func drawFitNode(t *rapid.T, n int) string {
	return drawLine(t, fmt.Sprint("node n", n),
		[]string{"cpu=4000", "cpu=2000", "cpu=8000"}, []string{"mem=4000", "mem=1000"}, []string{"", "cores=4", "cores=8 numa=2"},
		[]string{"", "", "device=\"nvidia/gpu/t4 a b\"", "device=\"nvidia/gpu/t4 a b! c\""}, []string{"", "reserved=80", "ports=20000-20002"},
		[]string{"meta.rack=r1", "meta.rack=r2"}, []string{"", "net.public=10.0.0.1"})
}

func drawFitJob(t *rapid.T, i int) string {
	kind := rapid.SampledFrom([]string{"service", "service", "batch", "system", "sysbatch"}).Draw(t, "type")
	line := drawLine(t, fmt.Sprintf("job j%d type=%s", i, kind),
		[]string{"priority=10", "priority=30", "priority=50", "priority=90"}, []string{"cpu=500", "cpu=1500", "cores=1", "cores=3"},
		[]string{"mem=100", "mem=900"}, []string{"", "", "device=nvidia/gpu", "device=\"nvidia/gpu 2\""})
	if kind == "service" || kind == "batch" {
		line += drawLine(t, "", []string{"count=1", "count=3", "count=6"}, []string{"", "", "spread=\"${meta.rack}\""})
	}
	return line
}

// place and planner agree on every fit: what is decided on a state is taken as a
// whole by that state, whatever is asked of cores, devices, ports, networks and
// eviction; what must hold holds; and decided again there is nothing to do but
// to wait on for what is blocked.
func TestEveryFitIsAgreedOn(t *testing.T) {
	evicted, cores, devices, waited := 0, 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		tx := state.Begin(state.New().Snapshot())
		apply := func(c state.Command) {
			if got := tx.Apply(c); got.Err != nil {
				r.Fatalf("%T: %v", c, got.Err)
			}
		}
		all := rapid.Bool().Draw(r, "evicts")
		apply(&state.SetSchedulerConfig{Config: berth.SchedulerConfig{
			SchedulerAlgorithm: rapid.SampledFrom([]string{berth.AlgorithmBinpack, berth.AlgorithmSpread, berth.AlgorithmBalanced}).Draw(r, "algorithm"),
			PreemptionConfig: berth.PreemptionConfig{
				SystemSchedulerEnabled: all, SysBatchSchedulerEnabled: all, BatchSchedulerEnabled: all, ServiceSchedulerEnabled: all,
			},
		}})
		for n := range rapid.IntRange(1, 5).Draw(r, "nodes") {
			for _, l := range statetest.Lines(t, drawFitNode(r, n+1)) {
				for _, node := range statetest.NodesOf(t, l) {
					apply(&state.RegisterNode{Node: node, Now: 1})
				}
			}
		}
		snap := tx.Seal()
		for i := range rapid.IntRange(1, 6).Draw(r, "jobs") {
			lines := statetest.Lines(t, drawFitJob(r, i))
			job := statetest.JobOf(t, lines[0])
			drawNetwork(r, job)
			tx := state.Begin(snap)
			id := statetest.ID[berth.Eval](i + 1)
			if got := tx.Apply(&state.RegisterJob{Job: job, Now: 1, Eval: state.EvalSeed{
				ID: id, TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser},
			}}); got.Err != nil {
				r.Fatal(got.Err)
			}
			snap = tx.Seal()
			when := time.Unix(100, 0)
			d := schedule.Decide(snap, snap.Eval(id), 0, when)
			for _, p := range d.Plan.Place {
				evicted, cores, devices = evicted+len(p.Evict), cores+len(p.Cores), devices+len(p.Devices)
			}
			waited += len(d.Plan.End.Failed)
			snap = commit(r, snap, d.Plan)
			settled(r, snap, snap.Eval(id), when)
			// Those of which something was evicted are placed anew or wait.
			for e := range snap.OpenEvals(berth.EvalPending) {
				d := schedule.Decide(snap, e, 0, when)
				snap = commit(r, snap, d.Plan)
				settled(r, snap, snap.Eval(e.ID), when)
				break // that may evict others in turn: one generation is enough
			}
		}
	})
	t.Logf("%d were evicted, %d cores and %d devices given, %d groups wait", evicted, cores, devices, waited)
	if evicted == 0 || cores == 0 || devices == 0 || waited == 0 {
		t.Error("the draws do not show what they are there to show")
	}
}

// drawNetwork gives a job's group ports.
func drawNetwork(t *rapid.T, j *berth.Job) {
	g := j.TaskGroups[0]
	nw := berth.NetworkResource{Mode: berth.NetworkHost}
	for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "dynamic") {
		nw.DynamicPorts = append(nw.DynamicPorts, berth.Port{Label: fmt.Sprint("p", i)})
	}
	if rapid.IntRange(0, 3).Draw(t, "static") == 0 {
		nw.ReservedPorts = []berth.Port{{Label: "s", Value: rapid.SampledFrom([]int{80, 443, 20001}).Draw(t, "port")}}
	}
	if len(nw.DynamicPorts)+len(nw.ReservedPorts) > 0 {
		g.Networks = []berth.NetworkResource{nw}
	}
}
