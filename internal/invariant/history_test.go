package invariant_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// The jobs of a state in which much happened over time.
var (
	web     = key("web")     // a service, at version 7, whose deployment is under way
	probe   = key("probe")   // of type system, on nodes 1 and 2
	sums    = key("sums")    // a batch job of one instance, which finished
	nightly = key("nightly") // periodic, with a child
	resize  = key("resize")  // parameterized, with two children
)

func key(id berth.JobID) berth.JobKey {
	return berth.JobKey{Namespace: berth.DefaultNamespace, ID: id}
}

const webText = `{"ID":"web","Meta":{"v":"VERSION"},"TaskGroups":[{"Name":"g","Count":3,
	"Update":{"MaxParallel":1,"Canary":1},"ReschedulePolicy":{"Attempts":1,"Interval":3600000000000,"Delay":5000000000,"DelayFunction":"constant","Unlimited":false},
	"Scaling":{"Min":1,"Max":9},"Resources":{"CPU":100,"MemoryMB":100}}]}`

// later is a sound state in which jobs changed over time: versions with texts
// and a tag, a canary beside what it is to replace, an instance that failed and
// was replaced, families, and drains that are under way and done.
func later(t *testing.T) *state.Snapshot {
	t.Helper()
	tx := state.Begin(state.New().Snapshot())
	apply := func(cmds ...state.Command) {
		t.Helper()
		for _, c := range cmds {
			if r := tx.Apply(c); r.Err != nil {
				t.Fatalf("%T: %v", c, r.Err)
			}
		}
	}
	node := func(n int) berth.NodeID { return statetest.ID[berth.Node](n) }
	plan := func(eval int, version uint64, place ...berth.Placement) *state.ApplyPlan {
		return &state.ApplyPlan{Eval: statetest.ID[berth.Eval](eval), JobVersion: version, Place: place, Now: int64(eval), End: &state.EvalEnd{Status: berth.EvalComplete}}
	}
	report := func(status berth.ClientStatus, a *berth.Alloc) *state.ReportAllocs {
		return &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: status}}, Now: 99}
	}
	job := func(text string) *berth.Job { return statetest.Job(t, text) }
	seed := func(n int) state.EvalSeed {
		return state.EvalSeed{ID: statetest.ID[berth.Eval](n), TriggeredBy: berth.TriggerPeriodicJob, Cause: berth.Cause{Kind: berth.CauseUser}}
	}
	for n := range 4 {
		apply(statetest.AddNode(n+1, 4000, 4000))
	}
	register := func(version string, eval int) {
		c := statetest.Register(job(strings.Replace(webText, "VERSION", version, 1)), eval)
		c.Submission = &berth.JobSubmission{Source: version, Format: "hcl2"}
		apply(c)
	}
	register("0", 100)
	first := plan(100, 0, berth.Placement{NodeID: node(1)}, berth.Placement{Index: 1, NodeID: node(2)}, berth.Placement{Index: 2, NodeID: node(1)})
	first.Explain = map[string]*berth.AllocMetric{"g": {NodesEvaluated: 4}}
	apply(first, &state.TagVersion{Key: web, Name: "first"})
	failed := allocOf(tx.Snapshot, web, 2)
	apply(report(berth.ClientFailed, failed))
	for e := range tx.OpenEvals(berth.EvalPending) {
		p := plan(0, 0, berth.Placement{Index: 2, NodeID: node(2), Previous: failed.ID, Resched: true})
		p.Eval, p.Stop = e.ID, []berth.AllocStop{{ID: failed.ID, StopReason: berth.StopFailed}}
		p.Now = time.Minute.Nanoseconds()
		apply(p)
	}
	for n := range 7 {
		register(string(rune('1'+n)), 101+n)
	}
	step := plan(107, 7, berth.Placement{NodeID: node(2), Canary: true})
	step.Deploy = &berth.Deployment{
		ID: statetest.ID[berth.Deployment](1), Namespace: web.Namespace, JobID: web.ID, JobUID: tx.Job(web).UID, JobVersion: 7, Status: berth.DeploymentRunning,
		TaskGroups: map[string]*berth.DeploymentState{"g": {DesiredTotal: 3, DesiredCanaries: 1}},
	}
	apply(step)
	for n := 101; n < 107; n++ {
		apply(plan(n, 7))
	}
	apply(statetest.Register(job(`{"ID":"probe","Type":"system","TaskGroups":[{"Name":"g","Resources":{"CPU":100,"MemoryMB":100}}]}`), 120),
		plan(120, 0, berth.Placement{NodeID: node(1)}, berth.Placement{NodeID: node(2)}),
		statetest.Register(job(`{"ID":"sums","Type":"batch","TaskGroups":[{"Name":"g","Resources":{"CPU":100,"MemoryMB":100}}]}`), 130),
		plan(130, 0, berth.Placement{NodeID: node(1)}))
	apply(report(berth.ClientComplete, allocOf(tx.Snapshot, sums, 0)))
	parents := []*berth.Job{
		job(`{"ID":"nightly","Type":"batch","Periodic":{"Spec":"* * * * *","ProhibitOverlap":true},"TaskGroups":[{"Name":"g"}]}`),
		job(`{"ID":"resize","Type":"batch","ParameterizedJob":{},"TaskGroups":[{"Name":"g"}]}`),
	}
	minute := time.Minute.Nanoseconds()
	apply(&state.RegisterJob{Job: parents[0], Now: 1}, &state.RegisterJob{Job: parents[1], Now: 1},
		&state.LaunchPeriodic{Key: nightly, Due: minute, Eval: seed(140), Now: minute},
		&state.DispatchJob{Key: resize, Child: "resize/dispatch-1", Token: "x", Eval: seed(141), Now: minute},
		&state.DispatchJob{Key: resize, Child: "resize/dispatch-2", Token: "y", Eval: seed(142), Now: minute},
		&state.UpdateDrain{ID: node(3), Spec: &berth.DrainSpec{}, Now: minute}, &state.FinishDrain{ID: node(3), Now: minute},
		&state.UpdateDrain{ID: node(4), Spec: &berth.DrainSpec{}, Now: minute})
	return tx.Seal()
}

// allocOf returns the newest allocation of an instance that has not been
// replaced and is no canary.
func allocOf(s *state.Snapshot, k berth.JobKey, index uint32) (newest *berth.Alloc) {
	for a := range s.AllocsOf(k) {
		if d := a.Rest().DeploymentStatus; a.Index == index && a.Rest().Next.IsZero() && (d == nil || !d.Canary) && (newest == nil || newest.CreateIndex < a.CreateIndex) {
			newest = a
		}
	}
	return newest
}

func nodeNo(s *state.Snapshot, n int) *berth.Node { return s.Node(statetest.ID[berth.Node](n)) }

func deployment(s *state.Snapshot) *berth.Deployment {
	return s.Deployment(statetest.ID[berth.Deployment](1))
}

func child(s *state.Snapshot, n string) *berth.Job {
	return s.Job(key(berth.JobID("resize/dispatch-" + n)))
}

// more gives an allocation a row of its own to change, in place.
func more(a *berth.Alloc, change func(*berth.AllocMore)) {
	b, m := a.With()
	change(m)
	*a = *b
}

func TestLaterStateIsSound(t *testing.T) {
	s := later(t)
	for _, v := range slices.Concat(invariant.Check(s), invariant.Scheduled(s), invariant.Between(s, s), invariant.Step(s, s), invariant.Changed(s, nil)) {
		t.Error(v)
	}
	if s.Job(web).Version != 7 || s.Count(state.Deployments) != 1 || s.Summary(nightly).Children.Pending != 1 || s.Reschedules(s.Job(web).UID, "g", 2) == nil {
		t.Error("the state is not what its comment says")
	}
}

// What is wrong with jobs, deployments, families and drains is found under its
// number.
func TestCheckFindsOverTime(t *testing.T) {
	for _, x := range []struct {
		what, id string
		plant    func(s *state.Snapshot)
	}{
		{"a list that lacks an evaluation", "I-03", func(s *state.Snapshot) { eval(s, 107).Status = berth.EvalPending }},
		{"a list of what is not open", "I-03", func(s *state.Snapshot) { eval(s, 140).Status = berth.EvalComplete }},
		{"a name that two have", "I-15", func(s *state.Snapshot) { allocOf(s, web, 1).Index = 0 }},
		{"a name beyond the count", "I-15", func(s *state.Snapshot) { allocOf(s, web, 1).Index = 3 }},
		{"a replacement that is not pointed to", "I-17", func(s *state.Snapshot) {
			more(s.Alloc(allocOf(s, web, 2).Rest().Previous), func(m *berth.AllocMore) { m.Next = berth.AllocID{} })
		}},
		{"one that is replaced by what replaces another", "I-17", func(s *state.Snapshot) {
			more(allocOf(s, web, 2), func(m *berth.AllocMore) { m.Previous = allocOf(s, web, 1).ID })
		}},
		{"a chain that leads back", "I-17", func(s *state.Snapshot) {
			a := allocOf(s, web, 2)
			s.Alloc(a.Rest().Previous).CreateIndex = a.CreateIndex
		}},
		{"a replacement of another instance", "I-17", func(s *state.Snapshot) { s.Alloc(allocOf(s, web, 2).Rest().Previous).Index = 1 }},
		{"what is unknown since never", "I-18", func(s *state.Snapshot) { allocOf(s, web, 1).Client = berth.ClientUnknown }},
		{"two of a system job on a node", "I-19", func(s *state.Snapshot) {
			on := slices.Collect(s.AllocsOf(probe))
			on[0].NodeID = on[1].NodeID
		}},
		{"a list that lacks what runs on every node", "I-19", func(s *state.Snapshot) { s.Job(sums).Type = berth.TypeSysbatch }},
		{"a history that is out of order", "I-20", func(s *state.Snapshot) { s.JobVersion(web, 4).Version = 9 }},
		{"a history of which the newest is another", "I-20", func(s *state.Snapshot) { s.JobVersion(web, 7).Version = 8; s.JobVersion(web, 6).Version = 10 }},
		{"a version of another job", "I-21", func(s *state.Snapshot) { s.JobVersion(web, 4).CreateIndex++ }},
		{"more versions than are kept", "I-21", func(s *state.Snapshot) { s.JobVersion(web, 0).VersionTag = nil }},
		{"two versions of one tag", "I-21", func(s *state.Snapshot) { s.JobVersion(web, 4).VersionTag = s.JobVersion(web, 0).VersionTag }},
		{"a version of a job that is gone", "I-22", func(s *state.Snapshot) { s.JobVersion(web, 4).ID = "gone" }},
		{"a text of a version that is gone", "I-22", func(s *state.Snapshot) { s.Submission(web, 4).Version = 1 }},
		{"a text of another job", "I-22", func(s *state.Snapshot) { s.Submission(web, 4).Key.ID = "gone" }},
		{"an explanation of nothing", "I-22", func(s *state.Snapshot) {
			for x := range s.Explanations() {
				x.Eval[0] ^= 1
			}
		}},
		{"reschedules of an earlier job", "I-22", func(s *state.Snapshot) { s.Reschedules(s.Job(web).UID, "g", 2).UID.Index++ }},
		{"a deployment of an earlier job", "I-22", func(s *state.Snapshot) { deployment(s).JobUID.Index++ }},
		{"a periodic job without a record", "I-22", func(s *state.Snapshot) { s.Summary(nightly).Launch = nil }},
		{"a list of policies that are gone", "I-22", func(s *state.Snapshot) { s.Job(web).TaskGroups[0].Scaling = nil }},
		{"a token that two children have", "I-23", func(s *state.Snapshot) { child(s, "2").DispatchIdempotencyToken = "x" }},
		{"a child that its parent does not find", "I-23", func(s *state.Snapshot) { child(s, "2").ParentID = "other" }},
		{"a child that no launch made", "I-23", func(s *state.Snapshot) { s.Summary(nightly).Launch.Index = 1 }},
		{"a child of no time", "I-23", func(s *state.Snapshot) { child(s, "2").Dispatched = false }},
		{"a list of what is not periodic", "I-23", func(s *state.Snapshot) { s.Job(nightly).Periodic = nil }},
		{"a wrong count", "I-24", func(s *state.Snapshot) { s.Summary(web).Live++ }},
		{"a count below nothing", "I-24", func(s *state.Snapshot) { s.Summary(web).Groups[0].Queued = -1 }},
		{"a wrong count of children", "I-24", func(s *state.Snapshot) { s.Summary(resize).Children.Dead++ }},
		{"a deployment of an odd status", "I-25", func(s *state.Snapshot) { deployment(s).Status = "odd" }},
		{"a list of what has ended", "I-25", func(s *state.Snapshot) { deployment(s).Status = berth.DeploymentFailed }},
		{"a deployment of a version to come", "I-25", func(s *state.Snapshot) { deployment(s).JobVersion = 8 }},
		{"a canary that was promoted", "I-25", func(s *state.Snapshot) { deployment(s).TaskGroups["g"].Promoted = true }},
		{"a wrong count of what was placed", "I-26", func(s *state.Snapshot) { deployment(s).TaskGroups["g"].PlacedAllocs++ }},
		{"a wrong count of what is healthy", "I-26", func(s *state.Snapshot) { deployment(s).TaskGroups["g"].HealthyAllocs++ }},
		{"a count below nothing", "I-26", func(s *state.Snapshot) { deployment(s).TaskGroups["g"].UnhealthyAllocs = -1 }},
		{"a canary of another group", "I-26", func(s *state.Snapshot) {
			deployment(s).TaskGroups["g"].PlacedCanaries = []berth.AllocID{allocOf(s, web, 1).ID}
		}},
		{"a node of an odd status", "I-28", func(s *state.Snapshot) { nodeNo(s, 1).Status = "odd" }},
		{"a node of an odd eligibility", "I-28", func(s *state.Snapshot) { nodeNo(s, 3).SchedulingEligibility = "odd" }},
		{"a node that is drained and takes work", "I-28", func(s *state.Snapshot) { nodeNo(s, 4).SchedulingEligibility = berth.NodeEligible }},
		{"a drain whose record says that it is done", "I-28", func(s *state.Snapshot) { nodeNo(s, 4).LastDrain.Status = berth.DrainComplete }},
		{"a drain that is not listed", "I-28", func(s *state.Snapshot) { nodeNo(s, 1).DrainStrategy = &berth.DrainStrategy{} }},
		{"a drain that is done beside what runs", "I-29", func(s *state.Snapshot) { drained(s, s.Index) }},
	} {
		s := later(t)
		x.plant(s)
		expect(t, x.what, x.id, invariant.Check(s))
	}
}

// drained says of node 1, on which things run, that its drain was done at an
// index.
func drained(s *state.Snapshot, index uint64) {
	n := nodeNo(s, 1)
	n.LastDrain = &berth.DrainMetadata{Status: berth.DrainComplete}
	n.Events = append(n.Events, berth.NodeEvent{Subsystem: berth.NodeEventDrain, CreateIndex: index})
}

// What a node got after its drain was done is no matter.
func TestPlacedAfterADrain(t *testing.T) {
	s := later(t)
	drained(s, 2)
	if v := invariant.Check(s); v != nil {
		t.Error(v)
	}
}

// What schedulers must not leave behind is found under its number.
func TestScheduledFinds(t *testing.T) {
	for _, x := range []struct {
		what, id string
		plant    func(s *state.Snapshot)
	}{
		{"more than the job wants", "I-16", func(s *state.Snapshot) { s.Job(web).TaskGroups[0].Count = 2 }},
		{"something of a job that was stopped", "I-16", func(s *state.Snapshot) { s.Job(probe).Stop = true }},
		{"something of an earlier job", "I-16", func(s *state.Snapshot) {
			a := allocOf(s, web, 1)
			a.Job = altered(a.Job, func(j *berth.Job) { j.UID.Index-- })
		}},
		{"more replacements than the policy allows", "I-17", func(s *state.Snapshot) {
			r := s.Reschedules(s.Job(web).UID, "g", 2)
			r.Events = append(r.Events, r.Events[0])
			r.Events[1].RescheduleTime += time.Minute.Nanoseconds()
		}},
		{"a second run of what finished", "I-19", func(s *state.Snapshot) {
			first, second, like := allocOf(s, web, 0), allocOf(s, web, 1), allocOf(s, sums, 0)
			for _, a := range []*berth.Alloc{first, second} {
				a.Job, a.Group, a.Index = like.Job, like.Group, 0
			}
			first.Client, first.ModifyIndex = berth.ClientComplete, second.CreateIndex
		}},
		{"a deployment of an older version", "I-25", func(s *state.Snapshot) { deployment(s).JobVersion = 6 }},
		{"more that is unproven than may be", "I-27", func(s *state.Snapshot) {
			old := s.Alloc(allocOf(s, web, 2).Rest().Previous)
			more(old, func(m *berth.AllocMore) { m.StopReason = berth.StopReplaced })
			before := *old.Job
			before.Version = deployment(s).JobVersion - 1
			old.Job = &before
			for _, i := range []uint32{0, 1} {
				a := allocOf(s, web, i)
				more(a, func(m *berth.AllocMore) { m.DeploymentID, m.Previous = deployment(s).ID, old.ID })
				a.CreateIndex = s.Index
			}
		}},
	} {
		s := later(t)
		x.plant(s)
		expect(t, x.what, x.id, invariant.Scheduled(s))
	}
}

// Replacements that no policy counts are no violation: one that a user wanted,
// one long ago, and one under an earlier version.
func TestScheduledCountsWhatPoliciesCount(t *testing.T) {
	for _, change := range []func(s *state.Snapshot, r *state.Reschedules){
		func(s *state.Snapshot, r *state.Reschedules) {
			more(s.Alloc(r.Events[0].PrevAllocID), func(m *berth.AllocMore) { m.ForceReschedule = true })
		},
		func(_ *state.Snapshot, r *state.Reschedules) { r.Events[1].RescheduleTime += time.Hour.Nanoseconds() },
		func(s *state.Snapshot, r *state.Reschedules) { s.Job(web).SubmitTime = r.Events[0].RescheduleTime },
	} {
		s := later(t)
		r := s.Reschedules(s.Job(web).UID, "g", 2)
		r.Events = append(r.Events, r.Events[0])
		change(s, r)
		if v := invariant.Scheduled(s); v != nil {
			t.Error(v)
		}
	}
}

// change is a change of a row by a command at index 100.
func change(table state.Table, by state.Command, old, new any) state.Change {
	return state.Change{Table: table, By: state.NumberOf(by), Index: 100, Old: old, New: new}
}

// altered returns a copy of a row with something else in it.
func altered[T any](old *T, alter func(*T)) *T {
	c := *old
	alter(&c)
	return &c
}

// What commands must not do to jobs, deployments, families and drains is found
// under its number.
func TestChangedFindsOverTime(t *testing.T) {
	type changes = []state.Change
	next := func(j *berth.Job) { j.Version++ }
	launch := func(s *state.Snapshot, alter func(*state.Launch)) changes {
		old := s.Summary(nightly)
		return changes{change(state.Summaries, &state.LaunchPeriodic{}, old, altered(old, func(n *state.Summary) { n.Launch = altered(n.Launch, alter) }))}
	}
	drain := func(n *berth.Node, ignore bool) changes {
		old := altered(n, func(n *berth.Node) {
			n.DrainStrategy = &berth.DrainStrategy{DrainSpec: berth.DrainSpec{IgnoreSystemJobs: ignore}}
		})
		return changes{change(state.Nodes, &state.FinishDrain{}, old, altered(n, func(n *berth.Node) { n.LastDrain = &berth.DrainMetadata{Status: berth.DrainComplete} }))}
	}
	for _, x := range []struct {
		what, id string // "" is all well
		plant    func(s *state.Snapshot) changes
	}{
		{"a version after the other", "", func(s *state.Snapshot) changes {
			return changes{change(state.Jobs, &state.TagVersion{}, s.Job(web), altered(s.Job(web), next))}
		}},
		{"two versions by one command", "I-20", func(s *state.Snapshot) changes {
			v8 := altered(s.Job(web), next)
			return changes{change(state.Jobs, &state.FailDeployment{}, s.Job(web), v8), change(state.Jobs, &state.FailDeployment{}, v8, altered(v8, next))}
		}},
		{"stable by hand", "", func(s *state.Snapshot) changes {
			return changes{change(state.Jobs, &state.SetJobStability{}, s.Job(web), altered(s.Job(web), func(j *berth.Job) { j.Stable = true }))}
		}},
		{"stable because its deployment was successful", "", func(s *state.Snapshot) changes {
			return changes{
				change(state.Deployments, &state.ApplyPlan{}, deployment(s), altered(deployment(s), func(d *berth.Deployment) { d.Status = berth.DeploymentSuccessful })),
				change(state.Jobs, &state.ApplyPlan{}, s.Job(web), altered(s.Job(web), func(j *berth.Job) { j.Stable = true })),
			}
		}},
		{"stable though its deployment goes on", "I-21", func(s *state.Snapshot) changes {
			return changes{change(state.Jobs, &state.ApplyPlan{}, s.Job(web), altered(s.Job(web), func(j *berth.Job) { j.Stable = true }))}
		}},
		{"back to what it was", "", func(s *state.Snapshot) changes {
			return changes{change(state.Jobs, &state.FailDeployment{}, s.Job(web), altered(s.Job(web), func(j *berth.Job) {
				*j = *s.JobVersion(web, 5)
				j.Version = 8
			}))}
		}},
		{"back to what it never was", "I-21", func(s *state.Snapshot) changes {
			return changes{change(state.Jobs, &state.FailDeployment{}, s.Job(web), altered(s.Job(web), func(j *berth.Job) { j.Version, j.Priority = 8, 77 }))}
		}},
		{"back to what an earlier job was", "I-21", func(s *state.Snapshot) changes {
			s.JobVersion(web, 5).UID.Index++
			return changes{change(state.Jobs, &state.FailDeployment{}, s.Job(web), altered(s.Job(web), func(j *berth.Job) { j.Version, j.Meta = 8, s.JobVersion(web, 5).Meta }))}
		}},
		{"a launch beside what runs, by hand", "", func(s *state.Snapshot) changes {
			return launch(s, func(l *state.Launch) { l.Index = 100 })
		}},
		{"a launch beside what runs", "I-23", func(s *state.Snapshot) changes {
			return launch(s, func(l *state.Launch) { l.Index, l.Due = 100, l.Due+1 })
		}},
		{"a time that is due again", "I-23", func(s *state.Snapshot) changes {
			return launch(s, func(l *state.Launch) { l.Due-- })
		}},
		{"a deployment that goes on again", "I-25", func(s *state.Snapshot) changes {
			ended := altered(deployment(s), func(d *berth.Deployment) { d.Status = berth.DeploymentFailed })
			return changes{change(state.Deployments, &state.ApplyPlan{}, ended, deployment(s))}
		}},
		{"a deployment that is not promoted any more", "I-25", func(s *state.Snapshot) changes {
			old := altered(deployment(s), func(d *berth.Deployment) {
				d.TaskGroups = map[string]*berth.DeploymentState{"g": {Promoted: true}}
			})
			return changes{change(state.Deployments, &state.ApplyPlan{}, old, deployment(s))}
		}},
		{"a deployment of an earlier version", "I-25", func(s *state.Snapshot) changes {
			return changes{change(state.Deployments, &state.ApplyPlan{}, deployment(s), altered(deployment(s), func(d *berth.Deployment) { d.JobVersion = 6 }))}
		}},
		{"the drain of a node that is empty is done", "", func(s *state.Snapshot) changes { return drain(nodeNo(s, 3), false) }},
		{"the drain of a node is done where something runs", "I-29", func(s *state.Snapshot) changes { return drain(nodeNo(s, 1), false) }},
		{"the drain of a node is done where a system job runs", "I-29", func(s *state.Snapshot) changes { return drain(onlySystem(s), false) }},
		{"the drain of a node is done where a system job is to stay", "", func(s *state.Snapshot) changes { return drain(onlySystem(s), true) }},
		{"what runs is replaced", "I-15", func(s *state.Snapshot) changes { return beside(s, false, true) }},
		{"what leaves is replaced before it has left", "I-15", func(s *state.Snapshot) changes { return beside(s, true, false) }},
		{"what leaves when its replacement is up, as the newest version says", "", func(s *state.Snapshot) changes { return beside(s, true, true) }},
		{"an allocation that runs is deleted", "I-31", func(s *state.Snapshot) changes {
			return changes{change(state.Allocs, &state.DeleteRows{}, allocOf(s, web, 1), nil)}
		}},
		{"an evaluation that is open is deleted", "I-31", func(s *state.Snapshot) changes {
			return changes{change(state.Evals, &state.DeleteRows{}, eval(s, 140), nil)}
		}},
		{"a node that is up is deleted", "I-31", func(s *state.Snapshot) changes {
			return changes{change(state.Nodes, &state.DeleteRows{}, nodeNo(s, 3), nil)}
		}},
		{"a node that has something is deleted", "I-31", func(s *state.Snapshot) changes {
			return changes{change(state.Nodes, &state.DeleteRows{}, altered(nodeNo(s, 1), func(n *berth.Node) { n.Status = berth.NodeDown }), nil)}
		}},
		{"a node that is empty is deleted", "", func(s *state.Snapshot) changes {
			return changes{change(state.Nodes, &state.DeleteRows{}, altered(nodeNo(s, 3), func(n *berth.Node) { n.Status = berth.NodeDown }), nil)}
		}},
		{"a deployment that goes on is deleted", "I-31", func(s *state.Snapshot) changes {
			return changes{change(state.Deployments, &state.DeleteRows{}, deployment(s), nil)}
		}},
		{"a deployment goes with its job", "", func(s *state.Snapshot) changes {
			return changes{change(state.Deployments, &state.DeleteRows{}, deployment(s), nil), change(state.Jobs, &state.DeleteRows{}, s.Job(web), nil)}
		}},
		{"too much is deleted at once", "I-31", func(s *state.Snapshot) (out changes) {
			for n := range state.MaxDeletes + 1 {
				e := withID(eval(s, 107), 1000+n)
				out = append(out, change(state.Evals, &state.DeleteRows{}, &e, nil))
			}
			return out
		}},
	} {
		s := later(t)
		found := invariant.Changed(s, x.plant(s))
		if x.id == "" {
			if found != nil {
				t.Errorf("%s: %v", x.what, found)
			}
			continue
		}
		expect(t, x.what, x.id, found)
	}
}

// beside places an instance beside the one that it replaces, which may be about
// to leave its node, and have a newest version that lets it wait.
func beside(s *state.Snapshot, leaves, waits bool) []state.Change {
	old := allocOf(s, web, 1)
	more(old, func(m *berth.AllocMore) { m.Migrate = leaves })
	s.Job(web).TaskGroups[0].Migrate = &berth.MigrateStrategy{StartFirst: waits}
	a := altered(old, func(a *berth.Alloc) { a.ID, a.EvalID = statetest.ID[berth.Alloc](77), eval(s, 140).ID })
	more(a, func(m *berth.AllocMore) { m.Previous = old.ID })
	return []state.Change{change(state.Allocs, &state.ApplyPlan{}, nil, a)}
}

// When a job is purged, its deployments go at once, and nobody knows any more
// which of its allocations shared their names rightly.
func TestPurgedAfterPromotion(t *testing.T) {
	tx := state.Begin(later(t))
	d := deployment(tx.Snapshot)
	canary := d.TaskGroups["g"].PlacedCanaries
	for _, c := range []state.Command{
		&state.ReportAllocs{Node: tx.Alloc(canary[0]).NodeID, Updates: []state.AllocUpdate{{ID: canary[0], Client: berth.ClientRunning}}, Now: 1},
		&state.SetAllocHealth{ID: d.ID, Healthy: canary, Now: 2}, &state.PromoteDeployment{ID: d.ID, Now: 3},
		&state.StopJob{Key: web, Purge: true, Now: 4},
	} {
		if r := tx.Apply(c); r.Err != nil {
			t.Fatalf("%T: %v", c, r.Err)
		}
		if found := invariant.Check(tx.Seal()); found != nil {
			t.Errorf("after %T: %v", c, found)
		}
	}
}

// onlySystem returns node 1, on which nothing but the system job runs then.
func onlySystem(s *state.Snapshot) *berth.Node {
	n := nodeNo(s, 1)
	for a := range s.AllocsOn(n.ID) {
		if a.Job.Type != berth.TypeSystem {
			a.Client = berth.ClientComplete
		}
	}
	return n
}

// What must not lie between two states is found under its number.
func TestBetweenFindsOverTime(t *testing.T) {
	for _, x := range []struct {
		what, id string
		plant    func(s *state.Snapshot)
	}{
		{"what should stop should run", "I-18", func(s *state.Snapshot) { s.Alloc(allocOf(s, web, 2).Rest().Previous).Desired = berth.DesiredRun }},
		{"what ended runs", "I-18", func(s *state.Snapshot) { allocOf(s, sums, 0).Client = berth.ClientRunning }},
		{"an allocation is on another node", "I-15", func(s *state.Snapshot) { allocOf(s, web, 1).NodeID[0] ^= 1 }},
		{"an allocation is another instance", "I-15", func(s *state.Snapshot) { allocOf(s, web, 1).Index = 2 }},
		{"an allocation replaces another one", "I-17", func(s *state.Snapshot) {
			more(allocOf(s, web, 2), func(m *berth.AllocMore) { m.Previous[0] ^= 1 })
		}},
		{"an allocation is replaced by another one", "I-17", func(s *state.Snapshot) {
			more(s.Alloc(allocOf(s, web, 2).Rest().Previous), func(m *berth.AllocMore) { m.Next = berth.AllocID{} })
		}},
		{"a job is at an earlier version", "I-20", func(s *state.Snapshot) { s.Job(web).Version = 6 }},
		{"a version asks for something else", "I-20", func(s *state.Snapshot) { s.Job(web).Priority = 77 }},
		{"a launch is forgotten", "I-23", func(s *state.Snapshot) { s.Summary(nightly).Launch.Index-- }},
		{"a deployment is of an earlier version", "I-25", func(s *state.Snapshot) { deployment(s).JobVersion = 6 }},
		{"a node has another number", "I-28", func(s *state.Snapshot) { nodeNo(s, 1).Number = 9 }},
	} {
		before, after := later(t), later(t)
		if v := invariant.Between(before, after); v != nil {
			t.Fatal(v)
		}
		x.plant(after)
		expect(t, x.what, x.id, invariant.Between(before, after))
	}
	s := later(t)
	ended, deleted := later(t), state.Begin(s)
	deployment(s).Status = berth.DeploymentFailed
	expect(t, "a deployment goes on again", "I-25", invariant.Between(s, ended))
	expect(t, "a deployment is deleted with its job there", "I-31", invariant.Step(ended, without(t, deleted)))
}

// without returns the state without its deployment, which has ended in it.
func without(t *testing.T, tx *state.Tx) *state.Snapshot {
	t.Helper()
	for a := range tx.AllocsOf(web) { // what keeps it
		if !a.Rest().DeploymentID.IsZero() {
			more(a, func(m *berth.AllocMore) { m.DeploymentID = berth.DeploymentID{} })
		}
	}
	for e := range tx.EvalsOf(web) {
		e.DeploymentID = berth.DeploymentID{}
	}
	deployment(tx.Snapshot).JobVersion = 6
	if r := tx.Apply(&state.DeleteRows{Deployments: []berth.DeploymentID{deployment(tx.Snapshot).ID}}); r.Err != nil {
		t.Fatal(r.Err)
	}
	return tx.Seal()
}
