package worker_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A stopped job is stopped in the end, even if no worker managed its first
// evaluation. If nothing is left to stop, an evaluation that failed has no
// follow-up.
func TestStopIsTriedAgain(t *testing.T) {
	for _, purge := range []bool{false, true} {
		inTrouble(t, func(_ *cluster, n int, _ *state.ApplyPlan) {
			if n >= 2 && n <= 4 {
				panic("the worker breaks down")
			}
		}, func(c *cluster) {
			job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`)
			stop := &state.StopJob{Key: job.Key(), Purge: purge, Now: 2, Eval: statetest.Register(job, 2).Eval}
			s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
			if len(live(s, "web")) != 1 {
				t.Fatal("nothing runs")
			}
			c.do(stop)
			time.Sleep(5 * time.Minute)
			s = c.do()
			e := s.Eval(statetest.ID[berth.Eval](2))
			if next := s.Eval(e.NextEval); e.Status != berth.EvalFailed || next == nil || next.Status != berth.EvalComplete {
				t.Errorf("purge %v: the evaluation is %s, its follow-up %+v", purge, e.Status, next)
			}
			if n := len(live(s, "web")); n != 0 {
				t.Errorf("purge %v: %d run still", purge, n)
			}
		})
	}
	inTrouble(t, func(*cluster, int, *state.ApplyPlan) { panic("the worker breaks down") }, func(c *cluster) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`)
		c.do(statetest.Register(job, 1), &state.StopJob{Key: job.Key(), Now: 2, Eval: statetest.Register(job, 2).Eval})
		time.Sleep(5 * time.Minute)
		if e := c.do().Eval(statetest.ID[berth.Eval](2)); e.Status != berth.EvalFailed || !e.NextEval.IsZero() {
			t.Errorf("nothing is left to stop, and the evaluation is %+v", e)
		}
	})
}

// What an earlier job of the same name left on a node that went down is lost,
// even if no worker managed the first evaluation for it.
func TestLeftoversAreTriedAgain(t *testing.T) {
	inTrouble(t, func(c *cluster, _ int, plan *state.ApplyPlan) {
		if c.log.Tip().Eval(plan.Eval).TriggeredBy == berth.TriggerNodeUpdate {
			panic("the worker breaks down")
		}
	}, func(c *cluster) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`)
		large := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Resources":{"CPU":9000,"MemoryMB":100}}]}`)
		s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
		old := live(s, "web")[0]
		c.do(&state.StopJob{Key: job.Key(), Purge: true, Now: 2, Eval: statetest.Register(job, 2).Eval})
		c.do(statetest.Register(large, 3))
		c.do(&state.SetNodeStatus{ID: old.NodeID, Status: berth.NodeDown, Now: 4})
		time.Sleep(5 * time.Minute)
		if a := c.do().Alloc(old.ID); a.Client != berth.ClientLost {
			t.Errorf("the node is down, and what was on it is %s", a.Client)
		}
	})
}
