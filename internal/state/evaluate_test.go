package state_test

import (
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// failing is a service job whose groups may be rescheduled, but for "never",
// with one instance of each: a has failed, b runs, never has failed.
func failing(t *testing.T) (*state.Store, *statetest.Log, map[string]*berth.Alloc) {
	t.Helper()
	const again = `"ReschedulePolicy":{"Attempts":1,"Interval":3600000000000,"Delay":60000000000,"DelayFunction":"constant","Unlimited":false}`
	j := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"a",`+again+`},{"Name":"b",`+again+`},
		{"Name":"never","ReschedulePolicy":{"Attempts":0,"Unlimited":false}}]}`)
	n := statetest.ID[berth.Node](1)
	store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), statetest.Register(j, 1), &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](1), Now: 1, End: &state.EvalEnd{Status: berth.EvalComplete},
		Place: []berth.Placement{{NodeID: n}, {Group: 1, NodeID: n}, {Group: 2, NodeID: n}},
	})
	report := &state.ReportAllocs{Node: n, Now: 2}
	for _, a := range groups(store.Snapshot()) {
		c := berth.ClientFailed
		if a.Group.Name == "b" {
			c = berth.ClientRunning
		}
		report.Updates = append(report.Updates, state.AllocUpdate{ID: a.ID, Client: c})
	}
	log.Must(t, report)
	return store, log, groups(store.Snapshot())
}

// groups returns the allocations that nothing replaces, by group.
func groups(s *state.Snapshot) map[string]*berth.Alloc {
	out := map[string]*berth.Alloc{}
	for a := range s.Allocs() {
		if a.Rest().Next.IsZero() {
			out[a.Group.Name] = a
		}
	}
	return out
}

func evaluate(eval int, force bool) *state.EvaluateJob {
	return &state.EvaluateJob{
		Key: berth.JobKey{Namespace: "default", ID: "web"}, Force: force, Now: 5,
		Eval: state.EvalSeed{ID: statetest.ID[berth.Eval](eval), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}},
	}
}

// An evaluation is raised and nothing else, unless by force: then what failed
// and may be rescheduled is marked in the same command, once.
func TestEvaluateJob(t *testing.T) {
	store, log, before := failing(t)
	log.Must(t, evaluate(20, false))
	s := store.Snapshot()
	e := s.Eval(statetest.ID[berth.Eval](20))
	if e == nil || e.Status != berth.EvalPending || e.TriggeredBy != berth.TriggerJobRegister || e.Cause.Kind != berth.CauseUser ||
		e.JobModifyIndex != s.Job(e.Key()).JobModifyIndex || e.CreateIndex != s.Index || e.CreateTime != 5 {
		t.Errorf("%+v", e)
	}
	for name, a := range groups(s) {
		if a != before[name] {
			t.Errorf("%s was changed without force", name)
		}
	}

	log.Must(t, evaluate(21, true))
	s = store.Snapshot()
	after := groups(s)
	if a := after["a"]; !a.Rest().ForceReschedule || a.ModifyIndex != s.Index || s.Eval(statetest.ID[berth.Eval](21)).CreateIndex != s.Index ||
		a.AllocModifyIndex != before["a"].AllocModifyIndex || a.ModifyTime != before["a"].ModifyTime {
		t.Errorf("%+v, %+v", a, a.More)
	}
	if after["b"] != before["b"] || after["never"] != before["never"] {
		t.Error("what runs, or is never rescheduled, was changed")
	}
	for _, v := range invariant.Check(s) {
		t.Error(v)
	}

	// Marked once, and of no meaning to what replaces it.
	log.Must(t, evaluate(22, true))
	if groups(store.Snapshot())["a"] != after["a"] {
		t.Error("it was marked twice")
	}
	log.Must(t, &state.ApplyPlan{Eval: statetest.ID[berth.Eval](22), Now: 6,
		Place: []berth.Placement{{NodeID: after["a"].NodeID, Previous: after["a"].ID, Resched: true}},
		Stop:  []berth.AllocStop{{ID: after["a"].ID, StopReason: berth.StopFailed}}})
	next := groups(store.Snapshot())["a"]
	if next.Rest().Previous != after["a"].ID || next.Rest().ForceReschedule {
		t.Errorf("%+v, %+v", next, next.More)
	}
	log.Must(t, &state.ReportAllocs{Node: next.NodeID, Now: 7, Updates: []state.AllocUpdate{{ID: next.ID, Client: berth.ClientFailed}}})
	log.Must(t, evaluate(23, false))
	if groups(store.Snapshot())["a"].Rest().ForceReschedule {
		t.Error("what failed since is placed again by force")
	}

	// Of a stopped job nothing is placed again.
	log.Must(t, &state.StopJob{Key: e.Key(), Now: 8}, evaluate(24, true))
	if groups(store.Snapshot())["a"].Rest().ForceReschedule || store.Snapshot().Eval(statetest.ID[berth.Eval](24)) == nil {
		t.Error("a stopped job was evaluated by force")
	}
}

func TestEvaluationsThatAreRefused(t *testing.T) {
	_, log, _ := failing(t)
	gone := evaluate(20, true)
	gone.Key.ID = "gone"
	refusedAs(t, log, gone, berth.NotFound, `job "gone" not found`)
	refusedAs(t, log, evaluate(1, true), berth.Conflict, "already-done")
	none := evaluate(20, true)
	none.Eval.ID = berth.EvalID{}
	refusedAs(t, log, none, berth.Invalid, "has no ID")
	for what, change := range map[string]func(*berth.Job){
		"periodic":      func(j *berth.Job) { j.Periodic = &berth.PeriodicConfig{Enabled: true} },
		"parameterized": func(j *berth.Job) { j.ParameterizedJob = &berth.ParameterizedConfig{} },
	} {
		j := statetest.Job(t, `{"ID":"begets","Type":"batch","TaskGroups":[{"Name":"g"}]}`)
		change(j)
		log.Must(t, &state.RegisterJob{Job: j, Now: 3})
		c := evaluate(20, true)
		c.Key = j.Key()
		refusedAs(t, log, c, berth.Invalid, `job "begets" is `+what)
		log.Must(t, &state.StopJob{Key: j.Key(), Purge: true, Now: 4})
	}
}
