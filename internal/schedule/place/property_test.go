package place

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"berth"
	"berth/internal/condition"
	"berth/internal/fit"
	"berth/internal/state"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plain is the placer that nobody needs to think about: for every instance it
// looks at every node anew, asks every condition of it, and takes the best.
type plain struct {
	snap  *state.Snapshot
	job   *berth.Job
	seed  uint64
	usage map[uint32]*fit.Draft
	there []spot // the job's instances

	starts map[berth.NodeID]uint
	open   []*berth.Node // when the group's turn came
	close  bool          // two scores are the same but for rounding
}

type spot struct {
	group string
	node  *berth.Node
}

func newPlain(snap *state.Snapshot, job *berth.Job, leaving map[berth.AllocID]bool, seed uint64) *plain {
	p := &plain{snap: snap, job: job, seed: seed, usage: map[uint32]*fit.Draft{}, starts: map[berth.NodeID]uint{}}
	for n := range snap.Nodes() {
		p.usage[n.Number] = snap.Usage(n.Number).Draft()
	}
	for a := range snap.AllocsOf(job.Key()) {
		if a.Wanted() && !a.Ended() && !leaving[a.ID] {
			p.there = append(p.there, spot{a.Group.Name, snap.Node(a.NodeID)})
		}
	}
	return p
}

// check follows what the clever placer did with a group: each instance must be
// on a node where it could go, with the score and the ports that are worked out
// here, and no other node may have been better.
func (p *plain) check(t *rapid.T, number int, instances []Instance, placed []berth.Placement) {
	t.Helper()
	g := p.job.TaskGroups[number]
	p.begin(g)
	for i, in := range instances {
		best, tie, some := p.best(g, in.Avoid)
		if i >= len(placed) {
			if some {
				t.Fatalf("%s[%d] is without a place, there is one", g.Name, in.Index)
			}
			return
		}
		got := placed[i]
		n := p.snap.Node(got.NodeID)
		together := p.blocks(g) == 2 // see TestTwoBlocksMeetTheirTargetsTogether
		want := fit.RequestOf(g)
		if !some || !p.allowed(g, n) || !want.Fits(&p.usage[n.Number].Usage) {
			t.Fatalf("%s[%d] cannot be on %s", g.Name, in.Index, n.Name)
		}
		if score := p.score(g, n, in.Avoid); !together && math.Abs(score-float64(got.Score)) > 1e-6 {
			t.Fatalf("%s[%d] on %s scored %v, not %v", g.Name, in.Index, n.Name, got.Score, score)
		}
		if o := p.offer(g, n, in.Avoid); together {
			// Which is best depends on what is placed later.
		} else if best.capped != o.capped || best.score-o.score > 1e-9 {
			t.Fatalf("%s[%d] is on %s: %+v, better is %+v", g.Name, in.Index, n.Name, o, best)
		} else if !p.close && best.score == o.score && tie != p.tie(n) {
			t.Fatalf("%s[%d] is on %s, another of that score comes first", g.Name, in.Index, n.Name)
		}
		grant := p.usage[n.Number].Place(&want, uint32(p.tie(n)>>33))
		wanted := berth.Placement{
			Group: number, Index: in.Index, NodeID: n.ID, Grant: grant, Score: got.Score, Previous: in.Previous, Resched: in.Failed,
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Fatalf("-plain +clever\n%s", diff)
		}
		p.there = append(p.there, spot{g.Name, n})
		p.starts[n.ID]++
	}
}

// blocks returns how many spread blocks have a say.
func (p *plain) blocks(g *berth.TaskGroup) (n int) {
	for _, x := range append(slices.Clone(p.job.Spreads), g.Spreads...) {
		if x.Weight > 0 {
			n++
		}
	}
	return n
}

func (p *plain) tie(n *berth.Node) uint64 {
	return (&round{Placer: &Placer{seed: p.seed}}).tie(n.Number)
}

// offer is what a node is worth to an instance.
type offer struct {
	capped bool
	score  float64
}

func (p *plain) offer(g *berth.TaskGroup, n *berth.Node, avoid berth.NodeID) offer {
	most := p.snap.SchedulerConfig().MaxStartsPerNode
	return offer{most > 0 && p.starts[n.ID] >= most, p.score(g, n, avoid)}
}

// best returns the best offer there is, and the lowest tie of those as good.
func (p *plain) best(g *berth.TaskGroup, avoid berth.NodeID) (best offer, tie uint64, some bool) {
	want := fit.RequestOf(g)
	p.close = false
	var first *fit.Usage
	for n := range p.snap.Nodes() {
		if !p.allowed(g, n) || !want.Fits(&p.usage[n.Number].Usage) {
			continue
		}
		o := p.offer(g, n, avoid)
		u := &p.usage[n.Number].Usage
		if some && o.capped == best.capped && math.Abs(o.score-best.score) < 1e-9 && (u.Capacity != first.Capacity || u.Used != first.Used) {
			p.close = true // which of them comes first is a matter of rounding
		}
		switch {
		case !some || best.capped && !o.capped || best.capped == o.capped && o.score > best.score:
			best, tie, some, first = o, p.tie(n), true, u
		case best == o:
			tie = min(tie, p.tie(n))
		}
	}
	return best, tie, some
}

// begin notes which values nodes have that could take an instance now: spread
// blocks share out over them.
func (p *plain) begin(g *berth.TaskGroup) {
	want := fit.RequestOf(g)
	p.open = nil
	for n := range p.snap.Nodes() {
		if p.allowed(g, n) && want.Fits(&p.usage[n.Number].Usage) {
			p.open = append(p.open, n)
		}
	}
	for _, s := range p.there {
		if s.group == g.Name {
			p.open = append(p.open, s.node)
		}
	}
}

// allowed reports whether a node meets every condition of a group.
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

// meets reports whether a node meets a constraint of a group, or with "" of the
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
		value, ok := condition.Resolve(c.LTarget, n, p.job.Region)
		used := 0
		for _, s := range p.there {
			if v, has := condition.Resolve(c.LTarget, s.node, p.job.Region); has && v == value && (group == "" || s.group == group) {
				used++
			}
		}
		return ok && used < limit
	}
	return holds(c.LTarget, c.Operand, c.RTarget, n, p.job.Region)
}

// score works out every score from its definition.
func (p *plain) score(g *berth.TaskGroup, n *berth.Node, avoid berth.NodeID) float64 {
	said := []float64{p.fit(g, n)}
	siblings := 0
	for _, x := range p.there {
		if x.node.ID == n.ID && x.group == g.Name {
			siblings++
		}
	}
	if siblings > 0 && (p.job.Type != berth.TypeBatch || p.snap.SchedulerConfigFor(p.job.NodePool).SchedulerAlgorithm != berth.AlgorithmBalanced) {
		said = append(said, -float64(siblings+1)/float64(g.Count))
	}
	if n.ID == avoid {
		said = append(said, -1)
	}
	affs := slices.Concat(p.job.Affinities, g.Affinities)
	for _, t := range g.Tasks {
		affs = append(affs, t.Affinities...)
	}
	weight, sum := 0.0, 0.0
	for _, a := range affs {
		if holds(a.LTarget, a.Operand, a.RTarget, n, p.job.Region) {
			sum += float64(a.Weight)
		}
		weight += math.Abs(float64(a.Weight))
	}
	if sum != 0 {
		said = append(said, sum/weight)
	}
	weight, sum = 0, 0
	for _, s := range slices.Concat(p.job.Spreads, g.Spreads) {
		sum += float64(s.Weight) * p.spread(g, s, n)
		weight += float64(s.Weight)
	}
	if weight > 0 {
		said = append(said, sum/weight)
	}
	all := 0.0
	for _, x := range said {
		all += x
	}
	return all / float64(len(said))
}

// fit is the word of the algorithm.
func (p *plain) fit(g *berth.TaskGroup, n *berth.Node) float64 {
	u, ask := p.usage[n.Number], g.Ask()
	free := func(room, used int64) float64 {
		if room == 0 {
			return 0
		}
		return 1 - float64(used)/float64(room)
	}
	cpu, memory := free(u.Capacity.CPU, u.Used.CPU+ask.CPU), free(u.Capacity.MemoryMB, u.Used.MemoryMB+ask.MemoryMB)
	powers := math.Pow(10, cpu) + math.Pow(10, memory)
	switch p.snap.SchedulerConfigFor(p.job.NodePool).SchedulerAlgorithm {
	case berth.AlgorithmSpread:
		return (powers - 2) / 18
	case berth.AlgorithmBalanced:
		binpack := (20 - powers) / 18
		if u.Capacity.CPU == 0 || u.Capacity.MemoryMB == 0 {
			return binpack
		}
		return max(-1, binpack-1.8*math.Pow(math.Abs(cpu-memory)/(cpu+memory+0.02), 2))
	}
	return (20 - powers) / 18
}

// spread is the word of one spread block.
func (p *plain) spread(g *berth.TaskGroup, s berth.Spread, n *berth.Node) float64 {
	left, target := 100.0, map[string]float64{}
	for _, t := range s.SpreadTarget {
		target[t.Value] = float64(t.Percent)
		left -= float64(t.Percent)
	}
	if star, ok := target["*"]; ok {
		left = star
		delete(target, "*")
	}
	others := map[string]bool{}
	for _, x := range p.open {
		if v, ok := condition.Resolve(s.Attribute, x, p.job.Region); ok {
			if _, has := target[v]; !has {
				others[v] = true
			}
		}
	}
	for v := range others {
		target[v] = left / float64(len(others))
	}
	most := 0.0
	for _, percent := range target {
		most = max(most, percent/100*float64(g.Count))
	}
	mine, ok := condition.Resolve(s.Attribute, n, p.job.Region)
	if !ok || target[mine] == 0 {
		return -1
	}
	lacking := target[mine] / 100 * float64(g.Count)
	for _, x := range p.there {
		if v, ok := condition.Resolve(s.Attribute, x.node, p.job.Region); ok && v == mine && x.group == g.Name {
			lacking--
		}
	}
	if lacking < 0 {
		return lacking / most / (1 - lacking/most)
	}
	return lacking / most
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
		{LTarget: "${node.region}", Operand: "=", RTarget: "eu"},
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

func drawSpreads(t *rapid.T) (out []berth.Spread) {
	targets := [][]berth.SpreadTarget{
		nil, nil, {{Value: "r1", Percent: 100}}, {{Value: "r1", Percent: 60}, {Value: "r2", Percent: 30}},
		{{Value: "r3", Percent: 50}, {Value: "nowhere", Percent: 50}}, {{Value: "r2", Percent: 20}, {Value: "*", Percent: 40}},
		{{Value: "1", Percent: 70}}, {{Value: "linux", Percent: 0}},
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "spreads") {
		out = append(out, berth.Spread{
			Attribute:    rapid.SampledFrom([]string{"${meta.rack}", "${meta.rack}", "${attr.os}", "${attr.unique.serial}", "${node.datacenter}"}).Draw(t, "spread"),
			Weight:       rapid.SampledFrom([]int{0, 20, 50, 100}).Draw(t, "weight"),
			SpreadTarget: rapid.SampledFrom(targets).Draw(t, "targets"),
		})
	}
	return out
}

func drawJob(t *rapid.T, id berth.JobID) *berth.Job {
	j := &berth.Job{
		ID: id, Namespace: berth.DefaultNamespace, Region: rapid.SampledFrom([]string{"eu", "eu", ""}).Draw(t, "region"),
		Priority: 50, Constraints: drawConstraints(t), Affinities: drawAffinities(t),
		Datacenters: rapid.SampledFrom([][]string{{"*"}, {"dc1"}, {"dc[23]", "nowhere"}}).Draw(t, "dcs"),
		Spreads:     drawSpreads(t),
		Type:        rapid.SampledFrom([]string{berth.TypeService, berth.TypeBatch}).Draw(t, "type"),
		NodePool:    rapid.SampledFrom([]string{"default", "all", "gpu"}).Draw(t, "pool"),
	}
	for g := range rapid.IntRange(1, 3).Draw(t, "groups") {
		restart := &berth.RestartPolicy{}
		group := &berth.TaskGroup{
			Name: fmt.Sprint("g", g), Count: rapid.IntRange(1, 8).Draw(t, "count"), RestartPolicy: restart, EphemeralDisk: &berth.EphemeralDisk{SizeMB: 10},
			Constraints: drawConstraints(t), Affinities: drawAffinities(t), Spreads: drawSpreads(t),
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

// gpuPool is scheduled in its own way.
var gpuPool = &state.UpsertNodePools{Pools: []*berth.NodePool{{
	Name: "gpu", SchedulerConfiguration: &berth.PoolSchedulerConfig{SchedulerAlgorithm: berth.AlgorithmSpread},
}}}

// drawCluster makes nodes and two jobs of which some instances run.
func drawCluster(t *rapid.T) (*state.Snapshot, *berth.Job) {
	s := state.New()
	for i := range rapid.IntRange(0, 10).Draw(t, "nodes") {
		apply(t, s, &state.RegisterNode{Node: drawNode(t, i), Now: 1})
	}
	apply(t, s, gpuPool, &state.SetSchedulerConfig{Config: berth.SchedulerConfig{
		SchedulerAlgorithm: rapid.SampledFrom([]string{berth.AlgorithmBinpack, berth.AlgorithmSpread, berth.AlgorithmBalanced}).Draw(t, "algorithm"),
		MaxStartsPerNode:   rapid.SampledFrom([]uint{0, 0, 1, 2}).Draw(t, "cap"),
	}})
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
			for i := range fit.RequestOf(j.TaskGroups[g]).Dynamic {
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

// The placer does what the plain one finds best, instance by instance: the
// scores and ports are the same, and as many are without a place.
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
			out := clever.Group(g, missing[g])
			obvious.check(t, g, missing[g], out.Placed)
			if out.Failed != len(missing[g])-len(out.Placed) {
				t.Fatalf("%d failed, %d are missing and %d placed", out.Failed, len(missing[g]), len(out.Placed))
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
		job.Spreads, job.TaskGroups[0].Spreads = nil, nil
		across := func(c berth.Constraint) bool {
			return c.Operand == berth.OpDistinctProperty && c.LTarget == "${attr.os}"
		}
		g := job.TaskGroups[0]
		for _, list := range []*[]berth.Constraint{&job.Constraints, &g.Constraints, &g.Tasks[0].Constraints} {
			*list = slices.DeleteFunc(*list, across)
		}
		apply(t, s, gpuPool, &state.RegisterJob{Job: job, Now: 1})
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

// The order in which stops are listed does not matter, nothing that is handed
// in is changed, and the same is decided again.
func TestInputsAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap, job := drawCluster(t)
		missing, leaving := drawMissing(t, snap, job)
		seed := rapid.Uint64().Draw(t, "seed")
		turned := slices.Clone(leaving)
		slices.Reverse(turned)
		one, other := New(snap, job, leaving, seed), New(snap, job, turned, seed)
		for g := range job.TaskGroups {
			before := slices.Clone(missing[g])
			a, b := one.Group(g, missing[g]), other.Group(g, missing[g])
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatalf("group %d, stops the other way round: %s", g, diff)
			}
			if diff := cmp.Diff(before, missing[g]); diff != "" {
				t.Fatalf("group %d: the instances were changed: %s", g, diff)
			}
		}
		if err := state.CheckFrozen(); err != nil {
			t.Fatal(err)
		}
	})
}
