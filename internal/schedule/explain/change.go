package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/fit"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/op"
)

// finder looks for changes that would place a group's missing instances. Every
// change it returns was tried: made in a copy of the state, where the job was
// then scheduled.
type finder struct {
	sandbox // with everything placed that can be placed as it is
	job     *berth.Job
	index   int // of the group
	group   *berth.TaskGroup
	// queued is the number of instances without a place, by group. No change
	// may increase it for other groups.
	queued map[string]int
	out    []rankedChange // what works
}

// rankedChange is a change with its cost for people; less is better. For a
// resource, the cost is the fraction given up; the constants below rank the
// other kinds of change.
type rankedChange struct {
	cost float64
	op.Change
}

const (
	costSpell   = 0.1 // a name spelled right
	costEnable  = 0.2 // a node that is there
	costPort    = 0.3
	costDynamic = 0.35
	costPlace   = 0.4 // another datacenter or pool
	costNode    = 0.45
	costDrop    = 0.5
)

const (
	changesKept = 5
	nearestKept = 3
	portsTried  = 8
	nodesTried  = 64 // limit of nodes tried together; more are only counted. Also the limit of constraints tried
)

// search fills in the changes that would help.
func (f *finder) search(x *op.GroupExplanation, s []place.Verdict) {
	if _, queued, ends, ok := f.settle(); ok && queued[f.group.Name] == 0 && ends > 0 {
		f.add(0, op.Change{Stopping: ends})
	}
	if len(x.Quota) > 0 { // no change of a node helps
		for _, c := range f.out {
			x.Changes = append(x.Changes, c.Change)
		}
		return
	}
	f.single(x, s)
	if len(f.out) == 0 {
		f.both(x, s)
	}
	if !f.job.PerNode() { // other nodes do not help
		f.nodes(x, s)
	}
	slices.SortStableFunc(f.out, func(a, b rankedChange) int { return cmp.Compare(a.cost, b.cost) })
	for _, c := range f.out[:min(len(f.out), changesKept)] {
		x.Changes = append(x.Changes, c.Change)
	}
}

// single looks for one change that helps.
func (f *finder) single(x *op.GroupExplanation, s []place.Verdict) {
	f.asksLess(x)
	f.conditions(x, s)
	f.ports(s)
	f.misspelt(x, s)
	f.present(s)
}

// survey fills in what is wrong with each node, and returns all verdicts, the
// nearest miss first.
func (f *finder) survey(x *op.GroupExplanation) (all []place.Verdict) {
	x.Conditions = map[string]int{}
	short := map[string]berth.Shortage{}
	here := map[berth.NodeID]int{} // instances per node, for jobs that run on every node
	for a := range f.snap.AllocsOf(f.job.Key()) {
		if f.job.PerNode() && a.Live() && a.Group.Name == f.group.Name {
			here[a.NodeID]++
		}
	}
	rules := f.rules()
	for v := range place.New(f.snap, f.job, nil, 0).Within(f.budget()).Survey(f.index) {
		if why := rules(v.Node); why != "" {
			v.Unmet = append(v.Unmet, why)
		}
		// A node that has its instances already lacks nothing.
		if n := here[v.Node.ID]; n > 0 && n >= f.group.Count {
			continue
		}
		all = append(all, v)
		x.Nodes++
		if len(v.Unmet) > 0 {
			x.Filtered++
		} else if len(v.Shortages) > 0 {
			x.Exhausted++
		}
		for _, u := range v.Unmet {
			x.Conditions[u]++
		}
		if len(v.Unmet) > 0 {
			continue
		}
		for _, s := range v.Shortages {
			have, ok := short[s.Dimension]
			if !ok {
				short[s.Dimension] = s
				continue
			}
			// The most that any node has free shows how far the ask is off.
			have.Nodes++
			have.Free = max(have.Free, s.Free)
			short[s.Dimension] = have
		}
	}
	x.Shortages = slices.SortedFunc(maps.Values(short), func(a, b berth.Shortage) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Dimension, b.Dimension))
	})
	// The nearest first: few unmet conditions, then little that is lacking.
	slices.SortStableFunc(all, func(a, b place.Verdict) int {
		return cmp.Or(cmp.Compare(len(a.Unmet), len(b.Unmet)), cmp.Compare(distance(a), distance(b)), strings.Compare(a.Node.Name, b.Node.Name))
	})
	for _, v := range all[:min(len(all), nearestKept)] {
		x.Nearest = append(x.Nearest, op.NodeVerdict{
			NodeID: v.Node.ID, Name: v.Node.Name, NodeClass: v.Node.NodeClass, Unmet: v.Unmet, Shortages: v.Shortages, Score: v.Score,
		})
	}
	return all
}

// distance returns how far a node is from having enough capacity: the missing
// fractions of what is asked, added up.
func distance(v place.Verdict) (sum float64) {
	for _, s := range v.Shortages {
		sum += float64(s.Wanted-s.Free) / float64(max(s.Wanted, 1))
	}
	return sum
}

// works reports whether, after the commands, every instance of the group finds
// a place and no other group is worse off.
func (f *finder) works(cmds ...state.Command) bool {
	w, ok := f.with(cmds...)
	if !ok {
		return false
	}
	for w.attempt = range tieBreaks {
		_, queued, _, ok := w.settle()
		if !ok || queued[f.group.Name] > 0 {
			return false
		}
		for g, n := range queued {
			if n > f.queued[g] {
				return false
			}
		}
	}
	return true
}

// tieBreaks is the number of ways to break ties with which a change must work.
const tieBreaks = 3

// add keeps a change that works. A lower cost ranks it higher.
func (f *finder) add(cost float64, c op.Change) {
	c.Text = text(&c)
	f.out = append(f.out, rankedChange{cost, c})
}

// register returns the command that would register the changed job.
func (f *finder) register(j *berth.Job) state.Command {
	return &state.RegisterJob{Job: j, Now: f.now.UnixNano()}
}

// edited returns a copy of the job, with a deep copy of the group for changing.
func (f *finder) edited() (*berth.Job, *berth.TaskGroup) {
	j, g := *f.job, *f.group
	j.TaskGroups = slices.Clone(j.TaskGroups)
	j.TaskGroups[f.index] = &g
	j.Constraints, g.Constraints = slices.Clone(j.Constraints), slices.Clone(g.Constraints)
	g.Tasks = slices.Clone(g.Tasks)
	for i, t := range g.Tasks {
		nt, r := *t, *t.Resources
		r.Networks = slices.Clone(r.Networks)
		nt.Resources, nt.Constraints = &r, slices.Clone(t.Constraints)
		g.Tasks[i] = &nt
	}
	if g.EphemeralDisk != nil {
		d := *g.EphemeralDisk
		g.EphemeralDisk = &d
	}
	g.Networks = slices.Clone(g.Networks)
	return &j, &g
}

// asksLess looks, in each dimension that is short, for the smallest reduction
// of the group's ask that helps.
func (f *finder) asksLess(x *op.GroupExplanation) {
	for _, s := range x.Shortages {
		if s.Unit == "" { // ports
			continue
		}
		from := s.Wanted
		most := from - f.floor(s.Dimension)
		try := func(amount int64) bool {
			j, _ := f.withSmallerAsk(s.Dimension, amount)
			return f.works(f.register(j))
		}
		if most <= 0 || !try(most) {
			continue
		}
		low, high := int64(0), most // low does not help, high does
		for high-low > 1 {
			if mid := low + (high-low)/2; try(mid) {
				high = mid
			} else {
				low = mid
			}
		}
		_, tasks := f.withSmallerAsk(s.Dimension, high)
		f.add(float64(high)/float64(from), op.Change{Less: &op.Less{
			Dimension: s.Dimension, Unit: s.Unit, Amount: high, From: from, To: from - high, Tasks: tasks,
		}})
	}
}

// The least that validation lets a task ask for.
const (
	leastCPU    = 1
	leastMemory = 10
	leastDisk   = 10
)

// floor returns the least that the group can ask of a dimension.
func (f *finder) floor(dim string) (sum int64) {
	if dim == fit.DimDisk { // it must hold more than the logs
		for _, t := range f.group.Tasks {
			sum += int64(t.LogConfig.MaxFiles) * int64(t.LogConfig.MaxFileSizeMB)
		}
		return max(leastDisk, sum+1)
	}
	for _, t := range f.group.Tasks {
		_, least := dimension(t, dim)
		sum += least
		if dim == fit.DimMemory {
			sum += int64(t.Resources.SecretsMB)
		}
	}
	return sum
}

// dimension returns what a task asks of a dimension, and the least it can ask.
func dimension(t *berth.Task, dim string) (asks *int, least int64) {
	if dim == fit.DimCPU {
		return &t.Resources.CPU, leastCPU
	}
	return &t.Resources.MemoryMB, leastMemory
}

// withSmallerAsk returns the job with a group that asks less of a dimension,
// and the new asks of the changed tasks. The largest task is reduced first.
func (f *finder) withSmallerAsk(dim string, amount int64) (*berth.Job, map[string]int64) {
	j, g := f.edited()
	if dim == fit.DimDisk {
		g.EphemeralDisk.SizeMB -= int(amount)
		return j, nil
	}
	tasks := slices.Clone(g.Tasks)
	slices.SortStableFunc(tasks, func(a, b *berth.Task) int {
		x, _ := dimension(a, dim)
		y, _ := dimension(b, dim)
		return cmp.Compare(*y, *x)
	})
	asks := map[string]int64{}
	for _, t := range tasks {
		have, least := dimension(t, dim)
		give := max(0, min(amount, int64(*have)-least))
		*have -= int(give)
		if amount -= give; give > 0 {
			asks[t.Name] = int64(*have)
		}
	}
	return j, asks
}

// conditions looks for a single constraint, datacenter or node pool whose
// change would give a place.
func (f *finder) conditions(x *op.GroupExplanation, all []place.Verdict) {
	for i, c := range f.constraints() {
		text := c.String()
		if i < nodesTried && x.Conditions[text] > 0 && f.works(f.register(f.without(text))) {
			f.add(costDrop, op.Change{Drop: []string{text}})
		}
	}
	tried := map[string]bool{}
	for _, v := range all {
		dc, pool := v.Node.Datacenter, v.Node.NodePool
		if !tried["dc "+dc] && len(tried) < nodesTried {
			tried["dc "+dc] = true
			if f.outside(x, dc) && f.works(f.register(f.inDatacenter(dc))) {
				f.add(costPlace, op.Change{Datacenter: dc})
			}
		}
		if !tried["pool "+pool] && len(tried) < nodesTried {
			tried["pool "+pool] = true
			if f.inOtherPool(x, pool) && f.works(f.register(f.inPool(pool))) {
				f.add(costPlace, op.Change{NodePool: pool})
			}
		}
	}
}

// outside reports whether nodes are not considered because they are in a
// datacenter.
func (f *finder) outside(x *op.GroupExplanation, dc string) bool {
	return x.Conditions["datacenter "+dc+" is not in "+strings.Join(f.job.Datacenters, ", ")] > 0
}

// inDatacenter returns the job with one more datacenter.
func (f *finder) inDatacenter(dc string) *berth.Job {
	j, _ := f.edited()
	j.Datacenters = append(slices.Clone(j.Datacenters), dc)
	return j
}

// inOtherPool reports whether nodes are not considered because they are in a pool.
func (f *finder) inOtherPool(x *op.GroupExplanation, pool string) bool {
	return x.Conditions["node pool "+pool+" is not "+f.job.NodePool] > 0
}

// inPool returns the job with another node pool.
func (f *finder) inPool(pool string) *berth.Job {
	j, _ := f.edited()
	j.NodePool = pool
	return j
}

// constraints returns the constraints that the group must meet, without
// duplicates.
func (f *finder) constraints() (out []berth.Constraint) {
	add := func(list []berth.Constraint) {
		for _, c := range list {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	add(f.job.Constraints)
	add(f.group.Constraints)
	for _, t := range f.group.Tasks {
		add(t.Constraints)
	}
	return out
}

// without returns the job without the given constraints.
func (f *finder) without(texts ...string) *berth.Job {
	j, g := f.edited()
	drop := func(c berth.Constraint) bool { return slices.Contains(texts, c.String()) }
	j.Constraints, g.Constraints = slices.DeleteFunc(j.Constraints, drop), slices.DeleteFunc(g.Constraints, drop)
	for _, t := range g.Tasks {
		t.Constraints = slices.DeleteFunc(t.Constraints, drop)
	}
	return j
}

// text returns a change as part of a sentence.
func text(c *op.Change) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if c.Stopping > 0 {
		add("waiting: %s being stopped still %s the capacity", count(c.Stopping, "allocation"), verb(c.Stopping, "holds", "hold"))
	}
	if l := c.Less; l != nil {
		add("%d %s less %s (%d instead of %d)", l.Amount, l.Unit, l.Dimension, l.To, l.From)
	}
	for _, d := range c.Drop {
		add("without the constraint %q", d)
	}
	if c.Datacenter != "" {
		add("datacenter %q added to the job's datacenters", c.Datacenter)
	}
	if c.NodePool != "" {
		add("node pool %q instead of the job's", c.NodePool)
	}
	if p := c.Port; p != nil {
		on := ""
		if p.HostNetwork != "" {
			on = " on " + p.HostNetwork
		}
		if p.Dynamic {
			add("a dynamic port instead of %d%s", p.Port, on)
		} else {
			add("port %d%s of node %s, if %s released it", p.Port, on, p.NodeName, p.Holder)
		}
	}
	if c.Nodes != nil {
		parts = append(parts, nodesText(c.Nodes))
	}
	if m := c.Misspelt; m != nil {
		add("%s instead of %s, which no node has", m.Instead, m.Attribute)
	}
	if c.Present != nil {
		parts = append(parts, presentText(c.Present))
	}
	if c.And != nil {
		parts = append(parts, text(c.And))
	}
	return strings.Join(parts, ", and ")
}

// count returns the number with its noun, with an s unless it is 1.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// verb returns the form of a verb that goes with the number.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
