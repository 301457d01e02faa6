package reconcile_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule/reconcile"
	"berth/internal/state/statetest"

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
	deployed *berth.Deployment
	next     int // of what is placed
}

func draw(t *rapid.T) *drawn {
	d := &drawn{unfit: map[berth.NodeID]bool{}, streaks: map[instance]history{}, waiting: map[berth.EvalID]bool{}, eval: statetest.ID[berth.Eval](1)}
	for n := range 4 {
		node := &berth.Node{ID: statetest.ID[berth.Node](n), Status: rapid.SampledFrom([]string{
			berth.NodeReady, berth.NodeReady, berth.NodeDown, berth.NodeInit, berth.NodeDisconnected, berth.NodeDisconnected,
		}).Draw(t, "node")}
		if n > 0 && rapid.IntRange(0, 4).Draw(t, "drained") == 0 {
			node.DrainStrategy = &berth.DrainStrategy{}
		}
		if n > 0 && rapid.IntRange(0, 4).Draw(t, "gone") == 0 {
			node = nil
		}
		d.nodes = append(d.nodes, node)
		d.unfit[statetest.ID[berth.Node](n)] = rapid.IntRange(0, 4).Draw(t, "unfit") == 0
	}
	d.nodes[0].Status = berth.NodeReady // where everything is placed
	d.drawVersions(t)
	d.drawDeployment(t)
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
				Disconnect: drawDisconnect(t), Update: drawUpdate(t),
				Tasks: []*berth.Task{{Name: "task", Resources: &berth.Resources{CPU: rapid.IntRange(1, 2).Draw(t, "cpu")}}},
			})
		}
		d.versions = append(d.versions, j)
	}
}

func drawDisconnect(t *rapid.T) *berth.DisconnectStrategy {
	if rapid.Bool().Draw(t, "no disconnect") {
		return nil
	}
	return &berth.DisconnectStrategy{
		LostAfter: rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "lost after"),
		Replace:   rapid.Bool().Draw(t, "replace"),
		Reconcile: rapid.SampledFrom([]string{berth.KeepBestScore, berth.KeepOriginal, berth.KeepReplacement, berth.KeepLongestRunning}).Draw(t, "keep"),
	}
}

func drawUpdate(t *rapid.T) *berth.UpdateStrategy {
	if rapid.Bool().Draw(t, "no update") {
		return nil
	}
	return &berth.UpdateStrategy{MaxParallel: rapid.IntRange(0, 2).Draw(t, "parallel"), Canary: rapid.IntRange(0, 3).Draw(t, "canary"), ProgressDeadline: time.Minute}
}

// drawDeployment draws the newest deployment, mostly of the newest version.
func (d *drawn) drawDeployment(t *rapid.T) {
	if rapid.Bool().Draw(t, "no deployment") {
		return
	}
	j := d.versions[len(d.versions)-1]
	if rapid.IntRange(0, 3).Draw(t, "older deployment") == 0 {
		j = d.versions[0]
	}
	x := &berth.Deployment{
		ID: statetest.ID[berth.Deployment](1), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version,
		Status: rapid.SampledFrom([]string{
			berth.DeploymentRunning, berth.DeploymentRunning, berth.DeploymentPaused, berth.DeploymentFailed, berth.DeploymentSuccessful, berth.DeploymentCancelled,
		}).Draw(t, "deployment"),
		CreateIndex: uint64(rapid.IntRange(1, 6).Draw(t, "deployed at")),
		TaskGroups:  map[string]*berth.DeploymentState{},
	}
	for _, g := range j.TaskGroups {
		if g.Update != nil && g.Update.MaxParallel > 0 && g.Count > 0 {
			x.TaskGroups[g.Name] = &berth.DeploymentState{
				DesiredTotal: g.Count, DesiredCanaries: min(g.Count, g.Update.Canary), Promoted: rapid.Bool().Draw(t, "promoted"),
			}
		}
	}
	if len(x.TaskGroups) > 0 {
		d.deployed = x
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
	}
	more := berth.AllocMore{}
	if rapid.IntRange(0, 3).Draw(t, "stops") == 0 {
		a.Desired = berth.DesiredStop
		more.StopReason = rapid.SampledFrom([]berth.StopReason{berth.StopFailed, berth.StopNodeLost, berth.StopReplaced, berth.StopSurplus}).Draw(t, "why")
	}
	if rapid.IntRange(0, 3).Draw(t, "follow-up") == 0 {
		more.FollowupEval = statetest.ID[berth.Eval](rapid.IntRange(0, 3).Draw(t, "by"))
	}
	if rapid.IntRange(0, 4).Draw(t, "replaced") == 0 {
		more.Next = statetest.ID[berth.Alloc](99)
	}
	if a.Client == berth.ClientUnknown {
		more.UnknownSince = noon.Add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "unknown")) * time.Second).UnixNano()
	}
	more.Migrate = rapid.IntRange(0, 2).Draw(t, "migrate") == 0
	more.Relocate = rapid.IntRange(0, 5).Draw(t, "relocate") == 0
	more.ForceReschedule = rapid.IntRange(0, 9).Draw(t, "force") == 0
	a.AllocModifyIndex = a.CreateIndex + uint64(rapid.IntRange(0, 3).Draw(t, "told"))
	a.Score = rapid.Float32Range(0, 1).Draw(t, "score")
	if x := d.deployed; x != nil && j.Version == x.JobVersion && rapid.IntRange(0, 3).Draw(t, "deployed") > 0 {
		more.DeploymentID = x.ID
		more.DeploymentStatus = rapid.SampledFrom([]*berth.AllocDeploymentStatus{
			nil, {Canary: true}, {Canary: true, Healthy: new(true)}, {Healthy: new(true)}, {Healthy: new(false)},
		}).Draw(t, "health")
	}
	a.More = &more
	d.streaks[instance{g.Name, a.Index}] = history{
		streak: rapid.IntRange(0, 3).Draw(t, "streak"), events: []berth.RescheduleEvent{{RescheduleTime: noon.Add(-time.Minute).UnixNano()}},
	}
	return a
}

func (d *drawn) input() reconcile.Input {
	in := reconcile.Input{
		UID: berth.UID{Index: 10}, Eval: d.eval, Now: noon, Deployment: d.deployed, Allocs: slices.Clone(d.allocs),
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

// planIndex is the state index of the changes that apply makes.
const planIndex = 50

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
	d.deploy(r)
	for _, s := range r.Stop {
		change(s.ID, func(a *berth.Alloc, more *berth.AllocMore) { d.stop(a, more, s) })
	}
	for _, u := range r.Update {
		change(u, func(a *berth.Alloc, more *berth.AllocMore) {
			a.Job, a.Group = job, job.Group(a.Group.Name)
			d.enrol(a, more, false)
		})
	}
	for i, l := range r.Followups {
		next := statetest.ID[berth.Eval](50 + i)
		d.waiting[next] = true
		for _, id := range l.Allocs {
			change(id, func(_ *berth.Alloc, more *berth.AllocMore) { more.FollowupEval = next })
		}
	}
	for _, m := range r.Missing {
		d.next++
		a := &berth.Alloc{
			ID: statetest.ID[berth.Alloc](1000 + d.next), NodeID: d.nodes[0].ID, Job: job, Group: job.TaskGroups[m.Group], Index: m.Index,
			CreateIndex: uint64(100 + d.next), More: &berth.AllocMore{},
		}
		if m.OldVersion {
			a.Job, a.Group = m.Previous.Job, m.Previous.Group
		}
		if m.Previous != nil {
			a.More.Previous = m.Previous.ID
			change(m.Previous.ID, func(_ *berth.Alloc, more *berth.AllocMore) { more.Next = a.ID })
		}
		d.enrol(a, a.More, m.Canary)
		d.allocs = append(d.allocs, a)
	}
	d.eval = statetest.ID[berth.Eval](2000) // whatever looks next is another evaluation
}

func (d *drawn) deploy(r reconcile.Result) {
	if c := r.Deployed; c != nil {
		x := *d.deployed
		if c.Status != "" {
			x.Status, x.StatusDescription = c.Status, c.Description
		}
		x.TaskGroups = maps.Clone(x.TaskGroups)
		for name, size := range c.Sizes {
			s := *x.TaskGroups[name]
			s.DesiredTotal, s.DesiredCanaries = size.Total, size.Canaries
			x.TaskGroups[name] = &s
		}
		d.deployed = &x
	}
	if r.Deploy != nil {
		x := *r.Deploy
		d.next++
		x.ID, x.CreateIndex = statetest.ID[berth.Deployment](100+d.next), planIndex
		d.deployed = &x
	}
}

// enrol makes an allocation one of the deployment if it is one.
func (d *drawn) enrol(a *berth.Alloc, more *berth.AllocMore, canary bool) {
	if x := d.deployed; x != nil && x.Active() && x.JobVersion == a.Job.Version && x.TaskGroups[a.Group.Name] != nil {
		more.DeploymentID, more.DeploymentStatus = x.ID, nil
		if canary {
			more.DeploymentStatus = &berth.AllocDeploymentStatus{Canary: true}
		}
	}
}

func (d *drawn) stop(a *berth.Alloc, more *berth.AllocMore, s berth.AllocStop) {
	n := d.input().Node(a.NodeID)
	switch {
	case s.Client == berth.ClientUnknown:
		a.Client, more.UnknownSince = berth.ClientUnknown, noon.UnixNano()
		return
	case s.Client == berth.ClientLost && !a.Ended() && (n == nil || n.Status == berth.NodeDown || n.Status == berth.NodeDisconnected):
		a.Client = berth.ClientLost
	}
	if a.Desired == berth.DesiredRun {
		a.Desired, more.StopReason, a.AllocModifyIndex = berth.DesiredStop, s.StopReason, planIndex
	}
}

func empty(r reconcile.Result) bool {
	return len(r.Missing)+len(r.Stop)+len(r.Update)+len(r.Followups) == 0 && r.Deploy == nil && r.Deployed == nil
}

// Whatever there is: once what Compare wants is done, it wants nothing more.
func TestWhatIsDoneIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		first := reconcile.Compare(d.input())
		d.apply(first)
		if r := reconcile.Compare(d.input()); !empty(r) {
			t.Fatalf("wants more: %+v\nafter %+v", r, first)
		}
	})
}

// What was orphaned is no concern of any job: it is as if it were not there.
func TestOrphansDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		in := d.input()
		var others []*berth.Alloc
		for i, a := range in.Allocs {
			if rapid.IntRange(0, 2).Draw(t, "orphaned") > 0 {
				others = append(others, a)
				continue
			}
			orphan := *a
			orphan.Orphaned = true
			in.Allocs[i] = &orphan
		}
		without := d.input()
		without.Allocs = others
		if diff := cmp.Diff(reconcile.Compare(without), reconcile.Compare(in)); diff != "" {
			t.Fatal(diff)
		}
		everywhere := func(in reconcile.Input) reconcile.PerNodeResult {
			return reconcile.ComparePerNode(reconcile.PerNodeInput{
				Input: in, Nodes: slices.DeleteFunc(slices.Clone(d.nodes), func(n *berth.Node) bool { return n == nil || !n.Ready() }),
				Keeps: in.Feasible, Recovers: func(int, *berth.Node) bool { return false },
				Retry: func(*berth.Alloc) bool { return true }, PlacedByEval: func(*berth.Alloc) bool { return false },
			})
		}
		if diff := cmp.Diff(everywhere(without), everywhere(in)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Every index below the count is held, finished, given up, waits for its time
// or for a deployment, or is placed. One name is held by one at most, beside
// canaries and what is not heard and was replaced, and none that failed is left
// beside it; none beyond the count is left running; and there are no more canaries than the deployment wants.
func TestEveryIndexIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		in := d.input()
		d.apply(reconcile.Compare(in))
		seen, canaries := map[instance]int{}, map[string]int{}
		for _, a := range d.allocs {
			if !a.Live() || a.Orphaned {
				continue
			}
			if in.Job == nil || in.Job.Stop || a.Job.UID != in.Job.UID || in.Job.Group(a.Group.Name) == nil || int(a.Index) >= in.Job.Group(a.Group.Name).Count {
				t.Fatalf("%s %s is left running", a.ID, a.Name())
			}
			switch m := a.Rest(); {
			case a.Client == berth.ClientUnknown && !m.Next.IsZero():
			case m.DeploymentStatus != nil && m.DeploymentStatus.Canary && !d.promoted(a):
				canaries[a.Group.Name]++
			default:
				seen[instance{a.Group.Name, a.Index}]++
			}
		}
		if in.Job == nil || in.Job.Stop {
			return
		}
		for _, g := range in.Job.TaskGroups {
			d.accounted(t, in, g, seen)
			if n := canaries[g.Name]; n > g.Count {
				t.Fatalf("%s has %d canaries", g.Name, n)
			}
		}
	})
}

func (d *drawn) promoted(a *berth.Alloc) bool {
	x := d.deployed
	return x != nil && a.Rest().DeploymentID == x.ID && x.TaskGroups[a.Group.Name] != nil && x.TaskGroups[a.Group.Name].Promoted
}

func (d *drawn) accounted(t *rapid.T, in reconcile.Input, g *berth.TaskGroup, seen map[instance]int) {
	t.Helper()
	waits := false
	if x := d.deployed; x != nil && x.JobVersion == in.Job.Version && x.TaskGroups[g.Name] != nil {
		waits = x.Status == berth.DeploymentFailed || x.Status == berth.DeploymentPaused || !x.TaskGroups[g.Name].Past()
	}
	for i := range uint32(g.Count) {
		k := instance{g.Name, i}
		ended := slices.ContainsFunc(d.allocs, func(a *berth.Alloc) bool {
			return a.Group.Name == g.Name && a.Index == i && a.Wanted() && a.Job.UID == in.Job.UID && (a.Client == berth.ClientFailed || a.Client == berth.ClientComplete || a.Client == berth.ClientUnknown) ||
				a.Group.Name == g.Name && a.Index == i && a.Spent() && a.Job.UID == in.Job.UID
		})
		// What failed beside one that has the name would decide for both later.
		failed := seen[k] > 0 && slices.ContainsFunc(d.allocs, func(a *berth.Alloc) bool {
			m := a.Rest()
			return a.Group.Name == g.Name && a.Index == i && a.Wanted() && a.Client == berth.ClientFailed && a.Job.UID == in.Job.UID &&
				(m.DeploymentStatus == nil || !m.DeploymentStatus.Canary)
		})
		if n := seen[k]; failed || n > 1 || n == 0 && !ended && !waits {
			for _, a := range d.allocs {
				t.Logf("%s of %s v%d: %s %s %+v", a.ID, a.Name(), a.Job.Version, a.Desired, a.Client, a.Rest())
			}
			t.Fatalf("%s[%d] runs %d times; beside one that failed and was not stopped: %v", g.Name, i, n, failed)
		}
	}
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
