package explain_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"berth"
	"berth/internal/schedule"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

func everyone(string) bool { return true }

// What would happen is what happens: nodes are taken down as the answer supposes,
// and everything is decided. As many instances are lost in each group as it said,
// and the state that was asked is as it was.
func TestWhatIfIsWhatHappens(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	lossy, safe := 0, 0
	for round := range 40 {
		count := 3 + r.IntN(4)
		var cmds []state.Command
		for n := range count {
			cmds = append(cmds, statetest.AddNode(n+1, 1050, 1050, func(n *berth.Node) { n.Meta = map[string]string{"rack": fmt.Sprint("r", r.IntN(2))} }))
		}
		for n := range 3 {
			cmds = append(cmds, statetest.Register(statetest.Job(t, fmt.Sprintf(`{"ID":"j%d","Priority":%d,"TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":%d,"MemoryMB":200}}]}`,
				n, 30+10*n, 1+r.IntN(4), 100+100*r.IntN(3))), n+1))
		}
		cmds = append(cmds, statetest.Register(statetest.Job(t, `{"ID":"everywhere","Type":"system","TaskGroups":[{"Name":"g","Resources":{"CPU":10,"MemoryMB":10}}]}`), 9))
		k := newCluster(t, cmds...)
		k.decide()
		var fail []*berth.Node
		for n := range k.snap().Nodes() {
			if n.Meta["rack"] == "r0" {
				fail = append(fail, n)
			}
		}
		live := func() map[string]int {
			out := map[string]int{}
			for a := range k.snap().Allocs() {
				if n := k.snap().Node(a.NodeID); a.Live() && n.Status != berth.NodeDown && !a.Job.PerNode() {
					out[string(a.Job.ID)]++
				}
			}
			return out
		}
		index, was := k.snap().Index, live()
		x, err := explain.WhatIf(k.snap(), fail, everyone, k.now)
		if err != nil {
			t.Fatal(err)
		}
		if k.snap().Index != index || x.Index != index || x.Nodes != len(fail) || x.NotTried != 0 || x.Bound != len(fail) {
			t.Errorf("round %d: %d nodes fail: %+v", round, len(fail), x)
		}
		hidden, err := explain.WhatIf(k.snap(), fail, func(string) bool { return false }, k.now)
		if err != nil || len(hidden.Groups) != 0 || hidden.Hidden != x.Lost || hidden.Lost != x.Lost {
			t.Errorf("round %d: who may see no job is told %+v, %v", round, hidden, err)
		}
		for _, n := range fail {
			k.Must(t, &state.SetNodeStatus{ID: n.ID, Status: berth.NodeDown, Seed: [16]byte(n.ID), Now: k.now.UnixNano()})
		}
		// As the scheduler does: the most urgent first.
		for {
			var best *berth.Eval
			for e := range k.snap().OpenEvals(berth.EvalPending) {
				if best == nil || e.Priority > best.Priority {
					best = e
				}
			}
			if best == nil {
				break
			}
			k.Must(t, schedule.Decide(k.snap(), best, 0, k.now).Plan)
		}
		is, sum := live(), 0
		for job, n := range was {
			sum += max(0, n-is[job])
		}
		if sum != x.Lost {
			t.Errorf("round %d: %d are lost, and %d were foretold: %+v", round, sum, x.Lost, x)
		}
		for _, g := range x.Groups {
			if g.Lost != was[string(g.JobID)]-is[string(g.JobID)] || g.Why == "" {
				t.Errorf("round %d: %+v, from %v to %v", round, g, was, is)
			}
		}
		if x.Lost > 0 {
			lossy++
		} else if len(fail) > 0 && x.Moved > 0 {
			safe++
		}
	}
	if lossy == 0 || safe == 0 {
		t.Errorf("%d failures lost something, %d nothing", lossy, safe)
	}
}
