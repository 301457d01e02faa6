package evals

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"berth"
	"berth/schedule"
	"berth/schedule/explain"
	"berth/state"
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
	queued, blocked := 0, map[berth.JobKey]*berth.Eval{}
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
			blocked[e.Key()] = e
		}
	}
	st := b.Stats()
	has := st.Waiting + st.Held + st.Delayed
	for _, n := range st.Ready {
		has += n
	}
	if has != queued || st.Blocked != len(blocked) {
		h.failf("the broker has %d in its queue and %d blocked; by the state they are %d and %d: %+v", has, st.Blocked, queued, len(blocked), st)
	}
	t.ledger.mu.Lock()
	for id := range t.ledger.acked {
		if e := s.Eval(id); e != nil && e.Terminal() && b.Acked(id) == 0 {
			h.failf("a worker was done with evaluation %s, and the broker does not know", id.Short())
		}
	}
	t.ledger.mu.Unlock()
	for _, k := range jobKeys {
		e := blocked[k]
		if busy[k] || e != nil && e.Missed.Escaped && len(e.Missed.Classes) == 0 { // which is tried again by and by
			continue
		}
		if h.settledJob(s, k, e); h.failed() {
			h.describe(s, k)
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
func (h *history) settled() {
	s := h.store.Snapshot()
	for e := range s.OpenEvals(berth.EvalPending) {
		if e.WaitUntil <= now() {
			h.failf("evaluation %s of %s (%s) is pending still", e.ID.Short(), e.JobID, e.TriggeredBy)
		}
	}
	if st := h.term.ledger.broker.Stats(); st.Held > 0 {
		h.failf("%d evaluations are held by workers still", st.Held)
	}
	blocked := map[berth.JobKey]*berth.Eval{}
	for e := range s.OpenEvals(berth.EvalBlocked) {
		if other := blocked[e.Key()]; other != nil {
			h.failf("the evaluations %s and %s of %s are blocked", other.ID.Short(), e.ID.Short(), e.JobID)
		}
		blocked[e.Key()] = e
	}
	for _, k := range jobKeys {
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

// describe tells what there is of a job.
func (h *history) describe(s *state.Snapshot, k berth.JobKey) {
	if j := s.Job(k); j != nil {
		h.tell("%s is at version %d, stopped: %v", k.ID, j.Version, j.Stop)
	}
	evals := slices.SortedFunc(s.EvalsOf(k), func(a, b *berth.Eval) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	for _, e := range evals {
		h.tell("evaluation %s %d–%d %s %s by %s: %s; on %d, blocked %v", e.ID.Short(), e.CreateIndex, e.ModifyIndex, e.TriggeredBy, e.Status, e.Cause,
			e.StatusDescription, e.SnapshotIndex, e.QueuedAllocations)
	}
	for a := range s.AllocsOf(k) {
		h.tell("allocation %s %d–%d %s of version %d by %s on %s: %s %s %s", a.ID.Short(), a.CreateIndex, a.ModifyIndex, a.Name(), a.Job.Version,
			a.EvalID.Short(), a.NodeID.Short(), a.Desired, a.Client, a.Rest().DesiredDescription)
	}
}

// settledJob decides about a job once more: there is nothing left to do, and
// if it lacks a place, an evaluation waits and no node has room.
func (h *history) settledJob(s *state.Snapshot, k berth.JobKey, blocked *berth.Eval) {
	j := s.Job(k)
	e := &berth.Eval{ID: berth.EvalID{1}, Namespace: k.Namespace, JobID: k.ID, Type: berth.TypeService, JobUID: berth.UID{Index: math.MaxUint64}, Status: berth.EvalPending}
	if j != nil {
		e.Type, e.JobUID = j.Type, j.UID
	}
	plan := schedule.Decide(s, e, 0, time.Now()).Plan
	for _, p := range plan.Place {
		h.failf("%s %s[%d] is wanted, fits on node %s and is not placed", k.ID, j.TaskGroups[p.Group].Name, p.Index, s.Node(p.NodeID).Name)
	}
	for _, x := range plan.Stop {
		if x.FollowupEval.IsZero() {
			h.failf("%s is to be stopped (%s) and is not", s.Alloc(x.ID).Name(), x.Description)
		}
	}
	if n := len(plan.Update); n > 0 {
		h.failf("%d allocations of %s are of an older version", n, k.ID)
	}
	if n := len(plan.End.Later); n > 0 {
		h.failf("allocations of %s are to be replaced or given up later, and nothing will do it", k.ID)
	}
	switch {
	case len(plan.End.Failed) > 0 && blocked == nil:
		h.failf("%s lacks places for %v, and no evaluation waits for them", k.ID, plan.End.Queued)
	case len(plan.End.Failed) == 0 && blocked != nil:
		h.failf("evaluation %s of %s (%s) is blocked, and the job lacks nothing", blocked.ID.Short(), k.ID, blocked.TriggeredBy)
	}
	for name := range plan.End.Queued {
		g := j.Group(name)
		for n := range s.Nodes() {
			if plainlyFits(s, j, g, n) {
				h.failf("%s waits for a place for %q, and node %s has room", k.ID, name, n.Name)
			}
		}
	}
}

// plainlyFits says whether an instance of a group can be put on a node, in the
// plainest way, for what histories ask for.
func plainlyFits(s *state.Snapshot, j *berth.Job, g *berth.TaskGroup, n *berth.Node) bool {
	task := g.Tasks[0]
	if n.Status != berth.NodeReady || n.SchedulingEligibility != berth.NodeEligible || !n.Drivers[task.Driver].Healthy {
		return false
	}
	if !slices.Contains(j.Datacenters, "*") && !slices.Contains(j.Datacenters, n.Datacenter) {
		return false
	}
	cpu, mem := n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB
	ports, mine := map[int]bool{}, false
	free := math.MaxInt // dynamic ports
	if top := n.NodeResources.MaxDynamicPort; top > 0 {
		free = int(top) - int(n.NodeResources.MinDynamicPort) + 1
	}
	for a := range s.AllocsOn(n.ID) {
		if a.Ended() {
			continue
		}
		cpu -= int64(a.Group.Tasks[0].Resources.CPU)
		mem -= int64(a.Group.Tasks[0].Resources.MemoryMB)
		for _, nw := range a.Group.Networks {
			for _, p := range nw.ReservedPorts {
				ports[p.Value] = true
			}
			free -= len(nw.DynamicPorts)
		}
		mine = mine || a.Live() && a.Key() == j.Key() && a.Job.UID == j.UID && a.Group.Name == g.Name
	}
	if cpu < int64(task.Resources.CPU) || mem < int64(task.Resources.MemoryMB) {
		return false
	}
	for _, nw := range g.Networks {
		if len(nw.DynamicPorts) > free {
			return false
		}
		for _, p := range nw.ReservedPorts {
			if ports[p.Value] {
				return false
			}
		}
	}
	for _, c := range g.Constraints {
		switch {
		case c.Operand == berth.OpDistinctHosts && mine,
			c.Operand == berth.OpEqual && n.Meta["rack"] != c.RTarget,
			c.Operand == berth.OpNotEqual && n.Name == c.RTarget:
			return false
		}
	}
	return true
}
