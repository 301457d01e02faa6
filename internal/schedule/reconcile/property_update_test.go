package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule/reconcile"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// However an update begins, with agents that bring every instance to health it
// ends: the deployment is successful, every name is held by one of the newest
// version, and on the way never more than max_parallel new ones are unproven
// beside canaries, nor more than that many names without one that serves.
func TestUpdatesArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := updating(t)
		g := d.versions[1].TaskGroups[0]
		faulty := rapid.Bool().Draw(t, "faulty") // some instances fail
		for step := 0; ; step++ {
			r := reconcile.Compare(d.input())
			d.apply(r)
			if !faulty {
				d.keepsPace(t, g)
			}
			if d.deployed != nil && d.deployed.Status == berth.DeploymentSuccessful && empty(r) {
				break
			}
			if step > 100 {
				t.Fatalf("there is no end: %+v", r)
			}
			d.agentsWork(t, g, faulty && step < 20)
		}
		held := map[uint32]int{}
		for _, a := range d.allocs {
			if a.Live() {
				held[a.Index]++
				if a.Job.Version != 1 {
					t.Fatalf("%s is still of version %d", a.Name(), a.Job.Version)
				}
			}
		}
		for i := range g.Count {
			if held[uint32(i)] != 1 {
				t.Fatalf("%s[%d] is held by %d", g.Name, i, held[uint32(i)])
			}
		}
	})
}

// updating is a service that runs, of which a version with other tasks came.
func updating(t *rapid.T) *drawn {
	d := &drawn{unfit: map[berth.NodeID]bool{}, streaks: map[instance]history{}, waiting: map[berth.EvalID]bool{}, eval: statetest.ID[berth.Eval](1)}
	for n := range 4 {
		d.nodes = append(d.nodes, &berth.Node{ID: statetest.ID[berth.Node](n), Status: berth.NodeReady})
	}
	update := &berth.UpdateStrategy{MaxParallel: rapid.IntRange(1, 3).Draw(t, "parallel"), Canary: rapid.IntRange(0, 3).Draw(t, "canary")}
	for v := range 2 {
		d.versions = append(d.versions, &berth.Job{
			ID: "web", Namespace: berth.DefaultNamespace, Type: berth.TypeService, Version: uint64(v), UID: berth.UID{Index: 10},
			TaskGroups: []*berth.TaskGroup{{
				Name: "g0", Count: rapid.IntRange(1, 5).Draw(t, "count"), Update: update, ReschedulePolicy: &berth.ReschedulePolicy{Unlimited: true, DelayFunction: berth.DelayConstant},
				Tasks: []*berth.Task{{Name: "task", Resources: &berth.Resources{CPU: 1 + v}}},
			}},
		})
	}
	for i := range d.versions[0].TaskGroups[0].Count {
		d.next++
		d.allocs = append(d.allocs, &berth.Alloc{
			ID: statetest.ID[berth.Alloc](d.next), NodeID: d.nodes[1].ID, Job: d.versions[0], Group: d.versions[0].TaskGroups[0], Index: uint32(i),
			CreateIndex: 1, Ordinal: uint32(i), Client: berth.ClientRunning,
		})
	}
	return d
}

// keepsPace checks what must hold on the way.
func (d *drawn) keepsPace(t *rapid.T, g *berth.TaskGroup) {
	t.Helper()
	unproven, serving := 0, map[uint32]bool{}
	surplus := d.versions[0].TaskGroups[0].Count < g.Count // new names are placed at once
	for _, a := range d.allocs {
		m := a.Rest()
		healthy := m.DeploymentStatus != nil && m.DeploymentStatus.Healthy != nil && *m.DeploymentStatus.Healthy
		canary := m.DeploymentStatus != nil && m.DeploymentStatus.Canary
		switch {
		case !a.Live():
		case a.Job.Version == 1 && !healthy && !canary:
			unproven++
		case !canary:
			serving[a.Index] = true
		}
	}
	if n := g.Update.MaxParallel; !surplus && (unproven > n || len(serving) < g.Count-n) {
		t.Fatalf("max_parallel is %d: %d are not proven, %d of %d serve", n, unproven, len(serving), g.Count)
	}
}

// agentsWork brings some of what was placed to health, ends what stops, and
// promotes canaries once all are healthy. If faulty, now and then one fails.
func (d *drawn) agentsWork(t *rapid.T, g *berth.TaskGroup, faulty bool) {
	healthy := 0
	for i, a := range d.allocs {
		b, m := a.With()
		switch {
		case a.Ended():
		case !a.Wanted():
			b.Client = berth.ClientComplete
		case faulty && rapid.IntRange(0, 9).Draw(t, "fails") == 0:
			b.Client, b.ModifyTime = berth.ClientFailed, noon.Add(-time.Hour).UnixNano()
		case a.Job.Version == 1:
			s := berth.AllocDeploymentStatus{Healthy: new(true)}
			if m.DeploymentStatus != nil {
				s.Canary = m.DeploymentStatus.Canary
			}
			if s.Canary {
				healthy++
			}
			b.Client, m.DeploymentStatus = berth.ClientRunning, &s
		default:
			b.Client = berth.ClientRunning
		}
		d.allocs[i] = b
	}
	if s := d.deployed.TaskGroups[g.Name]; s.DesiredCanaries > 0 && healthy >= s.DesiredCanaries {
		d.promote(g.Name)
	}
}

func (d *drawn) promote(group string) {
	x, s := *d.deployed, *d.deployed.TaskGroups[group]
	s.Promoted = true
	x.TaskGroups = map[string]*berth.DeploymentState{group: &s}
	d.deployed = &x
	for i, a := range d.allocs {
		if st := a.Rest().DeploymentStatus; st != nil && st.Canary {
			b, m := a.With()
			m.DeploymentStatus = &berth.AllocDeploymentStatus{Healthy: st.Healthy}
			d.allocs[i] = b
		}
	}
}

// Whatever ran before: a version of which nothing was placed yet begins with a
// deployment.
func TestTheFirstOfAVersionIsDeployed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		in := d.input()
		if in.Job == nil || in.Job.Stop || in.Job.Type != berth.TypeService || d.deployed != nil && d.deployed.JobVersion == in.Job.Version {
			return
		}
		begins := false
		for _, g := range in.Job.TaskGroups {
			placed := slices.ContainsFunc(d.allocs, func(a *berth.Alloc) bool {
				return a.Job == in.Job && a.Group.Name == g.Name
			})
			begins = begins || !placed && g.Update != nil && g.Update.MaxParallel > 0 && g.Count > 0
		}
		if begins && reconcile.Compare(in).Deploy == nil {
			t.Fatal("there is no deployment")
		}
	})
}
