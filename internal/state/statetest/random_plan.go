package statetest

import (
	"berth"
	"berth/internal/fit"
	"berth/internal/state"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// Plans as schedulers might propose them, some of which the state must refuse.

// plan draws a plan for an open evaluation. Without an open one it returns a new
// term. The plan need not fit: placements may be refused.
func (r *Random) plan(t *rapid.T, s *state.Snapshot) state.Command {
	e := r.eval(t, s)
	if e == nil {
		return r.begins(t, s)
	}
	c := &state.ApplyPlan{Eval: e.ID, Now: r.now}
	c.Stamp(s.Term)
	var later []berth.AllocID
	if j := s.Job(e.Key()); j != nil {
		c.JobVersion = j.Version
		if j.Type == berth.TypeService && rapid.IntRange(0, 2).Draw(t, "deploys") == 0 {
			r.deploys(t, s, j, c)
		}
		// Placements, on any node and for any instance.
		for range rapid.IntRange(0, 6).Draw(t, "places") {
			g := rapid.IntRange(0, len(j.TaskGroups)-1).Draw(t, "group")
			group := j.TaskGroups[g]
			p := berth.Placement{
				Group: g, Index: uint32(rapid.IntRange(0, max(group.Count-1, 0)).Draw(t, "index")),
				NodeID: ID[berth.Node](rapid.IntRange(1, 7).Draw(t, "node")),
				Score:  rapid.Float32Range(-1, 1).Draw(t, "score"),
			}
			for range fit.RequestOf(group).Dynamic {
				p.Ports = append(p.Ports, uint16(rapid.IntRange(20000, 20010).Draw(t, "port")))
			}
			// An allocation of the same instance may be the one to replace.
			for a := range s.AllocsOf(j.Key()) {
				if a.Group.Name == group.Name && a.Index == p.Index && rapid.Bool().Draw(t, "replaces") {
					p.Previous, p.Resched = a.ID, rapid.Bool().Draw(t, "failed")
				}
			}
			if rapid.IntRange(0, 2).Draw(t, "preempts") == 0 {
				for a := range s.AllocsOn(p.NodeID) {
					if rapid.Bool().Draw(t, "preempt") && (s.CannotPreempt(a, j) == "" || rapid.IntRange(0, 5).Draw(t, "whatever") == 0) {
						p.Evict = append(p.Evict, a.ID)
					}
				}
			}
			if group.Update != nil && group.Update.Canary > 0 {
				p.Canary = rapid.Bool().Draw(t, "is a canary")
			}
			if n := s.Node(p.NodeID); n != nil && !berth.InPool(n.NodePool, j.NodePool) {
				continue // no scheduler does that, and no server checks
			}
			if group.Count > 0 {
				c.Place = append(c.Place, p)
			}
		}
		for a := range s.AllocsOf(j.Key()) {
			switch rapid.IntRange(0, 7).Draw(t, "stop") {
			case 0:
				c.Stop = append(c.Stop, berth.AllocStop{ID: a.ID, StopReason: berth.StopSurplus})
			case 1:
				c.Stop = append(c.Stop, berth.AllocStop{ID: a.ID, StopReason: berth.StopOther, Text: "something else", Client: berth.ClientLost})
			case 2: // most of these make the plan refused
				if rapid.Bool().Draw(t, "as it is") || carries(j, a) {
					c.Update = append(c.Update, a.ID)
				}
			case 3:
				later = append(later, a.ID)
			}
		}
	}
	if rapid.Bool().Draw(t, "ends") {
		// Most ends are based on the newest state.
		c.End = r.end(t, e)
		if rapid.IntRange(0, 3).Draw(t, "old") > 0 {
			c.End.SnapshotIndex = s.Index
		}
		for _, id := range later {
			n := state.NewEval{ID: r.id(), TriggeredBy: berth.TriggerAllocFailure, WaitUntil: r.now + int64(time.Minute)}
			c.End.Later = append(c.End.Later, n)
			c.Stop = append(c.Stop, berth.AllocStop{ID: id, FollowupEval: n.ID})
		}
	}
	if rapid.Bool().Draw(t, "explains") {
		c.Explain = map[string]*berth.AllocMetric{"g0": {NodesEvaluated: 3, NodesAvailable: map[string]int{"dc1": 3}}}
	}
	return c
}

// carries reports whether an allocation could be carried over to the job's
// newest version in place.
func carries(j *berth.Job, a *berth.Alloc) bool {
	now := j.Group(a.Group.Name)
	if now == nil {
		return false
	}
	was, is := fit.RequestOf(a.Group), fit.RequestOf(now)
	return was.Ask == is.Ask && was.Dynamic == is.Dynamic && slices.Equal(was.Static, is.Static) && int(a.Index) < now.Count
}

// end draws the end of an evaluation: complete, or blocked because something
// did not fit.
func (r *Random) end(t *rapid.T, e *berth.Eval) *state.EvalEnd {
	end := &state.EvalEnd{
		Status: berth.EvalComplete, SnapshotIndex: 7,
		Timeline: berth.Timeline{Enqueued: r.now - 5, Dequeued: r.now - 3, Deliveries: 1},
	}
	if berth.PerNode(e.Type) {
		r.waits(t, e, end)
		return end
	}
	if rapid.Bool().Draw(t, "misses") {
		end.Failed = map[string]*berth.AllocMetric{"g0": {NodesExhausted: 1, DimensionExhausted: map[string]int{"cpu": 1}}}
		end.Queued = map[string]int{"g0": 1}
		end.Missed = &berth.Missed{Classes: map[string]bool{"v1:1": true}, Dimensions: []string{"cpu"}}
		if e.Status == berth.EvalBlocked {
			end.Status = berth.EvalBlocked
		} else {
			end.Blocked = &state.NewEval{ID: r.id(), TriggeredBy: berth.TriggerQueuedAllocs}
		}
	}
	return end
}

// waits draws what a job that runs on every node lacks capacity for.
func (r *Random) waits(t *rapid.T, e *berth.Eval, end *state.EvalEnd) {
	why := map[string]*berth.AllocMetric{"g0": {NodesExhausted: 1, DimensionExhausted: map[string]int{"cpu": 1}}}
	dims := rapid.SampledFrom([][]string{{"cpu"}, {"cpu", "memory"}}).Draw(t, "lacks")
	w := state.NodeWait{Failed: why, Queued: map[string]int{"g0": 1}, Missed: &berth.Missed{Dimensions: dims}}
	for n := range 4 {
		id := ID[berth.Node](n + 1)
		switch {
		case !rapid.Bool().Draw(t, "lacks room"):
		case e.Status == berth.EvalBlocked && e.NodeID == id:
			end.Status, end.Failed, end.Queued, end.Missed = berth.EvalBlocked, why, w.Queued, w.Missed
		default:
			w.Nodes = append(w.Nodes, id)
		}
	}
	if len(w.Nodes) > 0 {
		end.Nodes = []state.NodeWait{w}
	}
	if end.Status != berth.EvalBlocked && rapid.IntRange(0, 3).Draw(t, "rolls") == 0 {
		end.Later = append(end.Later, state.NewEval{ID: r.id(), TriggeredBy: berth.TriggerRollingUpdate, WaitUntil: r.now + int64(time.Minute)})
	}
}
