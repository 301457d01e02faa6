package state_test

import (
	"slices"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// deployment deploys a canary of the job "web" on node 4 beside its first
// instance, and promotes it.
func (r *script) deployment() {
	job := func(cpu string) *berth.Job {
		return statetest.Job(r.T, `{"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Resources": {"CPU": `+cpu+`, "MemoryMB": 100}}]}`)
	}
	r.does(statetest.Register(job("100"), 30), puts(30, 0, 4, 60), puts(30, 1, 5, 60), statetest.Register(job("200"), 31))
	j, id := r.s.Job(webKey), statetest.ID[berth.Deployment](1)
	r.refuses(berth.NotFound, &state.PromoteDeployment{ID: id, Now: at(61)})
	r.does(&state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](31), JobVersion: j.Version, Now: at(61), End: &state.EvalEnd{Status: berth.EvalComplete},
		Deploy: &berth.Deployment{
			ID: id, Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version, Status: berth.DeploymentRunning,
			TaskGroups: map[string]*berth.DeploymentState{"g": {DesiredTotal: 2, DesiredCanaries: 1, ProgressDeadline: 10 * time.Minute}},
		},
		Place: []berth.Placement{{NodeID: node(4), Canary: true}},
	})
	canary := r.s.Deployment(id).TaskGroups["g"].PlacedCanaries
	promotes := &state.PromoteDeployment{ID: id, Groups: []string{"g"}, Now: at(64)}
	r.refuses(berth.Invalid,
		&state.PromoteDeployment{ID: id, Now: at(62)}, // the canary is not healthy
		&state.PromoteDeployment{ID: id, Groups: []string{"none"}, Now: at(62)})
	r.does(&state.ReportAllocs{Node: node(4), Updates: []state.AllocUpdate{{ID: canary[0], Client: berth.ClientRunning}}, Now: at(62)},
		&state.SetAllocHealth{ID: id, Healthy: canary, Now: at(63)})
	r.refuses(berth.Conflict, deposed(&state.PromoteDeployment{ID: id, Now: at(64)}))
	r.does(promotes)
	r.refuses(berth.Invalid, promotes) // is promoted
	r.does(&state.FailDeployment{ID: id, Description: "an operator failed it", Now: at(65)})
	r.refuses(berth.Invalid, &state.PromoteDeployment{ID: id, Now: at(66)}) // has ended
}

// drain moves the job "web" from node 4.
func (r *script) drain() {
	var on4, on5 []berth.AllocID
	for a := range r.s.AllocsOf(webKey) {
		switch a.NodeID {
		case node(4):
			on4 = append(on4, a.ID)
		case node(5):
			on5 = append(on5, a.ID)
		}
	}
	slices.SortFunc(on4, func(a, b berth.AllocID) int { return slices.Compare(a[:], b[:]) }) // the state does not order them
	seed := [16]byte{7}
	r.refuses(berth.NotFound, &state.MigrateAllocs{Node: node(99), Allocs: on4, Seed: seed, Now: at(70)})
	r.refuses(berth.Conflict, &state.MigrateAllocs{Node: node(4), Allocs: on4, Seed: seed, Now: at(70)}) // it is not drained
	r.does(&state.UpdateDrain{ID: node(4), Spec: &berth.DrainSpec{Deadline: time.Hour}, Meta: map[string]string{"message": "new disks"}, Seed: seed, Now: at(70)})
	r.refuses(berth.Invalid, &state.MigrateAllocs{Node: node(4), Allocs: on5, Seed: seed, Now: at(71)}) // is elsewhere
	r.refuses(berth.Conflict, deposed(&state.MigrateAllocs{Node: node(4), Allocs: on4, Seed: seed, Now: at(71)}))
	r.does(
		&state.MigrateAllocs{Node: node(4), Allocs: on4[:1], Seed: seed, Now: at(71)},
		&state.MigrateAllocs{Node: node(4), Allocs: on4, Stop: true, Seed: [16]byte{8}, Now: at(72)},
		&state.MigrateAllocs{Node: node(4), Allocs: on4, Stop: true, Seed: [16]byte{9}, Now: at(73)}) // they are to stop already
	r.does(r.ends("web", 4, 74), &state.FinishDrain{ID: node(4), Now: at(75)})
	r.refuses(berth.Conflict, &state.MigrateAllocs{Node: node(4), Seed: seed, Now: at(76)})
}

// streams submits the stream job "flow", and changes what it exports and imports.
func (r *script) streams() {
	r.does(&state.RegisterJob{Job: statetest.Job(r.T, statetest.StreamText("flow", 1, 100, "")), Now: at(80)})
	row := func() *berth.StreamJob { return r.s.StreamOf(flowKey) }
	plan, err := statetest.Planned(r.s, row())
	if err != nil {
		r.Fatal(err)
	}
	uid := row().UID
	r.does(&state.PlanSubmission{Key: flowKey, UID: uid, Plan: plan, Deadline: at(99), Now: at(81)})
	for _, kind := range berth.StreamKinds {
		c := &state.EnsureResources{Key: flowKey, UID: uid, Generation: row().Generation, Kind: kind, Now: at(82)}
		for _, o := range row().Plan.Of(kind) {
			c.Names = append(c.Names, o.Name)
		}
		if c.Names != nil {
			r.does(c)
		}
	}
	r.connectivity()
	r.connections()
}

// connectivity launches the source of the job "flow" on node 5, whose agent
// reports the connections.
func (r *script) connectivity() {
	row := r.s.StreamOf(flowKey)
	pe := r.s.ResourceNamed(row.UID, berth.KindPE, "flow.src[0]")
	r.does(&state.LaunchPE{PE: pe.UID, Expect: pe.PE.Launch, Generation: row.Generation, Why: "submission", Eval: byUser(40, ""), Now: at(83)})
	group := slices.IndexFunc(r.s.PlannedJob(row).TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == pe.Object.PE.Group })
	r.does(&state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](40), JobVersion: row.Version, End: &state.EvalEnd{Status: berth.EvalComplete}, Now: at(84),
		Place: []berth.Placement{{Group: group, Index: pe.Object.PE.Index, NodeID: node(5), Grant: berth.Grant{Ports: []uint16{20001}}}},
	})
	var alloc berth.AllocID
	for a := range r.s.AllocsOf(flowKey) {
		alloc = a.ID
	}
	connects := func(launch uint64, how string, minute int) *state.SetConnectivity {
		return &state.SetConnectivity{Alloc: alloc, PE: pe.UID, Launch: launch, State: how, Now: at(minute)}
	}
	r.refuses(berth.Invalid, connects(1, "odd", 85))
	r.refuses(berth.Conflict, connects(0, berth.ConnectivityFull, 85), connects(2, berth.ConnectivityFull, 85))
	r.does(
		connects(1, berth.ConnectivityPartial, 86), connects(1, berth.ConnectivityFull, 87),
		connects(1, berth.ConnectivityFull, 88)) // no news
	r.does(r.ends("flow", 5, 89))
	r.refuses(berth.Conflict, connects(1, berth.ConnectivityNone, 90)) // the allocation has ended
}

// connections changes what the job "flow" exports and imports.
func (r *script) connections() {
	uid := r.s.StreamOf(flowKey).UID
	only := func(kind string) (id berth.UID) {
		for o := range r.s.ResourcesOf(uid, kind) {
			id = o.UID
		}
		return id
	}
	export, imported := only(berth.KindExport), only(berth.KindImport)
	r.does(&state.SetExport{UID: export, Properties: map[string]any{"kind": "clean", "priority": int64(3)}, Now: at(91)})
	r.refuses(berth.Invalid,
		&state.SetExport{UID: export, Now: at(91)},
		&state.SetExport{UID: imported, Properties: map[string]any{"kind": "clean"}, Now: at(91)})
	r.refuses(berth.NotFound, &state.SetExport{UID: berth.UID{Index: 1}, Properties: map[string]any{"kind": "clean"}, Now: at(91)})
	filter, subscription, odd := "score > 0.5", `kind == "clean"`, "score >"
	r.does(
		&state.SetImport{UID: imported, Filter: &filter, Now: at(92)},
		&state.SetImport{UID: imported, Subscription: &subscription, Now: at(93)})
	r.refuses(berth.Invalid, &state.SetImport{UID: imported, Filter: &odd, Now: at(94)}, &state.SetImport{UID: export, Filter: &filter, Now: at(94)})
	r.refuses(berth.NotFound, &state.SetImport{UID: berth.UID{Index: 1}, Filter: &filter, Now: at(94)})
	// What is about to go is not changed.
	r.does(&state.DeleteJob{Key: flowKey, Policy: berth.Foreground, Intent: berth.IntentUser, Eval: byUser(41, berth.TriggerJobDeregister), Now: at(95)})
	r.refuses(berth.Conflict,
		&state.SetExport{UID: export, Properties: map[string]any{"kind": "raw"}, Now: at(96)},
		&state.SetImport{UID: imported, Filter: &filter, Now: at(96)})
}

// namespaces deletes namespaces. One has a variable, and stays until that is gone.
func (r *script) namespaces() {
	r.does(&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "team", Description: "a team"}, {Name: "spare"}}})
	used := variable("app/db", "sealed", 97)
	used.Namespace, used.KeyID = "team", rootID(4)
	r.does(used)
	r.refuses(berth.Invalid, &state.DeleteNamespaces{}, &state.DeleteNamespaces{Names: []string{"default"}})
	r.refuses(berth.NotFound, &state.DeleteNamespaces{Names: []string{"spare", "none"}})
	r.refuses(berth.Conflict, &state.DeleteNamespaces{Names: []string{"spare", "team"}})
	r.does(&state.DeleteNamespaces{Names: []string{"spare", "other"}}, &state.DeleteVariable{Namespace: "team", Path: "app/db"},
		&state.DeleteNamespaces{Names: []string{"team", "team"}}) // named twice
	r.refuses(berth.NotFound, &state.DeleteNamespaces{Names: []string{"team"}})
}
