package histories

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/schedule/explain"
	"berth/internal/state"
)

// audit compares the broker with the state, if nothing is on its way between
// them.
func (h *history) audit() {
	t := h.term
	if !t.log.idle() {
		return
	}
	h.took(audits)
	s, b := h.store.Snapshot(), t.ledger.broker
	queued, waiting, blocked := 0, 0, map[berth.JobKey]waits{}
	busy := map[berth.JobKey]bool{} // jobs of which an evaluation is to be decided, at some time
	for e := range s.OpenEvals(berth.EvalPending) {
		busy[e.Key()] = true
		if _, ok := b.Quasi(e.ID); !ok {
			h.failf("evaluation %s of %s is pending, and the broker does not have it", e.ID.Short(), e.JobID)
			continue
		}
		queued++
	}
	for e := range s.OpenEvals(berth.EvalBlocked) {
		if _, ok := b.Quasi(e.ID); ok {
			queued++
			busy[e.Key()] = true
		} else {
			waiting++
			blocked[e.Key()] = append(blocked[e.Key()], e)
		}
	}
	st := b.Stats()
	has := st.Waiting + st.Held + st.Delayed
	for _, n := range st.Ready {
		has += n
	}
	if has != queued || st.Blocked != waiting {
		h.failf("the broker has %d in its queue and %d blocked; by the state they are %d and %d: %+v", has, st.Blocked, queued, waiting, st)
	}
	t.ledger.mu.Lock()
	for id := range t.ledger.acked {
		if e := s.Eval(id); e != nil && e.Terminal() && b.Acked(id) == 0 {
			h.failf("a worker was done with evaluation %s, and the broker does not know", id.Short())
		}
	}
	t.ledger.mu.Unlock()
	if st.Offered > 0 { // what is blocked may get it by and by
		return
	}
	for d := range s.ActiveDeployments(0) { // its next step is about to be asked for
		busy[d.Key()] = busy[d.Key()] || d.Status == berth.DeploymentRunning && d.StepIndex < d.HealthIndex
	}
	for _, k := range h.keys(s) {
		gaveUp := func(e *berth.Eval) bool { return e.Missed.Escaped && len(e.Missed.Classes) == 0 } // it is tried again by and by
		if busy[k] || slices.ContainsFunc(blocked[k], gaveUp) {
			continue
		}
		if h.settledJob(s, k, blocked[k]); h.failed() {
			h.describe(s, k)
			for _, e := range blocked[k] {
				h.describeSince(e.SnapshotIndex)
				break
			}
			return
		}
	}
}

var jobKeys = func() (out []berth.JobKey) {
	for i := range jobNames {
		out = append(out, berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(fmt.Sprint("job", i))})
	}
	return out
}()

// settled checks a state in which nothing happened for long: every evaluation
// ended, waits for its time, or for what is really not there.
func (h *history) settled(calm bool) {
	s := h.store.Snapshot()
	for e := range s.OpenEvals(berth.EvalPending) {
		if e.WaitUntil <= now() {
			h.failf("evaluation %s of %s (%s) is pending still", e.ID.Short(), e.JobID, e.TriggeredBy)
		}
	}
	if st := h.term.ledger.broker.Stats(); st.Held > 0 {
		h.failf("%d evaluations are held by workers still", st.Held)
	} else if st.Offered > 0 {
		h.failf("the capacity of %d nodes is being offered still", st.Offered)
	}
	blocked := map[berth.JobKey]waits{}
	for e := range s.OpenEvals(berth.EvalBlocked) {
		if other := blocked[e.Key()].on(e.NodeID); other != nil {
			h.failf("the evaluations %s and %s of %s are blocked", other.ID.Short(), e.ID.Short(), e.JobID)
		}
		blocked[e.Key()] = append(blocked[e.Key()], e)
	}
	h.ended(s, calm, blocked)
	for _, k := range h.keys(s) {
		h.walk(s, k)
		h.settledJob(s, k, blocked[k])
		if h.failed() {
			h.describe(s, k)
			return
		}
	}
}

// walk goes through the whole story of a job as people see it: every
// evaluation stands in it once, behind the one that it came of.
func (h *history) walk(s *state.Snapshot, k berth.JobKey) {
	seen := map[berth.EvalID]bool{}
	for _, step := range explain.Trace(s, k, nil) {
		e := step.Eval
		if p := s.Eval(e.PreviousEval); seen[e.ID] || p != nil && !seen[p.ID] {
			h.failf("evaluation %s stands at the wrong place in the story of %s", e.ID.Short(), k.ID)
		}
		seen[e.ID] = true
	}
	for e := range s.EvalsOf(k) {
		if !seen[e.ID] {
			h.failf("evaluation %s is not part of the story of %s", e.ID.Short(), k.ID)
		}
	}
}

// touched returns the jobs about which something changed.
func touched(b *state.Batch) (keys []berth.JobKey) {
	for _, c := range b.Changes {
		if x, ok := cmp.Or(c.New, c.Old).(interface{ Key() berth.JobKey }); ok && !slices.Contains(keys, x.Key()) {
			keys = append(keys, x.Key())
		}
	}
	return keys
}

// describe tells what there is of a job.
func (h *history) describe(s *state.Snapshot, k berth.JobKey) {
	if j := s.Job(k); j != nil {
		h.tell("%s is at version %d of %d, stopped: %v", k.ID, j.Version, j.UID.Index, j.Stop)
		for _, g := range j.TaskGroups {
			h.tell("its group %s wants %d: update %+v, reschedule %+v, disconnect %+v", g.Name, g.Count, g.Update, g.ReschedulePolicy, g.Disconnect)
		}
	}
	evals := slices.SortedFunc(s.EvalsOf(k), func(a, b *berth.Eval) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	for _, e := range evals {
		h.tell("evaluation %s %d–%d %s %s by %s: %s; on %d, blocked %v", e.ID.Short(), e.CreateIndex, e.ModifyIndex, e.TriggeredBy, e.Status, e.Cause,
			e.StatusDescription, e.SnapshotIndex, e.QueuedAllocations)
		if e.Status == berth.EvalBlocked && e.Missed != nil {
			h.tell("it waits for node %s, and lacked %v in classes %v, escaped %v", e.NodeID.Short(), e.Missed.Dimensions, e.Missed.Classes, e.Missed.Escaped)
			for g, m := range e.FailedTGAllocs {
				h.tell("for %s: %d of %d nodes filtered by %v, exhausted %v", g, m.NodesFiltered, m.NodesEvaluated, m.ConstraintFiltered, m.DimensionExhausted)
			}
		}
	}
	for a := range s.AllocsOf(k) {
		h.tell("allocation %d–%d by %s: %s", a.CreateIndex, a.ModifyIndex, a.EvalID.Short(), tellAlloc(a))
	}
	for d := range s.DeploymentsOf(k) {
		h.tell("deployment %d–%d: %s", d.CreateIndex, d.ModifyIndex, tellDeployment(d))
	}
}

// tellAlloc says of an allocation what decisions about it follow from.
func tellAlloc(a *berth.Alloc) string {
	m := a.Rest()
	out := fmt.Sprintf("%s %s of version %d of %d on %s: %s %s", a.ID.Short(), a.Name(), a.Job.Version, a.Job.UID.Index, a.NodeID.Short(), a.Desired, a.Client)
	say := func(yes bool, format string, args ...any) {
		if yes {
			out += ", " + fmt.Sprintf(format, args...)
		}
	}
	say(m.DesiredDescription != "", "%s", m.DesiredDescription)
	say(!m.Previous.IsZero(), "replaces %s", m.Previous.Short())
	say(!m.Next.IsZero(), "replaced by %s", m.Next.Short())
	say(!m.FollowupEval.IsZero(), "waits for %s", m.FollowupEval.Short())
	say(m.Migrate, "leaves")
	say(m.Relocate, "is to be elsewhere")
	say(m.Reschedule || m.ForceReschedule, "to be placed anew")
	say(a.Orphaned, "orphaned")
	say(m.UnknownSince != 0, "unknown since %s", time.Unix(0, m.UnknownSince).UTC().Format(time.TimeOnly))
	say(!m.DeploymentID.IsZero(), "of deployment %s", m.DeploymentID.Short())
	if s := m.DeploymentStatus; s != nil {
		say(s.Canary, "a canary")
		say(s.Healthy != nil, "healthy %v", s.Healthy != nil && *s.Healthy)
	}
	return out
}

func tellDeployment(d *berth.Deployment) string {
	out := fmt.Sprintf("deployment %s of %s version %d %s: %s", d.ID.Short(), d.JobID, d.JobVersion, d.Status, d.StatusDescription)
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		g := d.TaskGroups[name]
		out += fmt.Sprintf("; %s wants %d and %d canaries, promoted %v: %d placed, %d healthy, %d not", name, g.DesiredTotal, g.DesiredCanaries, g.Promoted,
			g.PlacedAllocs, g.HealthyAllocs, g.UnhealthyAllocs)
	}
	return out
}

// describeSince tells what changed after an index.
func (h *history) describeSince(index uint64) {
	h.mu.Lock()
	last := slices.Clone(h.last)
	h.mu.Unlock()
	for _, c := range last {
		if c.Index <= index {
			continue
		}
		row := c.New
		if row == nil {
			row = c.Old
		}
		what := fmt.Sprintf("%T", row)
		switch x := row.(type) {
		case *berth.Eval:
			what = fmt.Sprintf("evaluation %s of %s %s %s on %d: %s", x.ID.Short(), x.JobID, x.TriggeredBy, x.Status, x.SnapshotIndex, x.StatusDescription)
		case *berth.Alloc:
			what = "allocation " + tellAlloc(x)
		case *berth.Node:
			what = fmt.Sprintf("node %s %s %s %v", x.Name, x.Status, x.SchedulingEligibility, x.Meta)
		case *berth.Job:
			what = fmt.Sprintf("job %s version %d priority %d, stopped: %v", x.ID, x.Version, x.Priority, x.Stop)
		case *berth.Deployment:
			what = tellDeployment(x)
		}
		if c.New == nil {
			what += " is gone"
		}
		h.tell("%d: %s", c.Index, what)
	}
}

// waits are the blocked evaluations of a job: one, or one for each node where it
// lacks room.
type waits []*berth.Eval

// on returns the one that waits for a node; of the zero ID, for any.
func (w waits) on(id berth.NodeID) *berth.Eval {
	for _, e := range w {
		if e.NodeID == id {
			return e
		}
	}
	return nil
}

// describeNode tells what holds room on a node.
func (h *history) describeNode(s *state.Snapshot, n *berth.Node) {
	h.tell("node %s has %d MHz and %d MB; it is %s, %s, at %d", n.Name, n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB, n.Status, n.SchedulingEligibility, n.ModifyIndex)
	for a := range s.AllocsOn(n.ID) {
		if a.Occupies() {
			r := a.Group.Tasks[0].Resources
			h.tell("on %s is %s %d–%d %s of priority %d with %d MHz and %d MB, networks %v: %s %s; it evicted %v", n.Name, a.ID.Short(), a.CreateIndex,
				a.ModifyIndex, a.Name(), a.Job.Priority, r.CPU, r.MemoryMB, a.Group.Networks, a.Desired, a.Client, a.Rest().Evicted)
		}
	}
}

// triesAgain reports whether a job has instances that failed for good and whose
// nodes were registered again, or turned, since: the next evaluation of the job
// tries them again, whatever raises it.
func triesAgain(s *state.Snapshot, j *berth.Job) bool {
	for a := range s.AllocsOf(j.Key()) {
		if n := s.Node(a.NodeID); a.Client == berth.ClientFailed && a.Wanted() && n != nil && a.ModifyIndex < n.ModifyIndex {
			return true
		}
	}
	return false
}

// settledJob decides about a job once more: there is nothing left to do, and
// if it lacks a place, an evaluation waits and no node has room.
func (h *history) settledJob(s *state.Snapshot, k berth.JobKey, blocked waits) {
	j := s.Job(k)
	e := &berth.Eval{ID: berth.EvalID{1}, Namespace: k.Namespace, JobID: k.ID, Type: berth.TypeService, JobUID: berth.UID{Index: math.MaxUint64}, Status: berth.EvalPending}
	if j != nil {
		e.Type, e.JobUID = j.Type, j.UID
	}
	if j != nil && j.Type == berth.TypeSystem && triesAgain(s, j) {
		return
	}
	if held(s, k) {
		return
	}
	plan := schedule.Decide(s, e, 0, time.Now()).Plan
	for _, p := range plan.Place {
		if len(p.Evict) > 0 && leaves(s, j) {
			continue
		}
		// A node that joins while a deployment waits for canaries gets its instance
		// when that ends, even if what the canaries replace is collected before.
		if j.PerNode() && p.Previous.IsZero() && steps(s, j) {
			continue
		}
		how := "fits"
		if len(p.Evict) > 0 {
			how = fmt.Sprintf("fits, if %d others go,", len(p.Evict))
		}
		h.failf("%s %s[%d] is wanted, %s on node %s and is not placed", k.ID, j.TaskGroups[p.Group].Name, p.Index, how, s.Node(p.NodeID).Name)
		h.describeNode(s, s.Node(p.NodeID))
	}
	for _, x := range plan.Stop {
		spared := x.StopReason == berth.StopReplaced && len(blocked) > 0 // it runs on while the new version has no place
		if x.FollowupEval.IsZero() && !lies(s, j, x.ID) && !spared && !fades(s, x.ID) {
			h.failf("%s is to be stopped (%s) and is not", s.Alloc(x.ID).Name(), x.Description())
		}
	}
	if n := len(plan.Update); n > 0 && !steps(s, j) {
		h.failf("%d allocations of %s are of an older version", n, k.ID)
	}
	for _, l := range plan.End.Later {
		h.failf("%s of %s is due later, and nothing will do it", l.TriggeredBy, k.ID)
	}
	if j != nil && j.PerNode() {
		h.lacksOnNodes(s, j, plan.End, blocked)
	} else {
		h.lacks(s, k, j, plan, blocked.on(berth.NodeID{}))
	}
}

// lies reports whether an instance of a job that runs on every node failed where
// nothing takes its place, so that nobody need look at it.
func lies(s *state.Snapshot, j *berth.Job, id berth.AllocID) bool {
	a := s.Alloc(id)
	n := s.Node(a.NodeID)
	return j != nil && j.PerNode() && a.Client == berth.ClientFailed && (n == nil || !n.Ready() || lacksHealth(j.Group(a.Group.Name), n))
}

// lacksHealth reports whether a driver of a node that a group needs is unhealthy.
func lacksHealth(g *berth.TaskGroup, n *berth.Node) bool {
	return g != nil && slices.ContainsFunc(g.Tasks, func(t *berth.Task) bool {
		d := n.Drivers[t.Driver]
		return d != nil && d.Detected && !d.Healthy
	})
}

// steps reports whether the deployment of a job's newest version goes on. What
// could not stay where it is in that version can when its node changed
// meanwhile; the deployment's next step finds that.
func steps(s *state.Snapshot, j *berth.Job) bool {
	for d := range s.DeploymentsOf(j.Key()) {
		if d.Active() && d.JobUID == j.UID && d.JobVersion == j.Version {
			return true
		}
	}
	return false
}

// fades reports whether an allocation that is to end is on a node that is not
// heard. Nobody waits for it there: it is lost when its node is given up, which
// is when nothing is waited for on it any more, or ends when its node is heard
// again.
func fades(s *state.Snapshot, id berth.AllocID) bool {
	a := s.Alloc(id)
	n := s.Node(a.NodeID)
	return !a.Wanted() && n != nil && n.Status == berth.NodeDisconnected
}

// lacks checks what a job waits for that runs anywhere.
func (h *history) lacks(s *state.Snapshot, k berth.JobKey, j *berth.Job, plan *state.ApplyPlan, blocked *berth.Eval) {
	end := plan.End
	evicts := slices.ContainsFunc(plan.Place, func(p berth.Placement) bool { return len(p.Evict) > 0 })
	switch {
	case len(end.Failed) > 0 && blocked == nil:
		h.failf("%s lacks places for %v, and no evaluation waits for them", k.ID, end.Queued)
	case len(end.Failed) == 0 && blocked != nil && !evicts:
		h.failf("evaluation %s of %s (%s) is blocked, and the job lacks nothing", blocked.ID.Short(), k.ID, blocked.TriggeredBy)
	}
	if j == nil || unproven(s, j) { // what it lacks can be of an older version
		return
	}
	for name := range end.Queued {
		for n := range s.Nodes() {
			h.full(s, j, j.Group(name), n)
		}
	}
}

// held reports whether a user paused the deployment of a job. What a job wants is
// another thing then, and to pause raises no evaluation: it is looked at when
// something else happens.
func held(s *state.Snapshot, k berth.JobKey) bool {
	for d := range s.DeploymentsOf(k) {
		if d.Status == berth.DeploymentPaused {
			return true
		}
	}
	return false
}

// unproven reports whether the newest version of a job has not taken the place of
// older ones, because its deployment failed, is paused, or has canaries that
// nobody promoted: then older ones may be placed again.
func unproven(s *state.Snapshot, j *berth.Job) bool {
	for d := range s.DeploymentsOf(j.Key()) {
		if j.Version == 0 || d.JobUID != j.UID || d.JobVersion != j.Version {
			continue
		}
		if d.Status == berth.DeploymentFailed || d.Status == berth.DeploymentPaused {
			return true
		}
		for _, g := range d.TaskGroups {
			if d.Active() && !g.Past() {
				return true
			}
		}
	}
	return false
}

// lacksOnNodes checks what a job waits for that runs on every node: room on
// each node that lacks it, and on no other that takes anything.
func (h *history) lacksOnNodes(s *state.Snapshot, j *berth.Job, end *state.EvalEnd, blocked waits) {
	short := map[berth.NodeID]bool{}
	for _, w := range end.Nodes {
		for _, id := range w.Nodes {
			short[id] = true
			n := s.Node(id)
			// Where the nodes that canaries wait for are not heard any more, others need
			// not wait. The deployment's end raises the evaluation that finds that.
			if blocked.on(id) == nil && !steps(s, j) {
				h.failf("%s lacks %v on node %s, and no evaluation waits for that", j.ID, w.Queued, n.Name)
			}
			for name := range w.Queued {
				if !unproven(s, j) { // else it can be an older version that lacks room
					h.full(s, j, j.Group(name), n)
				}
			}
		}
	}
	for _, e := range blocked {
		if n := s.Node(e.NodeID); !short[e.NodeID] && n != nil && n.Ready() && !leaves(s, j) && !unproven(s, j) {
			h.failf("evaluation %s of %s (%s) is blocked for node %s, and the job lacks nothing there", e.ID.Short(), j.ID, e.TriggeredBy, n.Name)
		}
	}
}

// full checks that a node has no room for an instance of a group, and that none
// can be made.
func (h *history) full(s *state.Snapshot, j *berth.Job, g *berth.TaskGroup, n *berth.Node) {
	switch {
	case plainlyFits(s, j, g, n, func(*berth.Alloc) bool { return false }):
		h.failf("%s waits for a place for %q, and node %s has room", j.ID, g.Name, n.Name)
		h.tellWanted(j, g)
		h.describeNode(s, n)
	case s.SchedulerConfig().PreemptionConfig.ServiceSchedulerEnabled && !leaves(s, j) && plainlyFits(s, j, g, n, func(a *berth.Alloc) bool { return plainlyEvictable(s, j, a) }):
		h.failf("%s waits for a place for %q, and less urgent jobs have room on node %s", j.ID, g.Name, n.Name)
		h.tellWanted(j, g)
		h.describeNode(s, n)
	}
}

func (h *history) tellWanted(j *berth.Job, g *berth.TaskGroup) {
	r := g.Tasks[0].Resources
	h.tell("wanted are %d MHz and %d MB for priority %d, networks %v, constraints %v, all at once: %v",
		r.CPU, r.MemoryMB, j.Priority, g.Networks, g.Constraints, j.AllAtOnce)
}
