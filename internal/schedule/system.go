package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/schedule/reconcile"
	"berth/internal/state"
)

// perNode decides an evaluation of a system or sysbatch job. It looks at all
// nodes, even if the evaluation names one: of several pending evaluations of a
// job, only the newest is decided.
func (d *decider) perNode() Decision {
	key := d.eval.Key()
	// A job that was registered again since has evaluations of its own.
	if j := d.snap.Job(key); j != nil && j.UID == d.eval.JobUID {
		d.job = j
		d.plan.JobVersion = j.Version
	}
	in := reconcile.PerNodeInput{Input: d.input(key), Retry: d.retry, PlacedByEval: d.placedByEval}
	if d.job != nil && !d.job.Stop {
		nodes := place.NewNodes(d.snap, d.job, d.work)
		in.Nodes, in.BatchPending = nodes.Ready(), d.batchPending(in.Deployment)
		in.Feasible, in.Keeps, in.Recovers = nodes.Meets, nodes.Keeps, nodes.Recovers
	}
	r := reconcile.ComparePerNode(in)
	d.plan.Stop, d.plan.Update = r.Stop, r.Update
	d.deploy(r.Deploy, r.Deployed)
	if !r.Next.IsZero() {
		d.end.Later = append(d.end.Later, state.NewEval{ID: d.newID(), TriggeredBy: berth.TriggerRollingUpdate, WaitUntil: r.Next.UnixNano()})
	}
	if d.job != nil && !d.job.Stop {
		d.waitForNodes(d.placeOnNodes(&r))
	}
	// Evaluations to create do not count: they change no allocation.
	nothing := len(d.plan.Place)+len(d.plan.Stop)+len(d.plan.Update) == 0 && r.Deploy == nil && r.Deployed == nil
	d.followUps(r.Followups)
	return Decision{Plan: d.plan, Nothing: nothing, Counts: r.Counts}
}

// retry reports whether an allocation that failed for good is tried again on
// its node. A user can ask for it, by registering the job again or by creating
// an evaluation. A system job also retries if the node has changed since, or
// was lost and came back. The reschedule policy does not apply: it is for jobs
// that can move to another node.
func (d *decider) retry(a *berth.Alloc) bool {
	if d.eval.Cause.Kind == berth.CauseUser || a.ModifyIndex < d.job.JobModifyIndex {
		return true
	}
	n := d.snap.Node(a.NodeID)
	return d.job.Type == berth.TypeSystem && n != nil && a.ModifyIndex < n.ModifyIndex
}

// placedByEval reports whether an earlier plan of this evaluation, which was
// refused in part, placed the allocation.
func (d *decider) placedByEval(a *berth.Alloc) bool {
	return a.EvalID == d.eval.ID && a.CreateIndex > d.eval.CreateIndex
}

// batchPending reports whether another evaluation is waiting to start the next
// batch of the update to the job's newest version. newest is the job's newest
// deployment, nil if it has none.
func (d *decider) batchPending(newest *berth.Deployment) bool {
	// A version's first batch comes in the plan that creates its deployment.
	// JobModifyIndex is later if the version was registered again.
	since := d.job.JobModifyIndex
	if newest != nil && newest.JobUID == d.job.UID && newest.JobVersion == d.job.Version {
		since = min(since, newest.CreateIndex)
	}
	for e := range d.snap.OpenEvalsOf(d.eval.Key(), berth.EvalPending) {
		if e.TriggeredBy == berth.TriggerRollingUpdate && e.ID != d.eval.ID && e.JobUID == d.job.UID &&
			e.WaitUntil > d.now.UnixNano() && e.CreateIndex >= since {
			return true
		}
	}
	return false
}

// placeOnNodes places missing instances on their nodes, group by group. It
// returns the shortfalls of the nodes, by group.
func (d *decider) placeOnNodes(r *reconcile.PerNodeResult) (short [][]place.Shortfall) {
	p := place.New(d.snap, d.job, d.plan.Stop, d.rand.Uint64()).Within(d.work)
	defer p.Close()
	d.plan.Explain, d.end.Queued, d.end.Failed = map[string]*berth.AllocMetric{}, map[string]int{}, map[string]*berth.AllocMetric{}
	short = make([][]place.Shortfall, len(d.job.TaskGroups))
	missing := r.Missing
	for i, g := range d.job.TaskGroups {
		// The missing ones are sorted by group.
		n := 0
		for n < len(missing) && missing[n].Group == i {
			n++
		}
		list := missing[:n]
		missing = missing[n:]
		switch c := r.Counts[g.Name]; {
		case len(list) > 0:
			out := d.placeGroupOnNodes(p, i, list)
			d.plan.Place = append(d.plan.Place, out.Placed...)
			short[i] = out.Shortfalls
			// Each shortfall stands for several nodes.
			queued := 0
			for _, s := range out.Shortfalls {
				queued += s.Count
			}
			if queued > 0 {
				out.Why.CoalescedFailures = queued - 1
				d.end.Failed[g.Name], d.end.Queued[g.Name] = out.Why, queued
			} else if len(out.Placed) > 0 {
				d.plan.Explain[g.Name] = out.Why
			} else if runsNowhere(c) {
				d.end.Failed[g.Name] = p.NoNode(i)
			}
		case g.Count > 0 && runsNowhere(c):
			d.end.Failed[g.Name] = p.NoNode(i)
		}
	}
	return short
}

// placeGroupOnNodes places instances of a group. Those that stay at an earlier
// version are placed separately.
func (d *decider) placeGroupOnNodes(p *place.Placer, group int, list []reconcile.OnNode) place.OnNodesOutcome {
	var newest []place.OnNode
	var canaries []bool // of newest
	older := map[*berth.Job][]place.OnNode{}
	var versions []*berth.Job
	// During an update, nodes that it has not reached get the old version
	// again.
	for _, m := range list {
		o := place.OnNode{Index: m.Index, Node: m.Node}
		if m.Previous != nil {
			o.Previous = m.Previous.ID
		}
		if !m.OldVersion {
			newest, canaries = append(newest, o), append(canaries, m.Canary)
			continue
		}
		version := m.Previous.Job
		if older[version] == nil {
			versions = append(versions, version)
		}
		older[version] = append(older[version], o)
	}
	// The newest version goes first: it is what the job asks for.
	out := p.OnNodes(group, newest)
	markCanaries(out.Placed, newest, canaries)
	for _, version := range versions {
		number := slices.IndexFunc(version.TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == d.job.TaskGroups[group].Name })
		old := p.OnNodesOfVersion(version, number, older[version])
		for i := range old.Placed {
			old.Placed[i].Group, old.Placed[i].Before = group, true
		}
		out.Placed, out.Shortfalls = append(out.Placed, old.Placed...), append(out.Shortfalls, old.Shortfalls...)
		if len(newest) == 0 {
			out.Why = old.Why
		}
	}
	return out
}

// markCanaries marks the placements of canaries. Placements are in the order of
// asked, without those that did not fit.
func markCanaries(placed []berth.Placement, asked []place.OnNode, canaries []bool) {
	i := 0
	for k := range placed {
		for asked[i].Node.ID != placed[k].NodeID || asked[i].Index != placed[k].Index {
			i++
		}
		placed[k].Canary = canaries[i]
	}
}

// runsNowhere reports whether a group runs on no node and has finished on none.
func runsNowhere(c *reconcile.Counts) bool { return c.Ignore+c.Update+c.Later == 0 }

// waitForNodes adds to the plan's end the nodes on which the job waits for
// capacity, and what it waits for.
func (d *decider) waitForNodes(short [][]place.Shortfall) {
	if len(d.end.Queued) == 0 {
		d.end.Queued = nil
	}
	if len(d.end.Failed) == 0 {
		d.end.Failed = nil
	}
	var waits []*state.NodeWait // one per node
	at := map[berth.NodeID]*state.NodeWait{}
	for i, list := range short {
		g := d.job.TaskGroups[i].Name
		for _, s := range list {
			w := at[s.Node.ID]
			if w == nil {
				w = &state.NodeWait{
					Nodes: []berth.NodeID{s.Node.ID}, Failed: map[string]*berth.AllocMetric{}, Queued: map[string]int{},
					Missed: &berth.Missed{Classes: map[string]bool{}, QuotaOnly: true},
				}
				at[s.Node.ID] = w
				waits = append(waits, w)
			}
			w.Failed[g], w.Queued[g] = s.Why, s.Count
			addMissed(w.Missed, s.Missed)
		}
	}
	// A blocked evaluation stays blocked for its node, unless this decision
	// schedules the next batch of an update: an evaluation that stays open has
	// no follow-up.
	if d.eval.Status == berth.EvalBlocked && len(d.end.Later) == 0 {
		if w := at[d.eval.NodeID]; w != nil {
			d.end.Status, d.end.Failed, d.end.Queued, d.end.Missed = berth.EvalBlocked, w.Failed, w.Queued, w.Missed
			waits = slices.DeleteFunc(waits, func(x *state.NodeWait) bool { return x == w })
		}
	}
	d.end.Nodes = mergeWaits(waits)
}

// maxDistinctWaits is the number of nodes up to which nodes with different free
// capacity are kept apart. Above it, all nodes that lack the same dimensions
// are merged.
const maxDistinctWaits = 1000

// mergeWaits merges nodes with the same shortfall. Most clusters have few kinds
// of nodes.
func mergeWaits(waits []*state.NodeWait) (out []state.NodeWait) {
	first := map[string]int{}
	var key strings.Builder
	for _, w := range waits {
		key.Reset()
		for _, g := range slices.Sorted(maps.Keys(w.Failed)) {
			fmt.Fprint(&key, g, w.Queued[g])
			for _, why := range slices.Sorted(maps.Keys(w.Failed[g].ConstraintFiltered)) { // it waits for a CSI volume
				fmt.Fprintf(&key, " %q", why)
			}
			for _, s := range w.Failed[g].Shortages {
				// With many nodes the exact figures are left out, so that more
				// are alike.
				fmt.Fprint(&key, " ", s.Dimension)
				if len(waits) <= maxDistinctWaits {
					fmt.Fprint(&key, " ", s.Free, s.Holder)
				}
			}
		}
		for c := range w.Missed.Classes { // a single class, that of the node
			key.WriteString(c)
		}
		i, ok := first[key.String()]
		if !ok {
			first[key.String()] = len(out)
			out = append(out, *w)
			continue
		}
		out[i].Nodes = append(out[i].Nodes, w.Nodes...)
	}
	return out
}
