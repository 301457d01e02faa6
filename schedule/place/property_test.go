package place

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"berth"
	"berth/state"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plain is the placer that nobody needs to think about: for every instance it
// looks at every node anew, asks every condition of it, and takes the best.
type plain struct {
	snap  *state.Snapshot
	job   *berth.Job
	seed  uint64
	edit  uint64
	usage map[uint32]*state.Usage
	there []spot // the job's instances
}

type spot struct {
	group string
	node  *berth.Node
}

func newPlain(snap *state.Snapshot, job *berth.Job, leaving map[berth.AllocID]bool, seed uint64) *plain {
	p := &plain{snap: snap, job: job, seed: seed, edit: state.NewEdit(), usage: map[uint32]*state.Usage{}}
	for n := range snap.Nodes() {
		u := *snap.Usage(n.Number)
		p.usage[n.Number] = &u
	}
	for a := range snap.AllocsOf(job.Key()) {
		if a.Wanted() && !a.Ended() && !leaving[a.ID] {
			p.there = append(p.there, spot{a.Group.Name, snap.Node(a.NodeID)})
		}
	}
	return p
}

func (p *plain) group(number int, instances []Instance) (placed []berth.Placement) {
	g := p.job.TaskGroups[number]
	want := state.WantOf(g)
	for _, in := range instances {
		var best *berth.Node
		var bestScore float64
		var bestTie uint64
		for n := range p.snap.Nodes() {
			if !p.allowed(g, n) || !want.Fits(p.usage[n.Number]) {
				continue
			}
			score := p.score(g, &want, n, in.Avoid)
			tie := (&round{Placer: &Placer{seed: p.seed}}).tie(n.Number)
			if best == nil || score > bestScore || score == bestScore && tie < bestTie {
				best, bestScore, bestTie = n, score, tie
			}
		}
		if best == nil {
			continue
		}
		grant := p.usage[best.Number].Place(p.edit, &want, uint32(bestTie>>33))
		p.there = append(p.there, spot{g.Name, best})
		placed = append(placed, berth.Placement{
			Group: number, Index: in.Index, NodeID: best.ID, Grant: grant, Score: float32(bestScore), Previous: in.Previous, Resched: in.Failed,
		})
	}
	return placed
}

// allowed says whether a node meets every condition of a group.
func (p *plain) allowed(g *berth.TaskGroup, n *berth.Node) bool {
	if n.Status != berth.NodeReady || n.SchedulingEligibility != berth.NodeEligible || !inDatacenters(p.job.Datacenters, n.Datacenter) {
		return false
	}
	if p.job.NodePool != "all" && p.job.NodePool != n.NodePool {
		return false
	}
	cons := slices.Concat(g.Constraints)
	for _, t := range g.Tasks {
		if d := n.Drivers[t.Driver]; d == nil || !d.Detected || !d.Healthy {
			return false
		}
		cons = append(cons, t.Constraints...)
	}
	for _, c := range cons {
		if !p.meets(c, g.Name, n) {
			return false
		}
	}
	for _, c := range p.job.Constraints {
		if !p.meets(c, "", n) {
			return false
		}
	}
	return true
}

// meets says whether a node meets a constraint of a group, or with "" of the
// job.
func (p *plain) meets(c berth.Constraint, group string, n *berth.Node) bool {
	switch c.Operand {
	case berth.OpDistinctHosts:
		return !slices.ContainsFunc(p.there, func(s spot) bool { return s.node.ID == n.ID && (group == "" || s.group == group) })
	case berth.OpDistinctProperty:
		limit := 1
		if c.RTarget != "" {
			limit, _ = strconv.Atoi(c.RTarget)
		}
		value, ok := resolve(c.LTarget, n)
		used := 0
		for _, s := range p.there {
			if v, has := resolve(c.LTarget, s.node); has && v == value && (group == "" || s.group == group) {
				used++
			}
		}
		return ok && used < limit
	}
	return holds(c.LTarget, c.Operand, c.RTarget, n)
}

func (p *plain) score(g *berth.TaskGroup, want *state.Want, n *berth.Node, avoid berth.NodeID) float64 {
	s := parts{binpack: binpack(p.usage[n.Number], want.Ask), penalty: n.ID == avoid}
	siblings := 0
	for _, x := range p.there {
		if x.node.ID == n.ID && x.group == g.Name {
			siblings++
		}
	}
	if siblings > 0 {
		s.anti = -float64(siblings+1) / float64(g.Count)
	}
	affs := slices.Concat(p.job.Affinities, g.Affinities)
	for _, t := range g.Tasks {
		affs = append(affs, t.Affinities...)
	}
	weight, sum := 0.0, 0.0
	for _, a := range affs {
		s.hasAff = true
		if holds(a.LTarget, a.Operand, a.RTarget, n) {
			sum += float64(a.Weight)
		}
		weight += max(float64(a.Weight), -float64(a.Weight))
	}
	if s.hasAff {
		s.affinity = sum / weight
	}
	return s.mean()
}

// apply changes a store as a log of one server would.
func apply(t *rapid.T, s *state.Store, cmds ...state.Command) {
	t.Helper()
	tx := state.Begin(s.Snapshot())
	for _, c := range cmds {
		if r := tx.Apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	s.Publish(tx.End())
}

func drawNode(t *rapid.T, number int) *berth.Node {
	one := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	n := &berth.Node{
		ID: berth.NodeID{byte(number + 1)}, SecretID: "secret", Name: fmt.Sprint("n", number), SchedulingEligibility: berth.NodeEligible,
		Datacenter: one("dc", "dc1", "dc1", "dc2"), NodePool: one("pool", "default", "default", "gpu"),
		NodeClass: one("class", "", "big"), Status: one("status", berth.NodeReady, berth.NodeReady, berth.NodeReady, berth.NodeInit),
		Attributes: map[string]string{"os": one("os", "linux", "bsd"), "unique.serial": fmt.Sprint(number % 3)},
		Meta:       map[string]string{"rack": one("rack", "r1", "r2", "r3")},
		NodeResources: &berth.NodeResources{
			Cpu:    berth.NodeCpuResources{CpuShares: int64(rapid.IntRange(0, 8).Draw(t, "cpu")) * 500},
			Memory: berth.NodeMemoryResources{MemoryMB: int64(rapid.IntRange(1, 6).Draw(t, "mem")) * 500},
			Disk:   berth.NodeDiskResources{DiskMB: 2000}, MinDynamicPort: 20000, MaxDynamicPort: rapid.IntRange(20001, 20004).Draw(t, "ports"),
		},
		Drivers: map[string]*berth.DriverInfo{"mock_driver": {Detected: true, Healthy: rapid.IntRange(0, 9).Draw(t, "driver") > 0}},
	}
	if rapid.IntRange(0, 5).Draw(t, "no rack") == 0 {
		n.Meta = nil
	}
	return n
}

func drawConstraints(t *rapid.T) (out []berth.Constraint) {
	all := []berth.Constraint{
		{LTarget: "${attr.os}", Operand: "=", RTarget: "linux"},
		{LTarget: "${attr.unique.serial}", Operand: ">=", RTarget: "1"},
		{LTarget: "${meta.rack}", Operand: "!=", RTarget: "r3"},
		{LTarget: "${node.unique.name}", Operand: "regexp", RTarget: "[0-4]$"},
		{Operand: berth.OpDistinctHosts},
		{LTarget: "${meta.rack}", Operand: berth.OpDistinctProperty},
		{LTarget: "${attr.os}", Operand: berth.OpDistinctProperty, RTarget: "2"},
		{LTarget: "${meta.rack}", Operand: berth.OpIsSet},
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "constraints") {
		out = append(out, rapid.SampledFrom(all).Draw(t, "constraint"))
	}
	return out
}

func drawAffinities(t *rapid.T) (out []berth.Affinity) {
	all := []berth.Affinity{
		{LTarget: "${meta.rack}", Operand: "=", RTarget: "r2"}, {LTarget: "${attr.os}", Operand: "=", RTarget: "bsd"},
		{LTarget: "${attr.unique.serial}", Operand: "=", RTarget: "1"},
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "affinities") {
		a := rapid.SampledFrom(all).Draw(t, "affinity")
		a.Weight = rapid.SampledFrom([]int{-100, -50, 50, 100}).Draw(t, "weight")
		out = append(out, a)
	}
	return out
}

func drawJob(t *rapid.T, id berth.JobID) *berth.Job {
	j := &berth.Job{
		ID: id, Namespace: berth.DefaultNamespace, Type: berth.TypeService, Priority: 50, Constraints: drawConstraints(t), Affinities: drawAffinities(t),
		Datacenters: rapid.SampledFrom([][]string{{"*"}, {"dc1"}, {"dc[23]", "nowhere"}}).Draw(t, "dcs"),
		NodePool:    rapid.SampledFrom([]string{"default", "all", "gpu"}).Draw(t, "pool"),
	}
	for g := range rapid.IntRange(1, 3).Draw(t, "groups") {
		restart := &berth.RestartPolicy{}
		group := &berth.TaskGroup{
			Name: fmt.Sprint("g", g), Count: rapid.IntRange(1, 8).Draw(t, "count"), RestartPolicy: restart, EphemeralDisk: &berth.EphemeralDisk{SizeMB: 10},
			Constraints: drawConstraints(t), Affinities: drawAffinities(t),
			Tasks: []*berth.Task{{
				Name: "task", Driver: "mock_driver", RestartPolicy: restart, LogConfig: &berth.LogConfig{}, Constraints: drawConstraints(t),
				Resources: &berth.Resources{CPU: rapid.IntRange(1, 3).Draw(t, "cpu") * 250, MemoryMB: rapid.IntRange(1, 3).Draw(t, "mem") * 250},
			}},
		}
		nw := berth.NetworkResource{Mode: berth.NetworkHost}
		for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "dynamic") {
			nw.DynamicPorts = append(nw.DynamicPorts, berth.Port{Label: fmt.Sprint("p", i)})
		}
		if rapid.IntRange(0, 3).Draw(t, "static") == 0 {
			nw.ReservedPorts = []berth.Port{{Label: "s", Value: rapid.SampledFrom([]int{80, 443, 20001}).Draw(t, "port")}}
		}
		group.Networks = []berth.NetworkResource{nw}
		j.TaskGroups = append(j.TaskGroups, group)
	}
	return j
}

// drawCluster makes nodes and two jobs of which some instances run.
func drawCluster(t *rapid.T) (*state.Snapshot, *berth.Job) {
	s := state.New()
	for i := range rapid.IntRange(0, 10).Draw(t, "nodes") {
		apply(t, s, &state.RegisterNode{Node: drawNode(t, i), Now: 1})
	}
	for i, id := range []berth.JobID{"other", "web"} {
		j := drawJob(t, id)
		eval := berth.EvalID{byte(i + 1)}
		apply(t, s, &state.RegisterJob{Job: j, Now: 1, Eval: state.EvalSeed{ID: eval, Cause: berth.Cause{Kind: berth.CauseUser}}})
		for range rapid.IntRange(0, 4).Draw(t, "running") {
			g := rapid.IntRange(0, len(j.TaskGroups)-1).Draw(t, "group")
			p := berth.Placement{
				Group: g, Index: uint32(rapid.IntRange(0, j.TaskGroups[g].Count-1).Draw(t, "index")),
				NodeID: berth.NodeID{byte(rapid.IntRange(1, 10).Draw(t, "node"))},
			}
			for i := range state.WantOf(j.TaskGroups[g]).Dynamic {
				p.Ports = append(p.Ports, uint16(20000+i+rapid.IntRange(0, 1).Draw(t, "port")*2))
			}
			apply(t, s, &state.ApplyPlan{Eval: eval, Place: []berth.Placement{p}, Now: 1})
		}
	}
	snap := s.Snapshot()
	return snap, snap.Job(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"})
}

// drawMissing draws which instances want a place, and what leaves.
func drawMissing(t *rapid.T, snap *state.Snapshot, job *berth.Job) (missing [][]Instance, leaving []berth.AllocStop) {
	held := map[string]bool{}
	for a := range snap.AllocsOf(job.Key()) {
		if rapid.IntRange(0, 2).Draw(t, "leaves") == 0 {
			leaving = append(leaving, berth.AllocStop{ID: a.ID})
		} else {
			held[a.Name()] = true
		}
	}
	for _, g := range job.TaskGroups {
		var list []Instance
		for i := range uint32(g.Count) {
			if held[berth.AllocName(job.ID, g.Name, i)] {
				continue
			}
			in := Instance{Index: i}
			if rapid.IntRange(0, 2).Draw(t, "failed") == 0 {
				in.Failed, in.Avoid = true, berth.NodeID{byte(rapid.IntRange(1, 10).Draw(t, "avoid"))}
			}
			list = append(list, in)
		}
		missing = append(missing, list)
	}
	return missing, leaving
}

// The placer finds what the plain one finds: the same nodes, scores and ports,
// and as many without a place.
func TestAsThePlainOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap, job := drawCluster(t)
		missing, leaving := drawMissing(t, snap, job)
		gone := map[berth.AllocID]bool{}
		for _, s := range leaving {
			gone[s.ID] = true
		}
		seed := rapid.Uint64().Draw(t, "seed")
		clever, obvious := New(snap, job, leaving, seed), newPlain(snap, job, gone, seed)
		for g := range job.TaskGroups {
			out, want := clever.Group(g, missing[g]), obvious.group(g, missing[g])
			if diff := cmp.Diff(want, out.Placed); diff != "" {
				t.Fatalf("group %d: -plain +clever\n%s", g, diff)
			}
			if out.Failed != len(missing[g])-len(want) {
				t.Fatalf("%d failed, %d are missing and %d placed", out.Failed, len(missing[g]), len(want))
			}
			explained(t, &out)
		}
	})
}

// explained checks that an explanation adds up.
func explained(t *rapid.T, out *Outcome) {
	t.Helper()
	if out.Why == nil {
		t.Fatal("nothing is explained")
	}
	if out.Failed == 0 {
		if len(out.Placed) > 0 && float32(out.Why.ScoreMetaData[0].NormScore) != out.Placed[0].Score {
			t.Fatalf("the first scored %v, not %v", out.Placed[0].Score, out.Why.ScoreMetaData[0].NormScore)
		}
		return
	}
	why := out.Why
	filtered, available := 0, 0
	for _, n := range why.ConstraintFiltered {
		filtered += n
	}
	for _, n := range why.NodesAvailable {
		available += n
	}
	switch {
	case filtered != why.NodesFiltered:
		t.Fatalf("%d nodes are filtered, the reasons say %d", why.NodesFiltered, filtered)
	case why.NodesFiltered+why.NodesExhausted != why.NodesEvaluated:
		t.Fatalf("%d nodes were looked at, %d filtered and %d full", why.NodesEvaluated, why.NodesFiltered, why.NodesExhausted)
	case available != why.NodesEvaluated:
		t.Fatalf("%d nodes were looked at, %d available", why.NodesEvaluated, available)
	case out.Missed == nil:
		t.Fatal("nothing is said to help")
	}
	for _, s := range why.Shortages {
		if s.Wanted <= s.Free || s.Nodes != why.DimensionExhausted[s.Dimension] {
			t.Fatalf("%+v, %d nodes", s, why.DimensionExhausted[s.Dimension])
		}
	}
}

// More nodes never place less of one group. Two properties that cut across each
// other are left out: then the best first is not always the most.
func TestMoreNodesPlaceNoLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state.New()
		job := drawJob(t, "web")
		job.TaskGroups = job.TaskGroups[:1]
		across := func(c berth.Constraint) bool {
			return c.Operand == berth.OpDistinctProperty && c.LTarget == "${attr.os}"
		}
		g := job.TaskGroups[0]
		for _, list := range []*[]berth.Constraint{&job.Constraints, &g.Constraints, &g.Tasks[0].Constraints} {
			*list = slices.DeleteFunc(*list, across)
		}
		apply(t, s, &state.RegisterJob{Job: job, Now: 1})
		was := 0
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			apply(t, s, &state.RegisterNode{Node: drawNode(t, i), Now: 1})
			j := s.Snapshot().Job(job.Key())
			instances := make([]Instance, j.TaskGroups[0].Count)
			for i := range instances {
				instances[i].Index = uint32(i)
			}
			now := len(New(s.Snapshot(), j, nil, 7).Group(0, instances).Placed)
			if now < was {
				t.Fatalf("%d are placed on %d nodes, %d on one less", now, i+1, was)
			}
			was = now
		}
	})
}
