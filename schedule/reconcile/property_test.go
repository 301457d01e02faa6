package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/schedule/reconcile"
	"berth/state/statetest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawn is what there is, reachable or not: Compare must cope with anything.
type drawn struct {
	versions []*berth.Job
	nodes    []*berth.Node // nil: gone
	unfit    map[berth.NodeID]bool
	streaks  map[instance]history
	waiting  map[berth.EvalID]bool
	allocs   []*berth.Alloc
	eval     berth.EvalID
	purged   bool
}

func draw(t *rapid.T) *drawn {
	d := &drawn{unfit: map[berth.NodeID]bool{}, streaks: map[instance]history{}, waiting: map[berth.EvalID]bool{}, eval: statetest.ID[berth.Eval](1)}
	for n := range 4 {
		node := &berth.Node{ID: statetest.ID[berth.Node](n), Status: rapid.SampledFrom([]string{berth.NodeReady, berth.NodeReady, berth.NodeDown, berth.NodeInit}).Draw(t, "node")}
		if n > 0 && rapid.IntRange(0, 4).Draw(t, "gone") == 0 {
			node = nil
		}
		d.nodes = append(d.nodes, node)
		d.unfit[statetest.ID[berth.Node](n)] = rapid.IntRange(0, 4).Draw(t, "unfit") == 0
	}
	d.nodes[0].Status = berth.NodeReady // where everything is placed
	d.drawVersions(t)
	for n := range rapid.IntRange(0, 12).Draw(t, "allocs") {
		d.allocs = append(d.allocs, d.drawAlloc(t, n))
	}
	for e := range 4 {
		d.waiting[statetest.ID[berth.Eval](e)] = rapid.Bool().Draw(t, "waiting")
	}
	d.purged = rapid.IntRange(0, 9).Draw(t, "purged") == 0
	return d
}

func (d *drawn) drawVersions(t *rapid.T) {
	typ := rapid.SampledFrom([]string{berth.TypeService, berth.TypeBatch}).Draw(t, "type")
	for v := range rapid.IntRange(1, 3).Draw(t, "versions") {
		j := &berth.Job{
			ID: "web", Namespace: berth.DefaultNamespace, Type: typ, Version: uint64(v), UID: berth.UID{Index: 10},
			Stop: rapid.IntRange(0, 9).Draw(t, "stopped") == 0,
		}
		for g := range 2 {
			if rapid.IntRange(0, 5).Draw(t, "without") == 0 {
				continue
			}
			j.TaskGroups = append(j.TaskGroups, &berth.TaskGroup{
				Name: fmt.Sprint("g", g), Count: rapid.IntRange(0, 4).Draw(t, "count"), ReschedulePolicy: drawPolicy(t),
				Tasks: []*berth.Task{{Name: "task", Resources: &berth.Resources{CPU: rapid.IntRange(1, 2).Draw(t, "cpu")}}},
			})
		}
		d.versions = append(d.versions, j)
	}
}

func drawPolicy(t *rapid.T) *berth.ReschedulePolicy {
	if rapid.IntRange(0, 4).Draw(t, "no policy") == 0 {
		return nil
	}
	p := &berth.ReschedulePolicy{
		Delay: 30 * time.Second, MaxDelay: time.Hour, Unlimited: rapid.Bool().Draw(t, "unlimited"),
		DelayFunction: rapid.SampledFrom([]string{berth.DelayConstant, berth.DelayExponential, berth.DelayFibonacci}).Draw(t, "function"),
	}
	if !p.Unlimited {
		p.Attempts, p.Interval = rapid.IntRange(0, 3).Draw(t, "attempts"), time.Hour
	}
	return p
}

func (d *drawn) drawAlloc(t *rapid.T, n int) *berth.Alloc {
	j := &berth.Job{ID: "web", Namespace: berth.DefaultNamespace, Type: berth.TypeService, UID: berth.UID{Index: 5}, TaskGroups: []*berth.TaskGroup{{Name: "g0", Count: 1}}}
	if v := rapid.SampledFrom(d.versions).Draw(t, "version"); len(v.TaskGroups) > 0 && rapid.IntRange(0, 9).Draw(t, "older job") > 0 {
		j = v
	}
	g := rapid.SampledFrom(j.TaskGroups).Draw(t, "group")
	a := &berth.Alloc{
		ID: statetest.ID[berth.Alloc](n + 1), NodeID: statetest.ID[berth.Node](rapid.IntRange(0, 3).Draw(t, "on")), Job: j, Group: g,
		Index: uint32(rapid.IntRange(0, 4).Draw(t, "index")), CreateIndex: uint64(rapid.IntRange(1, 4).Draw(t, "made")), Ordinal: uint32(n),
		Client:     berth.ClientStatus(rapid.IntRange(0, 5).Draw(t, "client")),
		ModifyTime: noon.Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "ended")) * time.Second).UnixNano(),
		Orphaned:   rapid.IntRange(0, 19).Draw(t, "orphaned") == 0,
	}
	more := berth.AllocMore{}
	if rapid.IntRange(0, 3).Draw(t, "stops") == 0 {
		a.Desired = berth.DesiredStop
		more.DesiredDescription = rapid.SampledFrom([]string{berth.StopFailed, berth.StopNodeLost, berth.StopReplaced, berth.StopSurplus}).Draw(t, "why")
	}
	if rapid.IntRange(0, 3).Draw(t, "follow-up") == 0 {
		more.FollowupEval = statetest.ID[berth.Eval](rapid.IntRange(0, 3).Draw(t, "by"))
	}
	if rapid.IntRange(0, 4).Draw(t, "replaced") == 0 {
		more.Next = statetest.ID[berth.Alloc](99)
	}
	a.More = &more
	d.streaks[instance{g.Name, a.Index}] = history{
		streak: rapid.IntRange(0, 3).Draw(t, "streak"), events: []berth.RescheduleEvent{{RescheduleTime: noon.Add(-time.Minute).UnixNano()}},
	}
	return a
}

func (d *drawn) input() reconcile.Input {
	in := reconcile.Input{
		UID: berth.UID{Index: 10}, Eval: d.eval, Now: noon, Allocs: slices.Clone(d.allocs),
		Node: func(id berth.NodeID) *berth.Node {
			hi, _ := id.Words()
			return d.nodes[hi>>32]
		},
		Feasible: func(_ int, n *berth.Node) bool { return !d.unfit[n.ID] },
		Replaced: func(g string, index uint32) (int, []berth.RescheduleEvent) {
			h := d.streaks[instance{g, index}]
			return h.streak, h.events
		},
		Waiting: func(e berth.EvalID) bool { return d.waiting[e] },
	}
	if !d.purged {
		in.Job = d.versions[len(d.versions)-1]
	}
	return in
}

// apply makes the changes, as the state would.
func (d *drawn) apply(r reconcile.Result) {
	job := d.versions[len(d.versions)-1]
	change := func(id berth.AllocID, f func(*berth.Alloc, *berth.AllocMore)) {
		for i, a := range d.allocs {
			if a.ID == id {
				b, more := a.With()
				f(b, more)
				d.allocs[i] = b
			}
		}
	}
	for _, s := range r.Stop {
		change(s.ID, func(a *berth.Alloc, more *berth.AllocMore) {
			if a.Desired == berth.DesiredRun {
				a.Desired, more.DesiredDescription = berth.DesiredStop, s.Description
			}
			if s.Client == berth.ClientLost && !a.Ended() {
				a.Client = berth.ClientLost
			}
		})
	}
	for _, u := range r.Update {
		change(u, func(a *berth.Alloc, _ *berth.AllocMore) { a.Job, a.Group = job, job.Group(a.Group.Name) })
	}
	for i, l := range r.Later {
		next := statetest.ID[berth.Eval](50 + i)
		d.waiting[next] = true
		for _, id := range l.Allocs {
			change(id, func(_ *berth.Alloc, more *berth.AllocMore) { more.FollowupEval = next })
		}
	}
	for i, m := range r.Missing {
		a := &berth.Alloc{
			ID: statetest.ID[berth.Alloc](1000 + i), NodeID: d.nodes[0].ID, Job: job, Group: job.TaskGroups[m.Group], Index: m.Index,
			CreateIndex: 100, Ordinal: uint32(i),
		}
		if m.Previous != nil {
			change(m.Previous.ID, func(_ *berth.Alloc, more *berth.AllocMore) { more.Next = a.ID })
		}
		d.allocs = append(d.allocs, a)
	}
	d.eval = statetest.ID[berth.Eval](2000) // whatever looks next is another evaluation
}

// Whatever there is: once what Compare wants is done, it wants nothing more.
func TestWhatIsDoneIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		d.apply(reconcile.Compare(d.input()))
		if r := reconcile.Compare(d.input()); len(r.Missing)+len(r.Stop)+len(r.Update)+len(r.Later) > 0 {
			t.Fatalf("wants more: %+v", r)
		}
	})
}

// Every index below the count is held, finished, given up, waits for its time
// or is placed; none twice, and none beyond the count is left running.
func TestEveryIndexIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		in := d.input()
		r := reconcile.Compare(in)
		d.apply(r)
		seen := map[instance]int{}
		for _, a := range d.allocs {
			if !a.Live() || a.Orphaned {
				continue
			}
			if in.Job == nil || in.Job.Stop || a.Job.UID != in.Job.UID || in.Job.Group(a.Group.Name) == nil || int(a.Index) >= in.Job.Group(a.Group.Name).Count {
				t.Fatalf("%s %s is left running", a.ID, a.Name())
			}
			seen[instance{a.Group.Name, a.Index}]++
		}
		if in.Job == nil || in.Job.Stop {
			return
		}
		for _, g := range in.Job.TaskGroups {
			for i := range uint32(g.Count) {
				k := instance{g.Name, i}
				ended := slices.ContainsFunc(d.allocs, func(a *berth.Alloc) bool {
					return a.Group.Name == g.Name && a.Index == i && a.Wanted() && a.Job.UID == in.Job.UID && (a.Client == berth.ClientFailed || a.Client == berth.ClientComplete)
				})
				if n := seen[k]; n > 1 || n == 0 && !ended {
					t.Fatalf("%s[%d] runs %d times", g.Name, i, n)
				}
			}
		}
	})
}

// The order of the allocations does not matter, and nothing that goes in is
// changed.
func TestOrderDoesNotMatterAndInputStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		in := d.input()
		before := make([]berth.Alloc, len(in.Allocs))
		for i, a := range in.Allocs {
			before[i] = *a
		}
		first := reconcile.Compare(in)
		shuffled := d.input()
		shuffled.Allocs = rapid.Permutation(shuffled.Allocs).Draw(t, "order")
		given := slices.Clone(shuffled.Allocs)
		if diff := cmp.Diff(first, reconcile.Compare(shuffled)); diff != "" {
			t.Fatal(diff)
		}
		if !slices.Equal(given, shuffled.Allocs) {
			t.Fatal("the list that went in is in another order")
		}
		for i, a := range in.Allocs {
			if diff := cmp.Diff(before[i], *a); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
