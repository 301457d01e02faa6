package planner_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/leader/planner"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// term is a broker that runs, and the planner that asks it.
type term struct {
	*planner.Planner
	t      *testing.T
	broker *broker.Broker
	store  *state.Store
	log    *statetest.Log
	told   *strings.Builder // what the planner logged
}

// inTerm runs f beside a broker and a planner of term 2, in virtual time.
func inTerm(t *testing.T, f func(p *term)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":9,"Resources":{"CPU":1000,"MemoryMB":100}}]}`)
		store, log := statetest.New(t, &state.BeginTerm{Term: 2}, statetest.AddNode(1, 4000, 4000),
			statetest.AddNode(2, 2000, 4000), statetest.AddNode(3, 500, 4000), statetest.Register(job, 1))
		ctx, stop := context.WithCancel(t.Context())
		b := broker.New(2, store, log, broker.DefaultLimits)
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		defer func() { stop(); <-ended }()
		synctest.Wait()
		p := &term{planner.New(2, log, b), t, b, store, log, new(strings.Builder)}
		p.Logger = slog.New(slog.NewTextHandler(p.told, nil))
		f(p)
	})
}

func (p *term) next() *berth.Delivery {
	p.t.Helper()
	list, err := p.broker.Next(p.t.Context(), []string{berth.TypeService}, 1)
	if err != nil {
		p.t.Fatal(err)
	}
	return &list[0]
}

// plan places instances of the job, one on each of the nodes named.
func plan(nodes ...int) *state.ApplyPlan {
	c := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), End: &state.EvalEnd{Status: berth.EvalComplete}, Now: time.Now().UnixNano()}
	for i, n := range nodes {
		c.Place = append(c.Place, berth.Placement{Index: uint32(i), NodeID: statetest.ID[berth.Node](n)})
	}
	return c
}

func (p *term) placed() int { return p.store.Snapshot().Count(state.Allocs) }

func (p *term) quasi() string {
	q, _ := p.broker.Quasi(statetest.ID[berth.Eval](1))
	return q.Status
}

// A plan is on its way until its entry is safe, and is on the tip before that.
func TestPlanIsCommitted(t *testing.T) {
	inTerm(t, func(p *term) {
		d := p.next()
		p.log.Hold()
		pending, err := p.Submit(d, plan(1, 1, 2))
		if err != nil {
			t.Fatal(err)
		}
		if p.placed() != 0 || p.Tip().Count(state.Allocs) != 3 || p.quasi() != "applying" {
			t.Errorf("%d are placed, %d on the tip, the evaluation is %q", p.placed(), p.Tip().Count(state.Allocs), p.quasi())
		}
		if n := p.Queued(); n != 1 {
			t.Errorf("%d plans are queued, not 1", n)
		}
		p.log.Release()
		if err := pending.Wait(p.t.Context()); err != nil || p.placed() != 3 {
			t.Errorf("%d are placed: %v", p.placed(), err)
		}
		if n := p.Queued(); n != 0 {
			t.Errorf("%d plans are queued after they were committed", n)
		}
	})
}

// Only the worker that holds the evaluation places anything for it.
func TestToken(t *testing.T) {
	inTerm(t, func(p *term) {
		d := p.next()
		stranger := *d
		stranger.Token++
		if _, err := p.Submit(&stranger, plan(1)); berth.KindOf(err) != berth.Conflict {
			t.Errorf("a wrong token: %v", err)
		}
		time.Sleep(broker.DefaultLimits.NackTimeout + broker.DefaultLimits.FirstNackDelay)
		again := p.next()
		if _, err := p.Submit(d, plan(1)); berth.KindOf(err) != berth.Conflict {
			t.Errorf("the token of a delivery that timed out: %v", err)
		}
		if plans, _ := p.Stats(); p.placed() != 0 || plans != 0 {
			t.Fatalf("%d are placed by %d plans", p.placed(), plans)
		}
		if _, err := p.Submit(again, plan(1)); err != nil || p.placed() != 1 {
			t.Errorf("the token that counts: %v", err)
		}
	})
}

// A submitted plan gives its worker more time.
func TestSubmitExtends(t *testing.T) {
	inTerm(t, func(p *term) {
		d := p.next()
		time.Sleep(broker.DefaultLimits.NackTimeout - time.Second)
		if _, err := p.Submit(d, plan(1, 3)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(broker.DefaultLimits.NackTimeout - time.Second)
		if !p.broker.Holds(d.Eval.ID, d.Token) {
			t.Error("the worker submitted within its time and lost the evaluation")
		}
	})
}

// What does not fit is refused placement by placement and counted by node; the
// rest is committed, and the evaluation goes on.
func TestPartialCommit(t *testing.T) {
	inTerm(t, func(p *term) {
		d := p.next()
		c := plan(1, 2, 2, 2, 3, 3, 9)
		pending, err := p.Submit(d, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := pending.Wait(p.t.Context()); err != nil || p.placed() != 3 || len(c.Refused) != 4 {
			t.Fatalf("%d are placed, refused are %v: %v", p.placed(), c.Refused, err)
		}
		if e := p.store.Snapshot().Eval(d.Eval.ID); e.Status != berth.EvalPending {
			t.Errorf("the evaluation is %s", e.Status)
		}
		if p.quasi() != "scheduling" {
			t.Errorf("its worker decides again, and it is %q", p.quasi())
		}
		if _, err := p.Submit(d, plan(1, 1, 1, 2)); err != nil { // 0 to 2 run already, and node 2 is full
			t.Fatal(err)
		}
		plans, refused := p.Stats()
		want := map[int]int{1: 3, 2: 2, 3: 2, 9: 1}
		for n, count := range want {
			got := 0
			for _, c := range refused[statetest.ID[berth.Node](n)] {
				got += c
			}
			if got != count {
				t.Errorf("node %d refused %d, want %d", n, got, count)
			}
		}
		if plans != 2 || len(refused) != len(want) {
			t.Errorf("%d plans, refused %v", plans, refused)
		}
	})
}

// A plan for a job that changed is refused as a whole, and so is one of a term
// that is over.
func TestRefusedAsAWhole(t *testing.T) {
	inTerm(t, func(p *term) {
		d := p.next()
		c := plan(1)
		c.JobVersion = 7
		if _, err := p.Submit(d, c); berth.KindOf(err) != berth.Conflict {
			t.Errorf("another version of the job: %v", err)
		}
		if p.quasi() != "scheduling" {
			t.Errorf("the worker may decide again, and the evaluation is %q", p.quasi())
		}
		p.log.Must(t, &state.BeginTerm{Term: 3})
		if _, err := p.Submit(d, plan(1)); berth.KindOf(err) != berth.Conflict {
			t.Errorf("another term: %v", err)
		}
		if p.placed() != 0 {
			t.Errorf("%d are placed", p.placed())
		}
		p.log.Lose()
		if _, err := p.Submit(d, plan(1)); err == nil || berth.KindOf(err) != "" {
			t.Errorf("the log is lost: %v", err)
		}
	})
}

// A node of which placements are refused again and again is reported, once in a
// while, with the reasons.
func TestRefusedAgainAndAgain(t *testing.T) {
	inTerm(t, func(p *term) {
		d := p.next()
		events := func() (out []berth.NodeEvent) {
			for _, e := range p.store.Snapshot().Node(statetest.ID[berth.Node](3)).Events {
				if e.Subsystem == "Scheduler" {
					out = append(out, e)
				}
			}
			return out
		}
		refuse := func(times int) {
			for range times {
				if _, err := p.Submit(d, plan(3)); err != nil {
					t.Fatal(err)
				}
			}
		}
		refuse(99)
		if got := events(); len(got) != 0 {
			t.Fatalf("reported already: %v", got)
		}
		refuse(1)
		got := events()
		if len(got) != 1 || got[0].Message != "100 placements were refused in 0s, the last because cpu: 1000 asked, 500 free" || got[0].Details["cpu"] != "100" {
			t.Fatalf("%+v", got)
		}
		refuse(50)
		if len(events()) != 1 {
			t.Error("reported again at once")
		}
		if n := strings.Count(p.told.String(), "a node keeps refusing placements"); n != 1 {
			t.Errorf("it was logged %d times:\n%s", n, p.told)
		}
		time.Sleep(broker.DefaultLimits.NackTimeout - time.Second) // the worker holds it still
		refuse(1)
		if len(events()) != 1 {
			t.Error("reported again soon")
		}
	})
}
