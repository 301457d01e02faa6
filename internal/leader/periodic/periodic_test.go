package periodic_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/admit"
	"berth/internal/cron"
	"berth/internal/invariant"
	"berth/internal/leader"
	"berth/internal/leader/periodic"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

func job(t testing.TB, id, block string) *berth.Job {
	return statetest.Job(t, fmt.Sprintf(`{"ID": %q, "Type": "batch", "Periodic": {%s}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`, id, block))
}

func register(j *berth.Job) *state.RegisterJob {
	return &state.RegisterJob{Job: j, Now: time.Now().UnixNano()}
}

// term is a term in which the controller runs.
type term struct {
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	stop  func()
}

func begin(t *testing.T, cmds ...state.Command) *term {
	x := &term{t: t}
	x.store, x.log = statetest.New(t, cmds...)
	x.lead(1)
	return x
}

func (x *term) lead(number uint64) {
	ctx, cancel := context.WithCancel(x.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- leader.Run(ctx, periodic.New([32]byte{byte(number)}), number, x.store, x.log, state.OnTable(state.Jobs))
	}()
	x.stop = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			x.t.Error(err)
		}
	}
}

// after lets time pass and returns when the children of a job were due, as
// seconds since the beginning.
func (x *term) after(d time.Duration, id string) string {
	x.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	s := x.store.Snapshot()
	for _, v := range invariant.Check(s) {
		x.t.Error(v)
	}
	var out []string
	for j := range s.Jobs("*", id+berth.PeriodicInfix) {
		var due int64
		fmt.Sscanf(string(j.ID), id+berth.PeriodicInfix+"%d", &due)
		out = append(out, fmt.Sprint(due-start))
	}
	return strings.Join(out, " ")
}

// start is when a synctest bubble begins: midnight UTC of 2000-01-01.
const start = int64(946684800)

// finish ends the work of what waits for a scheduler.
func (x *term) finish() {
	var cmds []state.Command
	for e := range x.store.Snapshot().OpenEvals(berth.EvalPending) {
		cmds = append(cmds, &state.ApplyPlan{Eval: e.ID, Now: time.Now().UnixNano(), End: &state.EvalEnd{Status: berth.EvalComplete}})
	}
	x.log.Must(x.t, cmds...)
}

func (x *term) launch(id string) state.Launch {
	return *x.store.Snapshot().Summary(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(id)}).Launch
}

// A job is launched whenever it is due, and its evaluation says for when.
func TestOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, register(job(t, "n", `"Spec": "*/10 * * * *"`)), register(job(t, "s", `"Spec": "*/5 * * * * * *"`)))
		defer func() { x.stop() }()
		if got := x.after(30*time.Minute, "n"); got != "600 1200 1800" {
			t.Error(got)
		}
		if got := strings.Count(x.after(0, "s"), " ") + 1; got != 360 {
			t.Errorf("%d launches in half an hour", got)
		}
		k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "n/periodic-946686000"}
		for e := range x.store.Snapshot().EvalsOf(k) {
			if e.TriggeredBy != berth.TriggerPeriodicJob || e.Cause != (berth.Cause{Kind: berth.CausePeriodic, ID: "2000-01-01T00:20:00Z"}) || e.CreateTime != (start+1200)*int64(time.Second) {
				t.Errorf("the evaluation is %+v", e)
			}
		}
	})
}

// What was missed is made up for once, for the newest time; a leader that
// follows another launches nothing that was launched.
func TestAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, register(job(t, "n", `"Spec": "*/10 * * * *"`)))
		if got := x.after(10*time.Minute, "n"); got != "600" {
			t.Error(got)
		}
		x.stop()
		if got := x.after(35*time.Minute, "n"); got != "600" {
			t.Error(got)
		}
		x.lead(2)
		if got := x.after(time.Second, "n"); got != "600 2400" {
			t.Error(got)
		}
		x.stop()
		x.lead(3)
		defer func() { x.stop() }()
		if got := x.after(5*time.Minute, "n"); got != "600 2400 3000" {
			t.Error(got)
		}
	})
}

// While a child is not over there is no other, and no storm of attempts.
func TestOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, register(job(t, "n", `"Spec": "* * * * *", "ProhibitOverlap": true`)))
		defer func() { x.stop() }()
		if got := x.after(10*time.Minute, "n"); got != "60" {
			t.Error(got)
		}
		if l := x.launch("n"); l.Skips != 9 || l.Skipped != (start+600)*int64(time.Second) {
			t.Errorf("the record is %+v", l)
		}
		if n := x.store.Snapshot().Index; n > 13 {
			t.Errorf("%d commands in ten minutes", n)
		}
		x.finish()
		if got := x.after(2*time.Minute, "n"); got != "60 660" {
			t.Error(got)
		}
	})
}

// A job that is changed counts from then; one that is disabled or stopped
// launches nothing, and its children go on.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, register(job(t, "n", `"Spec": "*/10 * * * *"`)))
		defer func() { x.stop() }()
		x.after(5*time.Minute, "n")
		x.log.Must(t, register(job(t, "n", `"Spec": "*/7 * * * *"`)))
		if got := x.after(10*time.Minute, "n"); got != "420 840" {
			t.Errorf("after a change: %s", got)
		}
		x.log.Must(t, register(job(t, "n", `"Enabled": false, "Spec": "*/7 * * * *"`)))
		if got := x.after(time.Hour, "n"); got != "420 840" {
			t.Errorf("disabled: %s", got)
		}
		x.log.Must(t, register(job(t, "n", `"Spec": "*/10 * * * *"`)))
		if got := x.after(10*time.Minute, "n"); got != "420 840 4800" {
			t.Errorf("enabled: %s", got)
		}
		x.log.Must(t, &state.StopJob{Key: berth.JobKey{Namespace: berth.DefaultNamespace, ID: "n"}, Now: time.Now().UnixNano()})
		if got := x.after(time.Hour, "n"); got != "420 840 4800" {
			t.Errorf("stopped: %s", got)
		}
		s := x.store.Snapshot()
		if status, _ := s.Summary(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "n"}).Status(s.Job(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "n"})); status != berth.JobDead {
			t.Errorf("stopped it is %s", status)
		}
		x.log.Must(t, &state.StopJob{Key: berth.JobKey{Namespace: berth.DefaultNamespace, ID: "n"}, Purge: true, Now: time.Now().UnixNano()})
		x.after(time.Hour, "n")
	})
}

// A clock that is put back launches nothing twice; if it had been years ahead,
// times count from the present again.
func TestAClockThatIsPut(t *testing.T) {
	store, log := statetest.New(t, &state.RegisterJob{Job: job(t, "n", `"Spec": "0 * * * *"`), Now: start * int64(time.Second)})
	c := periodic.New([32]byte{})
	step := func(hours float64, want string) {
		t.Helper()
		now := time.Unix(start, 0).Add(time.Duration(hours * float64(time.Hour)))
		var got []string
		for range 3 {
			do, _ := c.Step(store.Snapshot(), now)
			if len(do) == 0 {
				break
			}
			log.Must(t, do...)
			for _, d := range do {
				got = append(got, fmt.Sprint((d.(*state.LaunchPeriodic).Due/int64(time.Second)-start)/3600))
			}
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("at hour %v: launches for %q, want %q", hours, g, want)
		}
	}
	const years = 2 * 365 * 24
	step(0.5, "")
	step(1.5, "1")
	step(0.5, "")
	step(1.2, "")
	step(2.2, "2")
	step(years, fmt.Sprint(years))
	step(3.5, "")
	step(4.1, "4")
	step(5.1, "5")
	step(years, fmt.Sprint(years)) // there is a child for this hour: the record alone is made
	if n := store.Snapshot().Count(state.Jobs); n != 6 {
		t.Errorf("%d jobs", n)
	}
}

// Commands that were refused, or lost, are not proposed again at once; after its
// own commands are applied the controller is silent.
func TestSilence(t *testing.T) {
	store, log := statetest.New(t, &state.RegisterJob{Job: job(t, "n", `"Spec": "0 * * * *"`), Now: start * int64(time.Second)})
	c := periodic.New([32]byte{})
	now := time.Unix(start, 0).Add(90 * time.Minute)
	first, again := c.Step(store.Snapshot(), now)
	if len(first) != 1 || !again.After(now) {
		t.Fatalf("%v, again %v", first, again)
	}
	if do, _ := c.Step(store.Snapshot(), now.Add(time.Second)); len(do) > 0 {
		t.Errorf("at once again: %v", do)
	}
	second, _ := c.Step(store.Snapshot(), now.Add(10*time.Second))
	if len(second) != 1 || second[0].(*state.LaunchPeriodic).Due != first[0].(*state.LaunchPeriodic).Due {
		t.Errorf("of nothing was heard, and then: %v", second)
	}
	log.Must(t, second...)
	if do, again := c.Step(store.Snapshot(), now.Add(20*time.Second)); len(do) > 0 || again.Unix() != start+7200 {
		t.Errorf("it goes on: %v, again %v", do, again)
	}
}

// Many jobs that are due at once are launched some at a time.
func TestMidnight(t *testing.T) {
	var cmds []state.Command
	for i := range 1000 {
		cmds = append(cmds, &state.RegisterJob{Job: job(t, fmt.Sprintf("n%d", i), `"Spec": "0 0 * * *"`), Now: start * int64(time.Second)})
	}
	store, log := statetest.New(t, cmds...)
	c := periodic.New([32]byte{})
	now := time.Unix(start+24*3600, 0)
	var sizes []int
	for {
		do, _ := c.Step(store.Snapshot(), now)
		if len(do) == 0 {
			break
		}
		sizes = append(sizes, len(do))
		log.Must(t, do...)
	}
	if !slices.Equal(sizes, []int{256, 256, 256, 232}) || store.Snapshot().Count(state.Jobs) != 2000 {
		t.Errorf("%v, %d jobs", sizes, store.Snapshot().Count(state.Jobs))
	}
}

// Whatever the clock and the leaders do, with old pictures and commands that
// come late: a time is launched once at most, in its zone, and what prohibits
// overlap never overlaps.
func TestOncePerTime(t *testing.T) {
	zones := []string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"}
	crons := []string{"30 2 * * *", "*/20 * * * *", "15 1,2,3 * * *", "*/30 1-3 * * *"}
	rapid.Check(t, func(t *rapid.T) {
		zone, spec := rapid.SampledFrom(zones).Draw(t, "zone"), rapid.SampledFrom(crons).Draw(t, "cron")
		overlap := rapid.Bool().Draw(t, "prohibit overlap")
		j, err := admit.ParseJob([]byte(fmt.Sprintf(`{"ID": "n", "Type": "batch", "Periodic": {"Spec": %q, "TimeZone": %q, "ProhibitOverlap": %v}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`, spec, zone, overlap)))
		if err != nil {
			t.Fatal(err)
		}
		times, err := cron.New(j.Periodic)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, rapid.SampledFrom([]time.Month{3, 4, 10, 11}).Draw(t, "month"), 1, 0, 0, 0, 0, time.UTC)
		s := state.New().Snapshot()
		apply := func(cmds ...state.Command) {
			tx := state.Begin(s)
			for _, c := range cmds {
				tx.Apply(c)
			}
			before, batch := s, tx.End()
			s = batch.Snapshot
			for _, v := range append(invariant.Changed(before, batch.Changes), invariant.Between(before, s)...) {
				t.Fatal(v)
			}
		}
		apply(&state.RegisterJob{Job: j, Now: now.UnixNano()})
		leaders := []*periodic.Controller{periodic.New([32]byte{1}), periodic.New([32]byte{2})}
		var late []state.Command
		seen := map[string]int{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 5, 19, 61, 600, 3000, -90}).Draw(t, "minutes")) * time.Minute)
			old := s
			c := leaders[rapid.IntRange(0, 1).Draw(t, "leader")]
			do, _ := c.Step(old, now)
			if rapid.IntRange(0, 3).Draw(t, "late") == 0 {
				late = append(late, do...)
				continue
			}
			apply(do...)
			if rapid.IntRange(0, 3).Draw(t, "now") == 0 {
				apply(late...)
			}
			if rapid.Bool().Draw(t, "finish") {
				for e := range s.OpenEvals(berth.EvalPending) {
					apply(&state.ApplyPlan{Eval: e.ID, Now: now.UnixNano(), End: &state.EvalEnd{Status: berth.EvalComplete}})
				}
			}
			alive := s.Summary(j.Key()).Children.Alive()
			if overlap && alive > 1 {
				t.Fatalf("%d children at once", alive)
			}
		}
		for e := range s.Evals() {
			if seen[e.Cause.ID]++; seen[e.Cause.ID] > 1 {
				t.Fatalf("%s was launched twice", e.Cause.ID)
			}
			due, err := time.Parse(time.RFC3339, e.Cause.ID)
			if err != nil || !times.Next(due.Add(-time.Second)).Equal(due) {
				t.Fatalf("%s is no time of %q in %s (%v)", e.Cause.ID, spec, zone, err)
			}
		}
		for _, v := range invariant.Check(s) {
			t.Fatal(v)
		}
	})
}

// A step costs what changed, however many jobs there are.
func BenchmarkStep(b *testing.B) {
	var cmds []state.Command
	for i := range 10_000 {
		cmds = append(cmds, &state.RegisterJob{Job: job(b, fmt.Sprintf("n%d", i), `"Spec": "0 0 * * *"`), Now: start * int64(time.Second)})
	}
	store, log := statetest.New(b, cmds...)
	c := periodic.New([32]byte{})
	now := time.Unix(start+60, 0)
	c.Step(store.Snapshot(), now)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		log.Must(b, &state.RegisterJob{Job: job(b, "n7", fmt.Sprintf(`"Spec": "%d 0 * * *"`, i%60)), Now: now.UnixNano()})
		snap := store.Snapshot()
		b.StartTimer()
		c.Step(snap, now)
	}
}
