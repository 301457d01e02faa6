package reconcile_test

import (
	"fmt"
	"slices"
	"testing"

	"berth"
	"berth/internal/schedule/reconcile"
	"berth/internal/state/statetest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// everywhere draws what there is of a job that runs on every node, reachable or
// not.
func everywhere(t *rapid.T) (*drawn, func() reconcile.PerNodeInput) {
	d := draw(t)
	typ := rapid.SampledFrom([]string{berth.TypeSystem, berth.TypeSysbatch}).Draw(t, "per node")
	for i, v := range d.versions {
		j := *v
		j.Type = typ
		d.versions[i] = &j
		for k, a := range d.allocs {
			if a.Job == v {
				b := *a
				b.Job = &j
				d.allocs[k] = &b
			}
		}
	}
	d.oneAtATime()
	for i, n := range d.nodes {
		if n != nil {
			m := *n
			m.Number, m.SchedulingEligibility = uint32(i), rapid.SampledFrom([]string{berth.NodeEligible, berth.NodeEligible, berth.NodeIneligible}).Draw(t, "eligible")
			d.nodes[i] = &m
		}
	}
	rolling := rapid.Bool().Draw(t, "rolling")
	return d, func() reconcile.PerNodeInput {
		in := reconcile.PerNodeInput{Input: d.input(), BatchPending: rolling}
		in.Recovers = func(group int, n *berth.Node) bool { return n.Number%2 == 1 && !in.Feasible(group, n) }
		in.Keeps = func(group int, n *berth.Node) bool { return in.Feasible(group, n) || in.Recovers(group, n) }
		in.Retry = func(a *berth.Alloc) bool { return a.Index%2 == 0 }
		in.PlacedByEval = func(a *berth.Alloc) bool { return a.EvalID == in.Eval && a.CreateIndex >= 100 }
		for _, n := range d.nodes {
			if n != nil && n.Ready() {
				in.Nodes = append(in.Nodes, n)
			}
		}
		return in
	}
}

// oneAtATime makes the draw possible: what a node gets anew of a name has taken
// the place of what it had.
func (d *drawn) oneAtATime() {
	type spot struct {
		group string
		index uint32
		node  berth.NodeID
	}
	newest := map[spot]*berth.Alloc{}
	at := func(a *berth.Alloc) spot { return spot{a.Group.Name, a.Index, a.NodeID} }
	for _, a := range d.allocs {
		b := newest[at(a)]
		if b == nil || b.CreateIndex < a.CreateIndex || b.CreateIndex == a.CreateIndex && b.Ordinal < a.Ordinal {
			newest[at(a)] = a
		}
	}
	for k, a := range d.allocs {
		if !a.Wanted() || a.Ended() {
			continue
		}
		b, more := a.With()
		more.Next = berth.AllocID{}
		if newest[at(a)] != a {
			b.Desired, more.StopReason, more.DesiredDescription = berth.DesiredStop, berth.StopReplaced, berth.StopReplaced.String()
		}
		d.allocs[k] = b
	}
}

// Whatever there is: nothing is changed by looking, the order of what is looked
// at does not matter, no node gets two of a name or what it cannot have, and
// what was done is not wanted again.
func TestPerNodeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, input := everywhere(t)
		in := input()
		before := fmt.Sprintf("%+v", deref(in.Allocs))
		r := reconcile.ComparePerNode(in)
		if after := fmt.Sprintf("%+v", deref(in.Allocs)); after != before {
			t.Fatalf("the input changed:\n%s\n%s", before, after)
		}
		turned := input()
		turned.Allocs = rapid.Permutation(turned.Allocs).Draw(t, "allocs")
		turned.Nodes = rapid.Permutation(turned.Nodes).Draw(t, "nodes")
		if diff := cmp.Diff(r, reconcile.ComparePerNode(turned)); diff != "" {
			t.Fatalf("in another order it is another: %s", diff)
		}
		gets := map[string]bool{}
		for _, m := range r.Missing {
			at := fmt.Sprint(m.Group, m.Index, m.Node.ID)
			if gets[at] || !m.Node.Ready() || !in.Feasible(m.Group, m.Node) || m.Previous != nil && m.Previous.NodeID != m.Node.ID {
				t.Fatalf("%+v", m)
			}
			gets[at] = true
		}
		stopped := map[berth.AllocID]bool{}
		for _, s := range r.Stop {
			stopped[s.ID] = true
		}
		for _, a := range in.Allocs {
			unmet := slices.ContainsFunc(r.Stop, func(x berth.AllocStop) bool { return x.ID == a.ID && x.StopReason == berth.StopNotMet })
			if unmet && in.Recovers(slices.Index(in.Job.TaskGroups, in.Job.Group(a.Group.Name)), in.Node(a.NodeID)) {
				t.Fatalf("%s of node %s stops, though only its driver is unhealthy", a.Name(), a.NodeID)
			}
			if a.Live() && !a.Orphaned && !stopped[a.ID] && in.Job != nil && a.Job.UID == in.Job.UID {
				if g := slices.IndexFunc(in.Job.TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == a.Group.Name }); gets[fmt.Sprint(g, a.Index, a.NodeID)] {
					t.Fatalf("%s of node %s is placed beside one that stays", a.Name(), a.NodeID)
				}
			}
		}
		waits := d.done(t, r)
		if r.Deployed != nil && r.Deployed.Status == berth.DeploymentCancelled {
			waits = d.done(t, reconcile.ComparePerNode(input())) // what failed before it, and waited for it, goes now
		}
		again := input()
		again.BatchPending = true // what is left of an update has its time
		r = reconcile.ComparePerNode(again)
		if len(r.Stop)+len(r.Update)+len(r.Followups) > 0 || r.Deploy != nil || r.Deployed != nil {
			t.Fatalf("there is more to do: %+v", r)
		}
		if diff := cmp.Diff(waits, r.Missing, sameInstance); diff != "" {
			t.Fatalf("what found no room is not what is missing: %s", diff)
		}
	})
}

// sameInstance compares what is missing by what is to be placed: an instance of
// a version on a node, as a canary or not.
var sameInstance = cmp.Transformer("instance", func(m reconcile.OnNode) string {
	version := "the newest"
	if m.OldVersion {
		version = fmt.Sprint(m.Previous.Job.Version)
	}
	return fmt.Sprintf("%d[%d] on %s of version %s, canary %v", m.Group, m.Index, m.Node.ID, version, m.Canary)
})

func deref(list []*berth.Alloc) (out []string) {
	for _, a := range list {
		out = append(out, fmt.Sprintf("%+v %+v", *a, *a.Rest()))
	}
	return out
}

// done makes the changes, as the state would, and returns what finds no room.
func (d *drawn) done(t *rapid.T, r reconcile.PerNodeResult) (waits []reconcile.OnNode) {
	d.apply(reconcile.Result{Stop: r.Stop, Update: r.Update, Followups: r.Followups, Deploy: r.Deploy, Deployed: r.Deployed})
	job := d.versions[len(d.versions)-1]
	for i, m := range r.Missing {
		if rapid.IntRange(0, 3).Draw(t, "no room") == 0 {
			waits = append(waits, m)
			continue
		}
		a := &berth.Alloc{
			ID: statetest.ID[berth.Alloc](1000 + i), NodeID: m.Node.ID, Job: job, Group: job.TaskGroups[m.Group], Index: m.Index,
			CreateIndex: 100, Ordinal: uint32(i), More: &berth.AllocMore{},
		}
		if m.OldVersion {
			a.Job, a.Group = m.Previous.Job, m.Previous.Group
		}
		d.enrol(a, a.More, m.Canary)
		d.allocs = append(d.allocs, a)
	}
	return waits
}
