package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/leader/planner"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// poison returns a job whose condition takes more work than any decision may:
// registration refuses such a long one today, but did not always.
func poison(t *testing.T, id, typ string) *berth.Job {
	j := statetest.Job(t, `{"ID":"`+id+`","Type":"`+typ+`","TaskGroups":[{"Name":"g","Resources":{"CPU":100,"MemoryMB":100}}]}`)
	j.Constraints = []berth.Constraint{{LTarget: "${attr.kernel.version}", Operand: berth.OpVersion, RTarget: ">= 1.0" + strings.Repeat(", >= 1.0", 75_000)}}
	return j
}

// unlike returns n nodes, no two of which have the same value of the attribute
// that the poisonous condition is about.
func unlike(n int) (cmds []state.Command) {
	for i := range n {
		cmds = append(cmds, statetest.AddNode(i+1, 4000, 4000, func(x *berth.Node) { x.Attributes["kernel.version"] = fmt.Sprintf("5.%d", i) }))
	}
	return cmds
}

// A job that takes too much work to decide delays others by a bounded number of
// steps. Its evaluation fails after the second try and names the condition; the
// job is tried again later and later, whatever happens to the cluster, until it
// is changed.
func TestAJobThatTakesTooMuchWorkIsQuarantined(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.do(unlike(200)...)
		s := c.do(statetest.Register(poison(t, "poison", berth.TypeSystem), 1), statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`), 2))
		if len(live(s, "web")) != 1 {
			t.Fatal("the other job waits")
		}
		time.Sleep(broker.DefaultLimits.FirstNackDelay)
		s = c.do()
		e := s.Eval(statetest.ID[berth.Eval](1))
		if e.Status != berth.EvalFailed || e.Failure != berth.FailureTooMuchWork || e.Timeline.Deliveries != 2 {
			t.Fatalf("the evaluation is %+v", e)
		}
		for _, part := range []string{"the job is quarantined", "${attr.kernel.version} version >= 1.0", `group "g"`, "tried again in 1m0s"} {
			if !strings.Contains(e.StatusDescription, part) {
				t.Errorf("the description lacks %q: %s", part, e.StatusDescription)
			}
		}
		job := s.Job(key("poison"))
		wait := time.Minute
		for range 8 {
			q, ok := s.Quarantined(job)
			if !ok || q.Next.ID != q.Failed.NextEval || q.Next.WaitUntil != time.Now().Add(wait).UnixNano() {
				t.Fatalf("quarantined: %v, %+v; want a wait of %v", ok, q.Next, wait)
			}
			// A node that joins raises an evaluation, which waits as well.
			join := statetest.AddNode(1000, 4000, 4000)
			join.Seed, join.Now = statetest.ID[berth.Eval](int(5000+wait/time.Minute)), time.Now().UnixNano()
			s = c.do(join, &state.SetNodeStatus{ID: join.Node.ID, Status: berth.NodeDown, Seed: statetest.ID[berth.Eval](int(7000 + wait/time.Minute)), Now: time.Now().UnixNano()})
			for e := range s.EvalsOf(job.Key()) {
				if !e.Terminal() && e.Timeline.Deliveries > 0 {
					t.Errorf("evaluation %s (%s) was delivered", e.ID.Short(), e.TriggeredBy)
				}
			}
			time.Sleep(wait)
			s = c.do()
			wait = min(2*wait, time.Hour)
		}
		failures := 0
		for e := range s.EvalsOf(job.Key()) {
			if e.Failure == berth.FailureTooMuchWork {
				failures++
			}
		}
		if failures != 9 {
			t.Errorf("%d evaluations were decided in vain, want 9", failures)
		}
		s = c.do(statetest.Register(statetest.Job(t, `{"ID":"poison","Type":"system","TaskGroups":[{"Name":"g","Resources":{"CPU":100,"MemoryMB":100}}]}`), 3))
		if n := len(live(s, "poison")); n != 200 {
			t.Errorf("changed, it runs on %d nodes, want 200", n)
		}
		if _, ok := s.Quarantined(s.Job(key("poison"))); ok {
			t.Error("it is still quarantined")
		}
	})
}

// The quarantine of a job survives a change of the leader: it follows from the
// state.
func TestQuarantineSurvivesATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, append(unlike(1), &state.BeginTerm{Term: 1})...)
		c := &cluster{t, store, log}
		term := func() (b *broker.Broker, over func()) {
			ctx, stop := context.WithCancel(t.Context())
			b = newBroker(t, store, log)
			ended := make(chan error, 2)
			go func() { ended <- b.Run(ctx) }()
			go func() { ended <- newWorker(t, b, newPlanner(t, log, b)).Run(ctx) }()
			synctest.Wait()
			return b, func() { stop(); <-ended; <-ended }
		}
		_, over := term()
		c.do(statetest.Register(poison(t, "poison", berth.TypeSystem), 1))
		time.Sleep(broker.DefaultLimits.FirstNackDelay)
		c.do()
		over()
		b, over := term()
		defer over()
		join := statetest.AddNode(2, 4000, 4000)
		join.Seed, join.Now = statetest.ID[berth.Eval](50), time.Now().UnixNano()
		c.do(join)
		if n := b.Stats(); n.Quarantined != 1 || n.Delayed != 2 {
			t.Errorf("%+v", n)
		}
		c.do(&state.StopJob{Key: key("poison"), Eval: seed(60), Now: time.Now().UnixNano()})
		c.is(60, berth.EvalComplete)
		if n := b.Stats(); n.Delayed != 0 || n.Quarantined != 0 {
			t.Errorf("stopped: %+v", n)
		}
	})
}

// is checks the status of an evaluation.
func (c *cluster) is(eval int, status string) {
	c.t.Helper()
	if e := c.store.Snapshot().Eval(statetest.ID[berth.Eval](eval)); e == nil || e.Status != status {
		c.t.Errorf("evaluation %d is %+v, want %s", eval, e, status)
	}
}

// watched is a planner that runs a function whenever the newest state is asked
// for.
type watched struct {
	*planner.Planner
	asked  int
	before func(n int)
}

func (w *watched) Tip() *state.Snapshot {
	w.asked++
	w.before(w.asked)
	return w.Planner.Tip()
}

// A worker that decides on a job leaves it at once when the job is purged or
// changed: it looks at the newest state every few thousand steps.
func TestAPurgedJobFreesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, append(unlike(200), &state.BeginTerm{Term: 1})...)
		c := &cluster{t, store, log}
		ctx, stop := context.WithCancel(t.Context())
		b := newBroker(t, store, log)
		w := &watched{Planner: newPlanner(t, log, b)}
		large := poison(t, "web", berth.TypeService)
		large.Constraints[0].RTarget = large.Constraints[0].RTarget[:4096-2]
		w.before = func(n int) {
			if n == 2 { // in the middle of the decision
				c.log.Must(t, &state.StopJob{Key: key("web"), Purge: true, Eval: seed(2), Now: 1})
			}
		}
		ended := make(chan error, 2)
		go func() { ended <- b.Run(ctx) }()
		go func() { ended <- newWorker(t, b, w).Run(ctx) }()
		c.do(statetest.Register(large, 1))
		c.is(1, berth.EvalCanceled)
		c.is(2, berth.EvalComplete)
		// Once for each decision, and once in the middle of the first.
		if w.asked > 4 {
			t.Errorf("the newest state was asked for %d times", w.asked)
		}
		stop()
		<-ended
		<-ended
	})
}

// However long a condition is and however unlike the nodes are, deciding and
// explaining take no more steps than are allowed, and parsing counts as well.
func TestPoisonCostsABoundedNumberOfSteps(t *testing.T) {
	store, log := statetest.New(t, unlike(200)...)
	for i, operand := range []string{berth.OpVersion, berth.OpSemver, berth.OpSetContains, berth.OpSetContainsAny, berth.OpRegexp} {
		for name, right := range map[string]string{
			"one huge condition": ">= 1.0" + strings.Repeat(", >= 1.0", 75_000),
			"many long ones":     ">= 1.0" + strings.Repeat(", >= 1.0", 500),
		} {
			j := poison(t, fmt.Sprintf("job-%d-%d", i, len(right)), berth.TypeService)
			j.Constraints = nil
			for range max(1, 600_000/len(right)) {
				j.Constraints = append(j.Constraints, berth.Constraint{LTarget: "${attr.kernel.version}", Operand: operand, RTarget: right})
			}
			if operand == berth.OpRegexp {
				for k := range j.Constraints {
					j.Constraints[k].RTarget = "^5" + strings.Repeat("[.0-9]?", len(right)/7)
				}
			}
			log.Must(t, statetest.Register(j, 100*i+len(right)%97))
			s := store.Snapshot()
			e := s.Eval(statetest.ID[berth.Eval](100*i + len(right)%97))
			work := &schedule.Budget{Most: schedule.Allowance(s, s.Job(j.Key()))}
			_, err := schedule.DecideWithin(work, s, e, 0, time.Unix(9, 0))
			if most := int64(1<<20 + 1<<16); work.Most > most {
				t.Errorf("%s, %s: %d steps are allowed, want at most %d", operand, name, work.Most, most)
			}
			if err == nil && work.Spent() > work.Most || err != nil && !errors.Is(err, schedule.ErrTooMuchWork) {
				t.Errorf("%s, %s: %d steps of %d, %v", operand, name, work.Spent(), work.Most, err)
			}
		}
	}
}
