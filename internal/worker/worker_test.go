package worker_test

import (
	"context"
	"testing"
	"testing/synctest"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// cluster is a leader without Raft: broker, planner and a worker on a log of
// one.
type cluster struct {
	t     *testing.T
	store *state.Store
	log   *statetest.Log
}

// inCluster runs f with a leader that has the term 1.
func inCluster(t *testing.T, f func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, &state.BeginTerm{Term: 1})
		ctx, stop := context.WithCancel(t.Context())
		b := newBroker(t, store, log)
		w := newWorker(t, b, newPlanner(t, log, b))
		ended := make(chan error, 2)
		go func() { ended <- b.Run(ctx) }()
		go func() { ended <- w.Run(ctx) }()
		f(&cluster{t, store, log})
		stop()
		<-ended
		<-ended
	})
}

// do proposes commands, waits until the leader has nothing left to do, and
// checks what must hold.
func (c *cluster) do(cmds ...state.Command) *state.Snapshot {
	c.t.Helper()
	c.log.Must(c.t, cmds...)
	synctest.Wait()
	s := c.store.Snapshot()
	for _, v := range invariant.Check(s) {
		c.t.Error(v)
	}
	return s
}

func live(s *state.Snapshot, job string) (out []*berth.Alloc) {
	for a := range s.AllocsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}) {
		if a.Live() {
			out = append(out, a)
		}
	}
	return out
}

func TestRegisterPlaces(t *testing.T) {
	inCluster(t, func(c *cluster) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":3}]}`)
		s := c.do(statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000), statetest.Register(job, 1))
		if got := len(live(s, "web")); got != 3 {
			t.Fatalf("%d are placed, want 3", got)
		}
		e := s.Eval(statetest.ID[berth.Eval](1))
		if e.Status != berth.EvalComplete || e.Timeline.Dequeued == 0 || e.Timeline.Deliveries != 1 {
			t.Errorf("the evaluation ended as %+v", e)
		}
	})
}

func TestNoCapacityBlocksAndCapacityPlaces(t *testing.T) {
	inCluster(t, func(c *cluster) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":3,"Resources":{"CPU":3000,"MemoryMB":100}}]}`)
		s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
		e := s.Eval(statetest.ID[berth.Eval](1))
		blocked := s.Eval(e.BlockedEval)
		if len(live(s, "web")) != 1 || blocked == nil || blocked.Status != berth.EvalBlocked {
			t.Fatalf("one should run and a blocked evaluation wait: %+v", e)
		}
		why := e.FailedTGAllocs["g"]
		if len(why.Shortages) != 1 || why.Shortages[0].Dimension != "cpu" || why.Shortages[0].Wanted != 3000 || why.Shortages[0].Free != 1000 {
			t.Errorf("the reason is %+v", why)
		}
		s = c.do(statetest.AddNode(2, 4000, 4000))
		if got := len(live(s, "web")); got != 2 {
			t.Fatalf("%d run after a second node came, want 2", got)
		}
		if b := s.Eval(blocked.ID); b.Status != berth.EvalBlocked {
			t.Errorf("the blocked evaluation is %s; it still lacks a place", b.Status)
		}
		s = c.do(statetest.AddNode(3, 4000, 4000))
		if b := s.Eval(blocked.ID); len(live(s, "web")) != 3 || b.Status != berth.EvalComplete {
			t.Errorf("%d run, the blocked evaluation is %s", len(live(s, "web")), b.Status)
		}
	})
}
