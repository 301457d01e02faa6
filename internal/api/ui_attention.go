package api

import (
	"fmt"
	"slices"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// attention collects what needs a person.
type attention []op.UIAttention

// add adds a problem.
func (l *attention) add(a op.UIAttention) { *l = append(*l, a) }

// jobs counts jobs and their allocations, and finds failed deployments, those
// that wait for a promotion, and failures that nothing replaces.
func (l *attention) jobs(r *Read, out *op.UIOverview) {
	for row := range r.JobRows(state.JobRange{Namespace: r.Space()}) {
		j, sum := row.Job, row.Summary
		if !r.visible(op.ReadUIOverview.Need, j.Namespace) {
			continue
		}
		out.Jobs.Total++
		if j.Stop {
			out.Jobs.Stopped++
			continue
		}
		queued, live, failed := 0, 0, 0
		for _, g := range sum.Groups {
			a := &out.Allocs
			a.Queued, a.Complete, a.Failed = a.Queued+g.Queued, a.Complete+g.Complete, a.Failed+g.Failed
			a.Running, a.Starting, a.Lost, a.Unknown = a.Running+g.Running, a.Starting+g.Starting, a.Lost+g.Lost, a.Unknown+g.Unknown
			queued, live, failed = queued+g.Queued, live+g.Running+g.Starting, failed+g.Failed
		}
		if queued > 0 {
			out.Jobs.Waiting++
		}
		switch status, _ := sum.Status(j); {
		case status == berth.JobRunning:
			out.Jobs.Running++
		case status == berth.JobDead:
			out.Jobs.Dead++
		case queued == 0: // one that waits does not start
			out.Jobs.Pending++
		}
		if !l.deployment(r, j) && failed > 0 && live == 0 && queued == 0 && sum.Open == 0 {
			l.add(op.UIAttention{
				Kind: op.UIFailedAllocations, Namespace: j.Namespace, JobID: j.ID, Since: j.SubmitTime,
				Text: fmt.Sprintf("Nothing of it runs: %s failed and will not be replaced.", counted(failed, "allocation", "allocations")),
			})
		}
	}
}

// deployment adds the newest deployment of a job if it needs a person.
func (l *attention) deployment(r *Read, j *berth.Job) bool {
	if j.Type != berth.TypeService && j.Type != berth.TypeSystem {
		return false
	}
	d := r.NewestDeployment(j.Key(), j.UID)
	if d == nil {
		return false
	}
	a := op.UIAttention{Namespace: j.Namespace, JobID: j.ID, DeploymentID: d.ID, Since: d.ModifyTime}
	switch {
	case d.Status == berth.DeploymentFailed && d.JobVersion == j.Version:
		a.Kind, a.Text = op.UIDeploymentFailed, fmt.Sprintf("The deployment of version %d failed: %s", d.JobVersion, strings.TrimPrefix(op.DeploymentText(d), "Failed due to "))
	case d.Status == berth.DeploymentRunning && awaitsPromotion(r, d):
		a.Kind, a.Text = op.UIPromotion, fmt.Sprintf("The canaries of version %d are healthy and wait for a promotion.", d.JobVersion)
	default:
		return false
	}
	l.add(a)
	return true
}

// awaitsPromotion reports whether all that a deployment waits for is a person who
// promotes its canaries.
func awaitsPromotion(r *Read, d *berth.Deployment) bool {
	waits := false
	for name, g := range d.TaskGroups {
		if g.DesiredCanaries == 0 || g.Promoted || g.AutoPromote {
			continue
		}
		if r.HealthyCanaries(d, name) < g.DesiredCanaries {
			return false
		}
		waits = true
	}
	return waits
}

// evals counts open evaluations and says what the blocked ones lack.
func (l *attention) evals(r *Read, out *op.UIOverview) {
	for e := range r.OpenEvals(berth.EvalPending) {
		if r.visible(op.ReadUIOverview.Need, e.Namespace) {
			out.Evals.Pending++
		}
	}
	for e := range r.OpenEvals(berth.EvalBlocked) {
		if !r.visible(op.ReadUIOverview.Need, e.Namespace) {
			continue
		}
		out.Evals.Blocked++
		l.add(op.UIAttention{
			Kind: op.UIBlocked, Namespace: e.Namespace, JobID: e.JobID, EvalID: e.ID, Since: e.CreateTime, Text: whyBlocked(e),
		})
	}
}

// whyBlocked says in a sentence what the groups of a blocked evaluation lack.
func whyBlocked(e *berth.Eval) string {
	if e.QuotaLimitReached != "" {
		return fmt.Sprintf("It waits for the quota %q to have enough left.", e.QuotaLimitReached)
	}
	groups := make([]string, 0, len(e.FailedTGAllocs))
	for g := range e.FailedTGAllocs {
		groups = append(groups, g)
	}
	slices.Sort(groups)
	if len(groups) == 0 {
		return "It waits for capacity."
	}
	g := groups[0] // the first stands for all
	m := e.FailedTGAllocs[g]
	who := "It waits"
	if n := m.CoalescedFailures + 1; n > 1 {
		who = fmt.Sprintf("%d instances of %q wait", n, g)
	} else if len(groups) > 1 {
		who = fmt.Sprintf("The group %q waits", g)
	}
	return who + " for capacity: " + lacking(m) + "."
}

// lacking says what was missing on how many nodes.
func lacking(m *berth.AllocMetric) string {
	if len(m.Shortages) > 0 {
		s := slices.MaxFunc(m.Shortages, func(a, b berth.Shortage) int { return a.Nodes - b.Nodes })
		if s.Holder != "" || s.Unit == "" {
			return fmt.Sprintf("%s is taken on %s", s.Dimension, counted(s.Nodes, "node", "nodes"))
		}
		return fmt.Sprintf("%d %s of %s asked, %d free at most, on %s", s.Wanted, s.Unit, s.Dimension, s.Free, counted(s.Nodes, "node", "nodes"))
	}
	best, most := "", 0
	for c, n := range m.ConstraintFiltered {
		if n > most || n == most && c < best {
			best, most = c, n
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("%s not meet %q", counted(most, "node does", "nodes do"), best)
	case m.NodesEvaluated == 0:
		return "no node is ready in its datacenters and node pool"
	}
	return counted(m.NodesEvaluated, "node was", "nodes were") + " examined and none fits"
}

// counted is a number with its noun.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// nodes counts nodes and capacity, and finds silent nodes and full pools.
func (l *attention) nodes(r *Read, out *op.UIOverview) {
	out.Nodes = &op.UINodes{}
	pools := map[string]*op.UIPool{}
	for n := range r.Nodes() {
		p := pools[n.NodePool]
		if p == nil {
			p = &op.UIPool{Name: n.NodePool}
			pools[n.NodePool] = p
		}
		p.Nodes++
		out.Nodes.Total++
		if n.Draining() {
			out.Nodes.Draining++
		} else if n.SchedulingEligibility == berth.NodeIneligible {
			out.Nodes.Ineligible++
		}
		a := op.UIAttention{NodeID: n.ID, Name: n.Name, Since: nanos(n.StatusUpdatedAt)}
		switch n.Status {
		case berth.NodeReady:
			out.Nodes.Ready++
			u := r.Usage(n.Number)
			p.Ready++
			p.Capacity, p.Used = p.Capacity.Add(u.Capacity), p.Used.Add(u.Used)
			continue
		case berth.NodeInit:
			out.Nodes.Initializing++
			continue
		case berth.NodeDisconnected:
			out.Nodes.Disconnected++
			a.Kind, a.Text = op.UINodeDisconnected, "The node is not heard from; its allocations may come back."
		default:
			out.Nodes.Down++
			a.Kind, a.Text = op.UINodeDown, "The node is down: it missed its heartbeat."
		}
		l.add(a)
	}
	out.Pools = []op.UIPool{}
	for _, p := range pools {
		out.Pools = append(out.Pools, *p)
		if full := fullIn(p); full != "" {
			l.add(op.UIAttention{Kind: op.UIPoolFull, Name: p.Name, Text: fmt.Sprintf("The node pool %q is nearly full: %s.", p.Name, full)})
		}
	}
	slices.SortFunc(out.Pools, func(a, b op.UIPool) int { return strings.Compare(a.Name, b.Name) })
}

// fullIn says which dimension of a pool is used by nine tenths, "" if none is.
func fullIn(p *op.UIPool) string {
	for _, d := range []struct {
		name, unit     string
		capacity, used int64
	}{
		{"memory", "MiB", p.Capacity.MemoryMB, p.Used.MemoryMB}, {"cpu", "MHz", p.Capacity.CPU, p.Used.CPU}, {"disk", "MiB", p.Capacity.DiskMB, p.Used.DiskMB},
	} {
		if d.capacity > 0 && d.used*10 >= d.capacity*9 {
			return fmt.Sprintf("%d of %d %s of %s are used", d.used, d.capacity, d.unit, d.name)
		}
	}
	return ""
}
