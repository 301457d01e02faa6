package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/leader/planner"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// meddler is a planner that runs a function before each plan; plans are counted
// from 1.
type meddler struct {
	*planner.Planner
	before func(n int, plan *state.ApplyPlan)
	n      int
}

func (m *meddler) Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error) {
	m.n++
	m.before(m.n, plan)
	return m.Planner.Submit(d, plan)
}

// inTrouble runs f with a leader whose plans are meddled with.
func inTrouble(t *testing.T, before func(c *cluster, n int, plan *state.ApplyPlan), f func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, &state.BeginTerm{Term: 1})
		c := &cluster{t, store, log}
		ctx, stop := context.WithCancel(t.Context())
		b := newBroker(t, store, log)
		m := &meddler{Planner: newPlanner(t, log, b)}
		m.before = func(n int, plan *state.ApplyPlan) { before(c, n, plan) }
		ended := make(chan error, 2)
		go func() { ended <- b.Run(ctx) }()
		go func() { ended <- newWorker(t, b, m).Run(ctx) }()
		defer func() { stop(); <-ended; <-ended }()
		f(c)
	})
}

// lose makes a plan name nodes that went meanwhile: all its placements, or all
// from the given one on, are refused.
func lose(plan *state.ApplyPlan, from int) {
	for i := from; i < len(plan.Place); i++ {
		plan.Place[i].NodeID = statetest.ID[berth.Node](1000)
	}
}

// An evaluation whose plans are always refused ends after a number of attempts.
// The rest waits in a blocked one, and is tried again after a while even if
// nothing changed.
func TestAttemptsRunOut(t *testing.T) {
	for typ, attempts := range map[string]int{berth.TypeService: 5, berth.TypeBatch: 2} {
		inTrouble(t, func(_ *cluster, n int, plan *state.ApplyPlan) {
			if n <= attempts {
				lose(plan, 0)
			}
		}, func(c *cluster) {
			job := statetest.Job(t, `{"ID":"web","Type":"`+typ+`","TaskGroups":[{"Name":"g","Count":2}]}`)
			s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
			e := s.Eval(statetest.ID[berth.Eval](1))
			if e.Status != berth.EvalFailed || e.Timeline.Refused != attempts || e.QueuedAllocations["g"] != 2 || len(live(s, "web")) != 0 {
				t.Fatalf("%s: %d run, the evaluation is %+v", typ, len(live(s, "web")), e)
			}
			b := s.Eval(e.BlockedEval)
			if b == nil || b.Status != berth.EvalBlocked || b.TriggeredBy != berth.TriggerMaxPlanAttempts || b.PreviousEval != e.ID {
				t.Fatalf("%s: the rest waits in %+v", typ, b)
			}
			time.Sleep(broker.DefaultLimits.FollowUpAfter)
			s = c.do()
			if got := s.Eval(b.ID); len(live(s, "web")) != 2 || got.Status != berth.EvalComplete {
				t.Errorf("%s: a minute later %d run and the blocked evaluation is %s", typ, len(live(s, "web")), got.Status)
			}
		})
	}
}

// While something of each plan is placed, an evaluation goes on: attempts count
// from the last progress.
func TestProgressIsPatient(t *testing.T) {
	inTrouble(t, func(_ *cluster, n int, plan *state.ApplyPlan) {
		if n%3 == 0 {
			lose(plan, 1)
		} else {
			lose(plan, 0)
		}
	}, func(c *cluster) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":6,"Resources":{"CPU":100,"MemoryMB":100}}]}`)
		s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
		e := s.Eval(statetest.ID[berth.Eval](1))
		if len(live(s, "web")) != 6 || e.Status != berth.EvalComplete || e.Timeline.Refused != 17 {
			t.Errorf("%d run, the evaluation is %s after %d refused plans", len(live(s, "web")), e.Status, e.Timeline.Refused)
		}
	})
}

// A job that changes while it is decided gets its new version, under the
// evaluation of that change. The first evaluation is canceled.
func TestJobChangesMeanwhile(t *testing.T) {
	inTrouble(t, func(c *cluster, n int, _ *state.ApplyPlan) {
		if n == 1 {
			c.log.Must(c.t, statetest.Register(statetest.Job(c.t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":3}]}`), 2))
		}
	}, func(c *cluster) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":1}]}`)
		s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
		if got := live(s, "web"); len(got) != 3 || got[0].Job.Version != 1 {
			t.Errorf("%d run", len(got))
		}
		second := statetest.ID[berth.Eval](2)
		if e := s.Eval(second); e.Status != berth.EvalComplete {
			t.Errorf("the evaluation of the change is %s", e.Status)
		}
		if e := s.Eval(statetest.ID[berth.Eval](1)); e.Status != berth.EvalCanceled || e.StatusDescription != "superseded by evaluation "+second.String() || e.Timeline.Deliveries != 1 {
			t.Errorf("the first is %s: %s", e.Status, e.StatusDescription)
		}
	})
}

// So is one whose job is stopped while it is decided: nothing runs then.
func TestAJobIsStoppedMeanwhile(t *testing.T) {
	key := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}
	second := statetest.ID[berth.Eval](2)
	inTrouble(t, func(c *cluster, n int, _ *state.ApplyPlan) {
		if n == 1 {
			c.log.Must(c.t, &state.StopJob{Key: key, Eval: state.EvalSeed{ID: second, TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}}, Now: 3})
		}
	}, func(c *cluster) {
		s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":1}]}`), 1))
		if got := live(s, "web"); len(got) != 0 || !s.Job(key).Stop {
			t.Errorf("%d run", len(got))
		}
		if e := s.Eval(second); e.Status != berth.EvalComplete {
			t.Errorf("the evaluation of the stop is %s", e.Status)
		}
		if e := s.Eval(statetest.ID[berth.Eval](1)); e.Status != berth.EvalCanceled || e.SupersededBy != second && e.StatusDescription != "superseded by evaluation "+second.String() {
			t.Errorf("the first is %s: %s", e.Status, e.StatusDescription)
		}
	})
}

// An evaluation that was canceled while it was decided places nothing.
func TestCanceledMeanwhile(t *testing.T) {
	inTrouble(t, func(c *cluster, n int, plan *state.ApplyPlan) {
		c.log.Must(c.t, &state.CancelEvals{IDs: []berth.EvalID{plan.Eval}, Why: "superseded"})
	}, func(c *cluster) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":1}]}`)
		s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
		if e := s.Eval(statetest.ID[berth.Eval](1)); e.Status != berth.EvalCanceled || len(live(s, "web")) != 0 {
			t.Errorf("%d run, the evaluation is %s", len(live(s, "web")), e.Status)
		}
	})
}

// A job that makes the scheduler or the state fail is given up after three
// deliveries. The worker goes on and serves other jobs meanwhile.
func TestABrokenJobBlocksNoOther(t *testing.T) {
	for name, broken := range map[string]func(plan *state.ApplyPlan){
		"scheduler": func(*state.ApplyPlan) { panic("the plan is too clever") },
		"state": func(plan *state.ApplyPlan) {
			plan.Explain = map[string]*berth.AllocMetric{"g": nil}
			plan.Place[0].Group = -1
		},
	} {
		inTrouble(t, func(c *cluster, n int, plan *state.ApplyPlan) {
			if e := c.log.Tip().Eval(plan.Eval); e.JobID == "broken" {
				broken(plan)
			}
		}, func(c *cluster) {
			s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(statetest.Job(t, `{"ID":"broken","TaskGroups":[{"Name":"g"}]}`), 1),
				statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`), 2))
			if len(live(s, "web")) != 1 {
				t.Errorf("%s: %d of the other job run", name, len(live(s, "web")))
			}
			time.Sleep(time.Minute)
			s = c.do()
			e := s.Eval(statetest.ID[berth.Eval](1))
			if e.Status != berth.EvalFailed || e.Timeline.Deliveries != 3 || e.NextEval.IsZero() {
				t.Errorf("%s: the evaluation is %+v", name, e)
			}
		})
	}
}

// When the log is lost the worker stops with an error, whatever it holds.
func TestLogLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, &state.BeginTerm{Term: 1}, statetest.AddNode(1, 4000, 4000))
		b := newBroker(t, store, log)
		ctx, stop := context.WithCancel(t.Context())
		brokerEnded, ended := make(chan error), make(chan error)
		go func() { brokerEnded <- b.Run(ctx) }()
		go func() { ended <- newWorker(t, b, newPlanner(t, log, b)).Run(ctx) }()
		log.Must(t, statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`), 1))
		log.Hold()
		synctest.Wait()
		log.Lose()
		err := <-ended
		if err == nil || berth.KindOf(err) != "" || errors.Is(err, context.Canceled) {
			t.Errorf("the worker ended with %v", err)
		}
		stop()
		<-brokerEnded
	})
}

// A node that changed while an evaluation was decided is checked again: it may
// no longer be feasible.
func TestNodeChangesMeanwhile(t *testing.T) {
	inTrouble(t, func(c *cluster, n int, _ *state.ApplyPlan) {
		if n == 1 {
			c.log.Must(c.t, statetest.AddNode(1, 4000, 4000, func(x *berth.Node) { x.Drivers["mock_driver"].Healthy = false }))
		}
	}, func(c *cluster) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`)
		s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
		if got := live(s, "web"); len(got) != 0 {
			t.Errorf("%d run on a node whose driver does not work", len(got))
		}
		if e := s.Eval(statetest.ID[berth.Eval](1)); e.Timeline.Refused != 1 || s.Eval(e.BlockedEval) == nil {
			t.Errorf("the evaluation is %+v", e)
		}
	})
}
