package place_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/condition"
	"berth/internal/fit"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A story makes a cluster and shows where instances are placed and why.
//
//	node n1 …, nodes 3 …              see statetest.NodesOf
//	job web …                         see statetest.JobOf
//	fill n1 cpu=500 port.http=8080    another job's instance on the node
//	running web g[0] n1               an instance that is there
//	place web                         every instance that is missing
//	place web g[0] avoid=n1           one that failed there; failed instances count as reschedules
//	place web leaving=g[0]            while an instance is stopped by the same plan
//	preempt service batch             jobs of these types may evict others; of no others
//	share web ${meta.rack}            the same, but only how many are on nodes with each value
//	algorithm balanced pool=gpu       of the cluster, or of a node pool, which it makes
//	cap 2                             starts of one plan on one node
//	seed 2                            breaks ties in another way
//
// What is placed is not committed: each "place" begins with the cluster as the
// lines made it.
func TestStories(t *testing.T) {
	statetest.Stories(t, "testdata/*.txt", func(t *testing.T) func(input string) string {
		w := &world{t: t, seed: 1}
		w.store, w.log = statetest.New(t)
		return func(input string) string {
			var out strings.Builder
			for _, l := range statetest.Lines(t, input) {
				w.line(&out, l)
			}
			return out.String()
		}
	})
}

type world struct {
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	seed  uint64
	evals int
}

func (w *world) line(out *strings.Builder, l *statetest.Line) {
	w.t.Helper()
	switch l.Verb {
	case "node", "nodes":
		for _, n := range statetest.NodesOf(w.t, l) {
			w.log.Must(w.t, &state.RegisterNode{Node: n, Now: 1})
		}
		l.Done(w.t)
	case "job":
		w.register(l)
	case "fill":
		node := l.Word(0)
		l.Words[0] = "fill-" + node
		w.run(w.register(l), 0, 0, node, nil)
	case "running":
		j := w.job(l.Word(0))
		g, index := w.instance(j, l.Word(1))
		var ports []uint16
		for _, p := range l.List("ports") {
			var n uint16
			fmt.Sscan(p, &n)
			ports = append(ports, n)
		}
		w.run(j, g, index, l.Word(2), ports)
		l.Done(w.t)
	case "preempt":
		w.preempt(l)
	case "algorithm":
		w.algorithm(l)
	case "cap":
		c := *w.store.Snapshot().SchedulerConfig()
		fmt.Sscan(l.Word(0), &c.MaxStartsPerNode)
		w.log.Must(w.t, &state.SetSchedulerConfig{Config: c})
	case "share":
		w.share(out, l)
	case "seed":
		w.seed = uint64(len(l.Word(0))) * 1000003
	case "place":
		w.place(out, l)
	default:
		w.t.Fatalf("%s: not understood", l)
	}
}

func (w *world) register(l *statetest.Line) *berth.Job {
	w.t.Helper()
	w.evals++
	w.log.Must(w.t, statetest.Register(statetest.JobOf(w.t, l), w.evals))
	return w.job(l.Word(0))
}

// preempt lets jobs of the types named evict others, and of no others.
func (w *world) preempt(l *statetest.Line) {
	c := *w.store.Snapshot().SchedulerConfig()
	has := func(typ string) bool { return slices.Contains(l.Words, typ) }
	c.PreemptionConfig = berth.PreemptionConfig{
		SystemSchedulerEnabled: has(berth.TypeSystem), SysBatchSchedulerEnabled: has(berth.TypeSysbatch),
		BatchSchedulerEnabled: has(berth.TypeBatch), ServiceSchedulerEnabled: has(berth.TypeService),
	}
	w.log.Must(w.t, &state.SetSchedulerConfig{Config: c})
}

// algorithm chooses one for the cluster or for a pool.
func (w *world) algorithm(l *statetest.Line) {
	w.t.Helper()
	if pool := l.Text("pool", ""); pool != "" {
		w.log.Must(w.t, &state.UpsertNodePools{Pools: []*berth.NodePool{{
			Name: pool, SchedulerConfiguration: &berth.PoolSchedulerConfig{SchedulerAlgorithm: l.Word(0)},
		}}})
		return
	}
	c := *w.store.Snapshot().SchedulerConfig()
	c.SchedulerAlgorithm = l.Word(0)
	w.log.Must(w.t, &state.SetSchedulerConfig{Config: c})
}

// share places all that is missing and says how many instances of each group
// are then on nodes with each value of an attribute, those before included.
func (w *world) share(out *strings.Builder, l *statetest.Line) {
	w.t.Helper()
	j, snap := w.job(l.Word(0)), w.store.Snapshot()
	p := place.New(snap, j, nil, w.seed)
	for g, group := range j.TaskGroups {
		values, failed := map[string]int{}, 0
		count := func(id berth.NodeID) {
			v, ok := condition.Resolve(l.Word(1), snap.Node(id), j.Region)
			if !ok {
				v = "(none)"
			}
			values[v]++
		}
		var missing []place.Instance
		for i := range uint32(group.Count) {
			if a := w.runs(j, group.Name, i); a != nil {
				count(a.NodeID)
			} else {
				missing = append(missing, place.Instance{Index: i})
			}
		}
		o := p.Group(g, missing)
		for _, x := range o.Placed {
			count(x.NodeID)
		}
		failed = o.Failed
		fmt.Fprintf(out, "%s: %s", group.Name, counts(values))
		if failed > 0 {
			fmt.Fprintf(out, "; %d without a place", failed)
		}
		fmt.Fprintln(out)
	}
	l.Done(w.t)
}

func (w *world) job(name string) *berth.Job {
	w.t.Helper()
	for j := range w.store.Snapshot().Jobs(berth.AllNamespaces, name) {
		if string(j.ID) == name {
			return j
		}
	}
	w.t.Fatalf("there is no job %q", name)
	return nil
}

func (w *world) instance(j *berth.Job, name string) (group int, index uint32) {
	w.t.Helper()
	g, rest, _ := strings.Cut(name, "[")
	if _, err := fmt.Sscanf(rest, "%d]", &index); err != nil {
		w.t.Fatalf("%q: g[0] would name an instance", name)
	}
	group = slices.IndexFunc(j.TaskGroups, func(x *berth.TaskGroup) bool { return x.Name == g })
	if group < 0 {
		w.t.Fatalf("job %s has no group %q", j.ID, g)
	}
	return group, index
}

// run puts an instance on a node.
func (w *world) run(j *berth.Job, group int, index uint32, node string, ports []uint16) {
	w.t.Helper()
	var eval *berth.Eval
	for e := range w.store.Snapshot().EvalsOf(j.Key()) {
		eval = e
	}
	grant := berth.Grant{Ports: ports}
	if want := fit.RequestOf(j.TaskGroups[group]); want.HasNamed() {
		snap := w.store.Snapshot()
		line := snap.Usage(snap.Node(statetest.ID[berth.Node](statetest.NodeNumber(w.t, node))).Number).Draft()
		grant = line.Place(&want, 0)
	}
	p := &state.ApplyPlan{Eval: eval.ID, JobVersion: j.Version, Now: 1, Place: []berth.Placement{{
		Group: group, Index: index, NodeID: statetest.ID[berth.Node](statetest.NodeNumber(w.t, node)), Grant: grant,
	}}}
	w.log.Must(w.t, p)
	if len(p.Refused) > 0 {
		w.t.Fatalf("%s does not run on %s: %s", j.ID, node, p.Refused[0].Reason)
	}
}

// runs reports whether an instance of the job runs.
func (w *world) runs(j *berth.Job, group string, index uint32) *berth.Alloc {
	for a := range w.store.Snapshot().AllocsOf(j.Key()) {
		if a.Live() && a.Group.Name == group && a.Index == index {
			return a
		}
	}
	return nil
}

func (w *world) place(out *strings.Builder, l *statetest.Line) {
	w.t.Helper()
	j := w.job(l.Word(0))
	var leaving []berth.AllocStop
	for _, name := range l.List("leaving") {
		g, index := w.instance(j, name)
		leaving = append(leaving, berth.AllocStop{ID: w.runs(j, j.TaskGroups[g].Name, index).ID, StopReason: berth.StopReplaced})
	}
	p := place.New(w.store.Snapshot(), j, leaving, w.seed)
	if name := l.Word(1); name != "" {
		g, index := w.instance(j, name)
		in := place.Instance{Index: index, Failed: true}
		if avoid := l.Text("avoid", ""); avoid != "" {
			in.Avoid = statetest.ID[berth.Node](statetest.NodeNumber(w.t, avoid))
		}
		if prefer := l.Text("prefer", ""); prefer != "" {
			in.Prefer = statetest.ID[berth.Node](statetest.NodeNumber(w.t, prefer))
		}
		w.outcome(out, j, g, p.Group(g, []place.Instance{in}))
		l.Done(w.t)
		return
	}
	for g, group := range j.TaskGroups {
		var missing []place.Instance
		for i := range uint32(group.Count) {
			a := w.runs(j, group.Name, i)
			if a == nil || slices.ContainsFunc(leaving, func(s berth.AllocStop) bool { return s.ID == a.ID }) {
				missing = append(missing, place.Instance{Index: i})
			}
		}
		w.outcome(out, j, g, p.Group(g, missing))
	}
	l.Done(w.t)
}

func (w *world) outcome(out *strings.Builder, j *berth.Job, group int, o place.Outcome) {
	line := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	name := j.TaskGroups[group].Name
	for _, p := range o.Placed {
		s := fmt.Sprintf("%s[%d] %s %.3f", name, p.Index, w.node(p.NodeID), p.Score)
		if len(p.Ports) > 0 {
			s += fmt.Sprint(" ports ", p.Ports)
		}
		if len(p.Cores) > 0 {
			s += fmt.Sprint(" cores ", p.Cores)
		}
		for _, d := range p.Devices {
			s += fmt.Sprintf(" %s %s", d.Name, strings.Join(d.IDs, ","))
		}
		for _, id := range p.Evict {
			a := w.store.Snapshot().Alloc(id)
			s += fmt.Sprintf(" evicting %s[%d] of %s", a.Group.Name, a.Index, a.Job.ID)
		}
		line("%s", s)
	}
	if o.Failed == 0 {
		line("  %d nodes looked at", o.Why.NodesEvaluated)
		for _, s := range o.Why.ScoreMetaData {
			line("  %s %.3f%s", w.node(s.NodeID), s.NormScore, scores(s.Scores))
		}
		return
	}
	why := o.Why
	line("%s: %d without a place", name, o.Failed)
	line("  %d nodes looked at, %d in pool %s, %d filtered, %d full; available: %s", why.NodesEvaluated, why.NodesInPool, why.NodePool,
		why.NodesFiltered, why.NodesExhausted, counts(why.NodesAvailable))
	for _, k := range slices.Sorted(maps.Keys(why.ConstraintFiltered)) {
		line("  %d nodes: %s", why.ConstraintFiltered[k], k)
	}
	for _, s := range why.Shortages {
		text := fmt.Sprintf("  %d nodes: %s %d %s wanted, %d free", s.Nodes, s.Dimension, s.Wanted, s.Unit, s.Free)
		if s.Holder != "" {
			text += ", held by " + s.Holder
		}
		line("%s", strings.ReplaceAll(text, "  wanted", " wanted"))
	}
	if len(why.ClassFiltered)+len(why.ClassExhausted) > 0 {
		line("  classes filtered: %s; full: %s", counts(why.ClassFiltered), counts(why.ClassExhausted))
	}
	could, not := 0, 0
	for _, ok := range o.Missed.Classes {
		if ok {
			could++
		} else {
			not++
		}
	}
	text := fmt.Sprintf("  room on %d kinds of node would help, on %d it would not", could, not)
	if o.Missed.Escaped {
		text += ", each node must be asked"
	}
	if len(o.Missed.Dimensions) > 0 {
		text += "; short of " + strings.Join(o.Missed.Dimensions, ", ")
	}
	line("%s", text)
}

// node returns the n7 of a node's ID.
func (w *world) node(id berth.NodeID) string {
	hi, _ := id.Words()
	return fmt.Sprintf("n%d", hi>>32)
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.SortedFunc(maps.Keys(m), cmp.Compare) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(out, ", ")
}

func scores(m map[string]float64) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] != 0 {
			out = append(out, fmt.Sprintf("%s %.3f", k, m[k]))
		}
	}
	return ": " + strings.Join(out, ", ")
}
