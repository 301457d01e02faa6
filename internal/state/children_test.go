package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/admit"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

const second = int64(time.Second)

func parent(t testing.TB, id, more string) *berth.Job {
	return statetest.Job(t, fmt.Sprintf(`{"ID": %q, "Type": "batch", %s, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`, id, more))
}

func registerParent(j *berth.Job, now int64) *state.RegisterJob {
	return &state.RegisterJob{Job: j, Now: now}
}

func evalSeed(n int, trigger string) state.EvalSeed {
	return state.EvalSeed{ID: statetest.ID[berth.Eval](n), TriggeredBy: trigger, Cause: berth.Cause{Kind: berth.CausePeriodic, ID: "x"}}
}

func launch(id string, due, now int64, n int) *state.LaunchPeriodic {
	return &state.LaunchPeriodic{
		Key: berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(id)}, Due: due * second, Now: now * second, Eval: evalSeed(n, berth.TriggerPeriodicJob),
	}
}

func ended(n int) *state.ApplyPlan {
	return &state.ApplyPlan{Eval: statetest.ID[berth.Eval](n), Now: 1, End: &state.EvalEnd{Status: berth.EvalComplete}}
}

func key(id string) berth.JobKey {
	return berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(id)}
}

// apply applies commands, and says of each why it was refused.
func apply(t testing.TB, s *state.Snapshot, cmds ...state.Command) (*state.Snapshot, string) {
	t.Helper()
	tx := state.Begin(s)
	var why []string
	for _, c := range cmds {
		text := "ok"
		if r := tx.Apply(c); r.Err != nil {
			text = r.Err.Error()
		}
		why = append(why, text)
	}
	out := tx.Seal()
	for _, v := range invariant.Check(out) {
		t.Error(v)
	}
	return out, strings.Join(why, "\n")
}

// A time at which a job is due is decided once: launched, or left out because
// another child is not over.
func TestLaunches(t *testing.T) {
	base := state.New().Snapshot()
	j := parent(t, "nightly", `"Periodic": {"Spec": "* * * * *", "ProhibitOverlap": true}`)
	s, why := apply(t, base, registerParent(j, 100*second),
		launch("nightly", 60, 130, 1), launch("nightly", 120, 130, 2), launch("nightly", 120, 140, 3), launch("nightly", 60, 140, 4),
		launch("nightly", 180, 130, 5), launch("nightly", 180, 190, 6), ended(2), launch("nightly", 180, 190, 7), launch("nightly", 240, 250, 8))
	if want := strings.Join([]string{
		"ok",
		`already-done: job "nightly" is launched for times after 1970-01-01T00:01:40Z only`,
		"ok",
		`already-done: job "nightly" is launched for times after 1970-01-01T00:02:00Z only`,
		`already-done: job "nightly" is launched for times after 1970-01-01T00:02:00Z only`,
		`job "nightly" is due at 1970-01-01T00:03:00Z, which is in the future`,
		"ok", "ok",
		`already-done: job "nightly" is launched for times after 1970-01-01T00:03:00Z only`,
		"ok",
	}, "\n"); why != want {
		t.Errorf("%s\nwant\n%s", why, want)
	}
	sum := s.Summary(key("nightly"))
	l := sum.Launch
	if l.From != 100*second || l.Due != 240*second || l.Skipped != 180*second || l.Skips != 1 || l.Child != "nightly/periodic-240" {
		t.Errorf("the record is %+v", *l)
	}
	if sum.Children != (state.Children{Pending: 1, Dead: 1}) {
		t.Errorf("the children are %+v", sum.Children)
	}
	child := s.Job(key("nightly/periodic-120"))
	if child == nil || child.ParentID != "nightly" || child.Periodic != nil || !child.Schedulable() || child.Name != "nightly/periodic-120" || child.Version != 0 {
		t.Errorf("the child is %+v", child)
	}
	e := s.Eval(statetest.ID[berth.Eval](2))
	if e.CreateIndex != child.CreateIndex || e.JobModifyIndex != child.JobModifyIndex || e.JobUID != child.UID || e.TriggeredBy != berth.TriggerPeriodicJob {
		t.Errorf("its evaluation is %+v", e)
	}
	forced := launch("nightly", 250, 250, 9)
	forced.Force = true
	twice := launch("nightly", 250, 250, 10)
	twice.Force = true
	s, why = apply(t, s, forced, twice, launch("nightly", 250, 260, 11))
	if why != "ok\nalready-done: there is a job \"nightly/periodic-250\"\nok" {
		t.Error(why)
	}
	if l := s.Summary(key("nightly")).Launch; l.Due != 250*second || l.Child != "nightly/periodic-250" || s.Eval(statetest.ID[berth.Eval](11)) != nil {
		t.Errorf("after one that was forced the record is %+v", *l)
	}
}

// Times count from when they were said: an update that says others, or a job
// that goes on, does not make up for what was before.
func TestTimesCountFrom(t *testing.T) {
	s, _ := apply(t, state.New().Snapshot(), registerParent(parent(t, "n", `"Periodic": {"Spec": "* * * * *"}`), 100*second), launch("n", 120, 130, 1))
	from := func(what string, j *berth.Job, now, want int64) {
		t.Helper()
		if j != nil {
			var why string
			if s, why = apply(t, s, registerParent(j, now*second)); why != "ok" {
				t.Fatal(why)
			}
		}
		if l := s.Summary(key("n")).Launch; l.From != want*second || l.Due != 120*second {
			t.Errorf("%s: the record is %+v", what, *l)
		}
	}
	from("at first", nil, 0, 100)
	from("another priority", parent(t, "n", `"Priority": 60, "Periodic": {"Spec": "* * * * *"}`), 200, 100)
	from("another time", parent(t, "n", `"Periodic": {"Spec": "*/2 * * * *"}`), 300, 300)
	from("another zone", parent(t, "n", `"Periodic": {"Spec": "*/2 * * * *", "TimeZone": "Europe/Berlin"}`), 400, 400)
	off := parent(t, "n", `"Periodic": {"Enabled": false, "Spec": "*/2 * * * *", "TimeZone": "Europe/Berlin"}`)
	from("disabled", off, 500, 400)
	if _, why := apply(t, s, launch("n", 540, 550, 2)); why != `job "n" is periodic but not enabled, so it launches nothing` {
		t.Error(why)
	}
	from("enabled", parent(t, "n", `"Periodic": {"Spec": "*/2 * * * *", "TimeZone": "Europe/Berlin"}`), 600, 600)
	s, _ = apply(t, s, &state.StopJob{Key: key("n"), Now: 700 * second})
	from("stopped", nil, 0, 600)
	if _, why := apply(t, s, launch("n", 720, 730, 3)); why != `job "n" was stopped, so it launches nothing` {
		t.Error(why)
	}
	from("started", parent(t, "n", `"Periodic": {"Spec": "*/2 * * * *", "TimeZone": "Europe/Berlin"}`), 800, 800)
}

// The record of a clock that was years ahead does not hold the job up; that of
// one that was hours ahead does, so that nothing is launched twice.
func TestAClockThatWasWrong(t *testing.T) {
	day := int64(24 * 3600)
	s, why := apply(t, state.New().Snapshot(), registerParent(parent(t, "n", `"Periodic": {"Spec": "* * * * *"}`), 60*second),
		launch("n", 500*day, 500*day, 1), launch("n", 499*day, 499*day, 2), launch("n", 9*day, 9*day, 3), launch("n", 9*day, 9*day, 4))
	if lines := strings.Split(why, "\n"); lines[1] != "ok" || !strings.HasPrefix(lines[2], "already-done") || lines[3] != "ok" || !strings.HasPrefix(lines[4], "already-done") {
		t.Error(why)
	}
	if l := s.Summary(key("n")).Launch; l.Due != 9*day*second {
		t.Errorf("the record is %+v", *l)
	}
}

// A token is of one child, for as long as that is there.
func TestDispatch(t *testing.T) {
	j := parent(t, "encode", `"Meta": {"q": "low", "in": "default"}, "ParameterizedJob": {"Payload": "required", "MetaRequired": ["in"], "MetaOptional": ["q"]}`)
	n := 0
	dispatch := func(child, token string, change func(*state.DispatchJob)) *state.DispatchJob {
		n++
		c := &state.DispatchJob{
			Key: key("encode"), Child: berth.JobID("encode/dispatch-" + child), Token: token, Payload: []byte("film"), Meta: map[string]string{"in": child},
			Eval: evalSeed(n, berth.TriggerJobRegister), Now: 5,
		}
		if change != nil {
			change(c)
		}
		return c
	}
	s, why := apply(t, state.New().Snapshot(), registerParent(j, 1), dispatch("1", "", nil), dispatch("2", "t", nil), dispatch("3", "t", nil),
		dispatch("1", "", nil), dispatch("4", "", func(c *state.DispatchJob) { c.Payload, c.Meta = nil, map[string]string{"x": ""} }),
		dispatch("5", "u", func(c *state.DispatchJob) { c.Priority = 77 }))
	want := "ok\nok\nok\nok\nalready-done: there is a job \"encode/dispatch-1\"\n3 problems:\n  * Payload: is missing; the job requires one\n" +
		"  * Meta: the job requires in\n  * Meta: unknown keys x: want in, q\nok"
	if why != want {
		t.Errorf("%s\nwant\n%s", why, want)
	}
	child := s.Job(key("encode/dispatch-5"))
	if child.Priority != 77 || !child.Dispatched || !child.Schedulable() || string(child.Payload) != "film" || child.Meta["in"] != "5" || child.Meta["q"] != "low" || j.Meta["in"] != "default" {
		t.Errorf("the child is %+v", child)
	}
	if c := s.ChildByToken(key("encode"), "t"); c == nil || c.ID != "encode/dispatch-2" || s.Job(key("encode/dispatch-3")) != nil {
		t.Errorf("the child of the token is %+v", c)
	}
	s, why = apply(t, s, &state.StopJob{Key: key("encode/dispatch-2"), Purge: true, Now: 9}, dispatch("6", "t", nil),
		&state.RegisterJob{Job: child, Now: 9}, dispatch("7", "", func(c *state.DispatchJob) { c.Key = key("encode/dispatch-1") }),
		&state.StopJob{Key: key("encode"), Now: 9}, dispatch("8", "", nil), dispatch("9", "t", nil))
	want = "ok\nok\njob \"encode/dispatch-5\" was dispatched and cannot be changed; dispatch another\n" +
		"job \"encode/dispatch-1\" is not parameterized, so it cannot be dispatched\nok\njob \"encode\" was stopped, so it cannot be dispatched\nok"
	if why != want {
		t.Errorf("%s\nwant\n%s", why, want)
	}
	if c := s.ChildByToken(key("encode"), "t"); c == nil || c.ID != "encode/dispatch-6" {
		t.Errorf("after a purge the child of the token is %+v", c)
	}
	if got := s.Summary(key("encode")).Children; got != (state.Children{Pending: 3}) {
		t.Errorf("the children are %+v", got)
	}
}

// A child has scaling policies of its own; its parent's stay as they are.
func TestPoliciesOfChildren(t *testing.T) {
	j := parent(t, "n", `"Periodic": {"Spec": "* * * * *"}`)
	j.TaskGroups[0].Scaling = &berth.ScalingPolicy{Min: 1, Max: 3, Enabled: true}
	s, why := apply(t, state.New().Snapshot(), registerParent(j, 1), launch("n", 60, 60, 1))
	if why != "ok\nok" {
		t.Fatal(why)
	}
	ids := map[string]bool{}
	for _, id := range []string{"n", "n/periodic-60"} {
		p := s.Job(key(id)).TaskGroups[0].Scaling
		if ids[p.ID] || p.ID == "" || p.Max != 3 || p.Target[berth.TargetJob] != id {
			t.Errorf("the policy of %s is %+v", id, *p)
		}
		ids[p.ID] = true
	}
}

// What a job is to its relatives does not change.
func TestKindsStay(t *testing.T) {
	_, why := apply(t, state.New().Snapshot(), registerParent(parent(t, "a", `"Periodic": {"Spec": "* * * * *"}`), 1),
		registerParent(parent(t, "a", `"Priority": 50`), 2), registerParent(parent(t, "a", `"ParameterizedJob": {}`), 2))
	if want := "ok\njob \"a\" is periodic and cannot become neither periodic nor parameterized; purge it first\n" +
		"job \"a\" is periodic and cannot become parameterized; purge it first"; why != want {
		t.Error(why)
	}
}

// Whatever is launched, dispatched, ended, stopped, purged and made again:
// counts and indexes are those of a recount, and a state that was saved and
// loaded goes on in the same way.
func TestFamilies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state.New().Snapshot()
		var now int64
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 90).Draw(t, "time")
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "parent")
			more := `"ParameterizedJob": {}`
			if id == "a" {
				more = fmt.Sprintf(`"Priority": %d, "Periodic": {"Spec": "* * * * *", "ProhibitOverlap": %v}`, rapid.IntRange(1, 3).Draw(t, "priority"), rapid.Bool().Draw(t, "overlap"))
			}
			var any berth.JobKey
			for j := range s.Jobs("*", "") {
				if any.ID == "" || rapid.Bool().Draw(t, "this") {
					any = j.Key()
				}
			}
			var c state.Command
			switch rapid.IntRange(0, 8).Draw(t, "kind") {
			case 0:
				c = registerParent(familyJob(t, id, more), now*second)
			case 1, 2, 3:
				l := launch(id, now/60*60, now, n+1)
				l.Force = rapid.IntRange(0, 4).Draw(t, "force") == 0
				c = l
			case 4, 5:
				c = &state.DispatchJob{
					Key: key(id), Child: berth.JobID(fmt.Sprintf("%s/dispatch-%d", id, rapid.IntRange(0, 9).Draw(t, "child"))), Eval: evalSeed(n+1, berth.TriggerJobRegister), Now: now,
					Token: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "token"),
				}
			case 6:
				for e := range s.OpenEvals(berth.EvalPending) {
					c = &state.ApplyPlan{Eval: e.ID, Now: now, End: &state.EvalEnd{Status: berth.EvalComplete}}
				}
			case 7:
				stop := &state.StopJob{Key: any, Purge: rapid.Bool().Draw(t, "purge"), Now: now}
				if j := s.Job(any); j != nil && j.Schedulable() {
					stop.Eval = evalSeed(n+1, berth.TriggerJobDeregister)
				}
				c = stop
			case 8:
				d := &state.DeleteRows{}
				for j := range s.Jobs("*", "") {
					if state.NewSweep(s).Job(j) == "" {
						d.Jobs = append(d.Jobs, state.JobRef{Key: j.Key(), UID: j.UID})
					}
				}
				c = d
			}
			if c == nil {
				continue
			}
			before, tx := s, state.Begin(s)
			tx.Apply(c)
			batch := tx.End()
			s = batch.Snapshot
			for _, v := range slices.Concat(invariant.Check(s), invariant.Changed(before, batch.Changes), invariant.Between(before, s)) {
				t.Fatalf("after %T: %v", c, v)
			}
			if rapid.IntRange(0, 5).Draw(t, "save") == 0 {
				var b bytes.Buffer
				if err := s.Save(&b); err != nil {
					t.Fatal(err)
				}
				loaded, err := state.Load(&b)
				if err != nil || loaded.Hash() != s.Hash() {
					t.Fatalf("the state is another after it was loaded: %v", err)
				}
				s = loaded
			}
		}
	})
}

func familyJob(t *rapid.T, id, more string) *berth.Job {
	j, err := admit.ParseJob([]byte(fmt.Sprintf(`{"ID": %q, "Type": "batch", %s, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`, id, more)))
	if err != nil {
		t.Fatal(err)
	}
	return j
}
