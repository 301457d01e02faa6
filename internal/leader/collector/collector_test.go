package collector_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/leader"
	"berth/internal/leader/broker"
	"berth/internal/leader/collector"
	"berth/internal/leader/planner"
	_ "berth/internal/onethread"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"golang.org/x/sync/errgroup"
)

// term is a term with a broker, a planner and the collector.
type term struct {
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	told  *strings.Builder // what the collector logged
	stop  func()
}

func begin(t *testing.T, cmds ...state.Command) *term {
	t.Helper()
	store, log := statetest.New(t, cmds...)
	var told strings.Builder
	b := broker.New(1, store, log, broker.DefaultLimits)
	p := planner.New(1, log, b)
	w := collector.NewWorker(1, log, b, p, collector.DefaultOptions)
	w.Logger = slog.New(slog.NewTextHandler(&told, nil))
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.Run(ctx) })
	g.Go(func() error {
		return leader.Run(ctx, collector.NewTimer(collector.DefaultOptions, [32]byte{1}), 1, store, log, collector.Watched()...)
	})
	g.Go(func() error { return w.Run(ctx) })
	x := &term{t: t, store: store, log: log, told: &told}
	x.stop = func() {
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) && !errors.Is(err, broker.ErrClosed) {
			t.Error(err)
		}
	}
	return x
}

func (x *term) sound() *state.Snapshot {
	x.t.Helper()
	s := x.store.Snapshot()
	for _, v := range invariant.Check(s) {
		x.t.Error(v)
	}
	return s
}

// cores returns the core evaluations, oldest first.
func cores(s *state.Snapshot) (out []*berth.Eval) {
	for e := range s.Evals() {
		if e.Type == berth.TypeCore {
			out = append(out, e)
		}
	}
	return out
}

// done are the commands after which n evaluations of batch jobs that place
// nothing have ended, now.
func done(t testing.TB, n int) (cmds []state.Command) {
	now := time.Now().UnixNano()
	for i := range n {
		j := statetest.Job(t, fmt.Sprintf(`{"ID":"web%d","TaskGroups":[{"Name":"g","Count":0}]}`, i))
		r := statetest.Register(j, i+1)
		r.Now = now
		cmds = append(cmds, r, &state.ApplyPlan{Eval: r.Eval.ID, Now: now, End: &state.EvalEnd{Status: berth.EvalComplete}})
	}
	return cmds
}

// What has ended is collected when it is old enough, by an evaluation that
// everyone can look at; that one goes later, without another for itself alone.
func TestByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, done(t, 3)...)
		defer x.stop()
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if s := x.sound(); s.Count(state.Evals) != 3 {
			t.Errorf("too early there are %d evaluations", s.Count(state.Evals))
		}
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		s := x.sound()
		list := cores(s)
		if s.Count(state.Evals) != 1 || len(list) != 1 {
			t.Fatalf("after an hour there are %d evaluations, %d of the collector's", s.Count(state.Evals), len(list))
		}
		e := list[0]
		if e.Status != berth.EvalComplete || e.TriggeredBy != berth.TriggerScheduled || e.Cause.Kind != berth.CauseSystem ||
			e.StatusDescription != "deleted 3 evaluations" || e.Timeline.Dequeued == 0 || e.Timeline.Deliveries != 1 {
			t.Errorf("the core evaluation is %+v", e)
		}
		time.Sleep(100 * time.Hour) // nothing else ends, so nothing is raised
		synctest.Wait()
		if again := cores(x.sound()); len(again) != 1 || again[0] != e {
			t.Errorf("the collector works for itself: %v", again)
		}
		x.log.Must(t, &state.CreateEvals{Now: time.Now().UnixNano(), Evals: []state.EvalFor{{EvalSeed: state.EvalSeed{
			ID: statetest.ID[berth.Eval](99), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}},
			Key: berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web1"},
		}}}, &state.ApplyPlan{Eval: statetest.ID[berth.Eval](99), Now: time.Now().UnixNano(), End: &state.EvalEnd{Status: berth.EvalComplete}})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if again := cores(x.sound()); len(again) != 1 || again[0].StatusDescription != "deleted 2 evaluations" {
			t.Errorf("after another evaluation ended the collector's are %v", again)
		}
	})
}

// Forced, all goes at once that nothing needs; a second time there is nothing.
func TestByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, done(t, 2500)...)
		defer x.stop()
		for i, want := range []string{"deleted 2500 evaluations", "found nothing to delete"} {
			id := statetest.ID[berth.Eval](1 << 20 << i)
			x.log.Must(t, &state.RaiseCore{ID: id, Force: true, Cause: berth.Cause{Kind: berth.CauseUser}, Now: time.Now().UnixNano()})
			time.Sleep(time.Second)
			synctest.Wait()
			s := x.sound()
			if e := s.Eval(id); e == nil || e.Status != berth.EvalComplete || e.StatusDescription != want {
				t.Fatalf("the core evaluation is %+v", e)
			}
			if s.Count(state.Evals) != i+1 {
				t.Errorf("%d evaluations are left", s.Count(state.Evals))
			}
			if n := strings.Count(x.told.String(), `result="deleted 2500 evaluations"`); n != 1 || strings.Count(x.told.String(), "\n") != 1 {
				t.Errorf("it was logged %d times:\n%s", n, x.told)
			}
		}
	})
}

// Several at once: the last one wanted is done, those that it makes needless
// are canceled, and none is left open.
func TestManyByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, done(t, 10)...)
		defer x.stop()
		var cmds []state.Command
		for i := range 20 {
			cmds = append(cmds, &state.RaiseCore{ID: statetest.ID[berth.Eval](1000 + i), Force: true, Cause: berth.Cause{Kind: berth.CauseUser}, Now: 1})
		}
		x.log.Must(t, cmds...)
		time.Sleep(time.Minute)
		synctest.Wait()
		list := cores(x.sound())
		for _, e := range list {
			if !e.Terminal() {
				t.Errorf("left open: %+v", e)
			}
		}
		if last := list[len(list)-1]; len(list) != 20 || last.Status != berth.EvalComplete {
			t.Errorf("%d evaluations; the last is %+v", len(list), last)
		}
	})
}

// A timer after whose commands nothing changed but them is silent.
func TestTimerIsSilentAfterItsCommands(t *testing.T) {
	store, log := statetest.New(t, done(t, 1)...)
	timer := collector.NewTimer(collector.DefaultOptions, [32]byte{})
	now := time.Now()
	if do, again := timer.Step(store.Snapshot(), now); len(do) > 0 || !again.Equal(now.Add(5*time.Minute)) {
		t.Errorf("at first: %v, again %v", do, again)
	}
	now = now.Add(2 * time.Hour)
	do, _ := timer.Step(store.Snapshot(), now)
	if len(do) != 1 {
		t.Fatalf("when something is old: %v", do)
	}
	log.Must(t, do...)
	for range 3 {
		if do, _ := timer.Step(store.Snapshot(), now); len(do) > 0 {
			t.Errorf("it goes on: %v", do)
		}
		now = now.Add(5 * time.Minute) // the evaluation is still open
	}
}

// A log that is lost ends the collector; a new term's finds the evaluation and
// finishes the work.
func TestANewTermFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, done(t, 5)...)
		id := statetest.ID[berth.Eval](500)
		log.Must(t, &state.RaiseCore{ID: id, Force: true, Cause: berth.Cause{Kind: berth.CauseUser}, Now: 1})
		log.Hold()
		run := func(ctx context.Context) error {
			b := broker.New(1, store, log, broker.DefaultLimits)
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return b.Run(ctx) })
			g.Go(func() error {
				w := collector.NewWorker(1, log, b, planner.New(1, log, b), collector.DefaultOptions)
				w.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
				return w.Run(ctx)
			})
			return g.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		synctest.Wait() // it waits for its deletion to be safe
		cancel()
		if err := <-ended; err == nil {
			t.Error("it ended without a reason")
		}
		log.Release()
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		go func() { ended <- run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		s := store.Snapshot()
		if e := s.Eval(id); e.Status != berth.EvalComplete || s.Count(state.Evals) != 1 {
			t.Errorf("%d evaluations are left; the core evaluation is %+v", s.Count(state.Evals), e)
		}
		cancel()
		<-ended
	})
}

// ended are the commands after which n evaluations of one job have ended.
func ended(job string, from, n int) (cmds []state.Command) {
	now := time.Now().UnixNano()
	for i := range n {
		id := statetest.ID[berth.Eval](from + i)
		cmds = append(cmds, &state.CreateEvals{Now: now, Evals: []state.EvalFor{{
			EvalSeed: state.EvalSeed{ID: id, TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}},
			Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)},
		}}}, &state.ApplyPlan{Eval: id, Now: now, End: &state.EvalEnd{Status: berth.EvalComplete}})
	}
	return cmds
}

// A job keeps its newest ended evaluations. Those beyond the limit go long before
// their age and before the next regular look, and evaluations of other jobs stay.
func TestAJobKeepsItsNewestEvaluations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, done(t, 3)...)
		defer x.stop()
		synctest.Wait()
		const many = schedule.EvalsPerJob + 200
		x.log.Must(t, ended("web1", 1000, many)...)
		time.Sleep(time.Second)
		synctest.Wait()
		s := x.sound()
		n := 0
		for e := range s.EvalsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web1"}) {
			if e.Terminal() {
				n++
			}
		}
		// The one of the registration went first.
		if n != schedule.EvalsPerJob || s.Eval(statetest.ID[berth.Eval](1000+many-1)) == nil || s.Eval(statetest.ID[berth.Eval](1000)) != nil {
			t.Errorf("%d evaluations of the job are left", n)
		}
		if list := cores(s); len(list) != 1 || list[0].StatusDescription != "deleted 201 evaluations" {
			t.Errorf("the collector's evaluations: %v", list)
		}
		for _, id := range []int{1, 3} { // of the other jobs
			if s.Eval(statetest.ID[berth.Eval](id)) == nil {
				t.Errorf("evaluation %d of another job is gone", id)
			}
		}
		x.log.Must(t, ended("web2", 100_000, 10)...)
		time.Sleep(time.Second)
		synctest.Wait()
		if list := cores(x.sound()); len(list) != 1 {
			t.Errorf("few new evaluations made the collector look %d times", len(list))
		}
	})
}
