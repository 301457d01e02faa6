package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader"
	"berth/internal/leader/deploy"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// deployments are the commands after which n jobs of as many instances each
// have a deployment that goes on.
func deployments(t testing.TB, n, each int, now int64) (cmds []state.Command) {
	for i := range 1 + n*each/200 {
		cmds = append(cmds, statetest.AddNode(i+1, 1<<30, 1<<30))
	}
	for i := range n {
		j := statetest.Job(t, fmt.Sprintf(`{"ID":"web%d","TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":1,"MemoryMB":10},"Update":{"MaxParallel":%d}}]}`, i, each, each))
		r := statetest.Register(j, i+1)
		plan := &state.ApplyPlan{Eval: r.Eval.ID, Now: now, End: &state.EvalEnd{Status: berth.EvalComplete}, Deploy: &berth.Deployment{
			ID: statetest.ID[berth.Deployment](i + 1), Namespace: j.Namespace, JobID: j.ID, JobVersion: 0,
			Status: berth.DeploymentRunning, StatusDescription: berth.DeploymentRuns,
			TaskGroups: map[string]*berth.DeploymentState{"g": {DesiredTotal: each, ProgressDeadline: 10 * time.Minute}},
		}}
		for k := range each {
			plan.Place = append(plan.Place, berth.Placement{NodeID: statetest.ID[berth.Node](1 + (i*each+k)/200), Index: uint32(k)})
		}
		cmds = append(cmds, r, plan)
	}
	return cmds
}

// applyAll applies commands; a deployment is of the incarnation that its job has
// by then.
func applyAll(t testing.TB, tx *state.Tx, cmds []state.Command) {
	t.Helper()
	for _, c := range cmds {
		if p, ok := c.(*state.ApplyPlan); ok && p.Deploy != nil {
			p.Deploy.JobUID = tx.Job(p.Deploy.Key()).UID
		}
		if r := tx.Apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
		if p, ok := c.(*state.ApplyPlan); ok && len(p.Refused) > 0 {
			t.Fatal(p.Refused[0])
		}
	}
}

// BenchmarkStep is one look after one change among many deployments. With
// -benchtime and the sizes of the design, 1,000 deployments of 1,000
// allocations each, it is to take at most 100 µs.
func BenchmarkStep(b *testing.B) {
	for _, size := range [][2]int{{100, 100}, {1000, 1000}} {
		b.Run(fmt.Sprintf("deployments=%d/allocs=%d", size[0], size[0]*size[1]), func(b *testing.B) {
			if size[0] > 100 && testing.Short() {
				b.Skip("it takes a while to make so many")
			}
			now := time.Unix(1_000_000, 0)
			tx := state.Begin(state.New().Snapshot())
			applyAll(b, tx, deployments(b, size[0], size[1], now.UnixNano()))
			snap := tx.Seal()
			c := deploy.New()
			c.Step(snap, now)
			var looked time.Duration
			n := 0
			for b.Loop() {
				d := n % size[0]
				id := statetest.ID[berth.Deployment](d + 1)
				var one *berth.Alloc
				for a := range snap.AllocsOf(snap.Deployment(id).Key()) {
					if a.Index == uint32(n/size[0]%size[1]) {
						one = a
						break
					}
				}
				ok := true
				r := &state.ReportAllocs{Node: one.NodeID, Now: now.UnixNano(), Updates: []state.AllocUpdate{{
					ID: one.ID, Client: berth.ClientRunning, Deployment: &berth.AllocDeploymentStatus{Healthy: &ok},
				}}}
				if res := tx.Apply(r); res.Err != nil {
					b.Fatal(res.Err)
				}
				snap = tx.Seal()
				now = now.Add(time.Millisecond)
				begin := time.Now()
				do, _ := c.Step(snap, now)
				looked += time.Since(begin)
				for _, x := range do {
					tx.Apply(x)
				}
				snap = tx.Seal()
				n++
			}
			b.ReportMetric(float64(looked.Nanoseconds())/float64(n), "ns/step")
		})
	}
}

// The loop of a term: a deployment of which nothing is heard fails at its
// deadline, in this term or the next, not earlier and not later.
func TestDeadlineHoldsOverTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t)
		for _, c := range deployments(t, 1, 3, time.Now().UnixNano()) {
			if p, ok := c.(*state.ApplyPlan); ok {
				p.Deploy.JobUID = store.Snapshot().Job(p.Deploy.Key()).UID
			}
			log.Must(t, c)
		}
		id := statetest.ID[berth.Deployment](1)
		term := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			err := leader.Run(ctx, deploy.New(), 1, store, log, state.OnTable(state.Deployments))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		term(4 * time.Minute)
		term(6*time.Minute - time.Second)
		if d := store.Snapshot().Deployment(id); d.Status != berth.DeploymentRunning {
			t.Fatalf("a second before its deadline it is %s", d.Status)
		}
		term(2 * time.Second)
		d := store.Snapshot().Deployment(id)
		if d.Status != berth.DeploymentFailed || time.Unix(0, d.ModifyTime).Sub(time.Unix(0, d.CreateTime)) > 10*time.Minute+time.Second {
			t.Errorf("%s at %v", d.Status, time.Unix(0, d.ModifyTime).Sub(time.Unix(0, d.CreateTime)))
		}
		if s := d.TaskGroups["g"]; s.UnhealthyAllocs != 3 {
			t.Errorf("%d that were never heard of are unhealthy", s.UnhealthyAllocs)
		}
	})
}
