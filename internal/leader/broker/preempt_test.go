package broker_test

import (
	"fmt"
	"testing"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// Changes that make preemption possible free no allocation's capacity, but wake
// waiting evaluations all the same.

// evicts sets whether service jobs may preempt others.
func evicts(on bool) state.Command {
	return &state.SetSchedulerConfig{Config: berth.SchedulerConfig{PreemptionConfig: berth.PreemptionConfig{ServiceSchedulerEnabled: on}}}
}

func urgent(t *testing.T, id string, priority, eval int, more string) state.Command {
	const text = `{"ID":%q,"Priority":%d,"TaskGroups":[{"Name":"g","Count":2,"Resources":{"CPU":3000,"MemoryMB":100}%s}]}`
	return statetest.Register(statetest.Job(t, fmt.Sprintf(text, id, priority, more)), eval)
}

// runs lets an evaluation place its job's first instance on a node, preempting
// others if there are any.
func (b *term) runs(eval, node int, over ...berth.AllocID) *berth.Alloc {
	b.t.Helper()
	b.next()
	b.do(ends(eval, func(c *state.ApplyPlan) {
		c.Place = []berth.Placement{{NodeID: statetest.ID[berth.Node](node), Evict: over}}
	}))
	for a := range b.store.Snapshot().Allocs() {
		if a.EvalID == statetest.ID[berth.Eval](eval) {
			return a
		}
	}
	b.t.Fatalf("evaluation %d placed nothing", eval)
	return nil
}

// waits lets an evaluation leave a blocked one that was decided on the newest
// state.
func (b *term) waits(eval, blocked int, change ...func(*state.ApplyPlan)) {
	b.t.Helper()
	b.next()
	b.do(ends(eval, append([]func(*state.ApplyPlan){blocks(blocked, b.class(), b.store.Snapshot().Index)}, change...)...))
	b.nothing()
}

func (b *term) wakes(want int) {
	b.t.Helper()
	if d := b.next(); number(d.Eval) != want {
		b.t.Errorf("%d is handed out", number(d.Eval))
	}
}

// When an operator enables preemption, all blocked evaluations are looked at.
// Disabling it, or another change, wakes none.
func TestPreemptionSwitchedOn(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(node(1), urgent(t, "web", 50, 1, ""))
		b.waits(1, 2)
		b.do(evicts(true))
		b.wakes(2)
	})
	inTerm(t, func(b *term) {
		b.do(node(1), evicts(true), urgent(t, "web", 50, 1, ""))
		b.waits(1, 2)
		b.do(evicts(false))
		b.nothing()
	})
	inTerm(t, func(b *term) { // it came after the decision and before the commit
		b.do(node(1), urgent(t, "web", 50, 1, ""))
		b.next()
		on := b.store.Snapshot().Index
		b.do(evicts(true))
		b.do(ends(1, blocks(2, b.class(), on)))
		b.wakes(2)
	})
}

// An instance that becomes less urgent in place can be preempted.
func TestLessUrgentInPlace(t *testing.T) {
	for _, to := range []int{20, 90} {
		inTerm(t, func(b *term) {
			b.do(node(1), evicts(true), urgent(t, "low", 50, 1, ""))
			a := b.runs(1, 1)
			b.do(urgent(t, "web", 50, 2, ""))
			b.waits(2, 3)
			b.do(urgent(t, "low", to, 4, ""))
			b.next()
			b.do(ends(4, func(c *state.ApplyPlan) { c.JobVersion, c.Update = 1, []berth.AllocID{a.ID} }))
			if got := b.store.Snapshot().Alloc(a.ID).Job.Priority; got != to {
				t.Fatalf("it has the priority %d", got)
			}
			if to > 50 {
				b.nothing()
			} else {
				b.wakes(3)
			}
		})
	}
}

// An allocation whose victims have ended can be preempted itself, with
// everything that it holds.
func TestItsVictimsHaveEnded(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(node(1), evicts(true), urgent(t, "low", 10, 1, ""))
		victim := b.runs(1, 1)
		b.do(urgent(t, "mid", 30, 2, `,"Networks":[{"ReservedPorts":[{"Label":"a","Value":80}]}]`))
		b.runs(2, 1, victim.ID)
		b.wakesAfterEviction("low")
		b.do(urgent(t, "web", 50, 3, ""))
		b.waits(3, 4, func(c *state.ApplyPlan) { c.End.Missed.Dimensions = []string{fit.DimDynamic} })
		b.do(&state.ReportAllocs{Node: victim.NodeID, Updates: []state.AllocUpdate{{ID: victim.ID, Client: berth.ClientComplete}}})
		b.wakes(4)
	})
}

// wakesAfterEviction completes the evaluation of a preempted job.
func (b *term) wakesAfterEviction(job berth.JobID) {
	b.t.Helper()
	d := b.next()
	if d.Eval.JobID != job || d.Eval.TriggeredBy != berth.TriggerPreemption {
		b.t.Fatalf("handed out is %s of %s", d.Eval.TriggeredBy, d.Eval.JobID)
	}
	b.do(&state.ApplyPlan{Eval: d.Eval.ID, End: &state.EvalEnd{Status: berth.EvalComplete}})
}

// A job waits for its own allocations to stop rather than preempt others. If
// their node becomes ineligible, it need not wait any longer.
func TestFreedCapacityOnAnIneligibleNode(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(node(1), node(2), evicts(true), urgent(t, "web", 50, 1, ""))
		a := b.runs(1, 1)
		b.do(urgent(t, "web", 50, 2, ""))
		b.waits(2, 3, func(c *state.ApplyPlan) { c.Stop = []berth.AllocStop{{ID: a.ID}} })
		b.do(&state.SetNodeEligibility{ID: statetest.ID[berth.Node](2), Eligibility: berth.NodeIneligible})
		b.nothing() // nothing leaves there
		b.do(&state.SetNodeEligibility{ID: a.NodeID, Eligibility: berth.NodeIneligible})
		b.wakes(3)
	})
	inTerm(t, func(b *term) { // which took nothing any more before it was known that something leaves there
		b.do(node(1), node(2), evicts(true), urgent(t, "web", 50, 1, ""))
		a := b.runs(1, 1)
		decided := b.store.Snapshot().Index
		b.do(&state.SetNodeEligibility{ID: a.NodeID, Eligibility: berth.NodeIneligible})
		b.do(urgent(t, "web", 50, 2, ""))
		b.next()
		b.do(ends(2, blocks(3, b.class(), decided), func(c *state.ApplyPlan) { c.Stop = []berth.AllocStop{{ID: a.ID}} }))
		b.wakes(3)
	})
	inTerm(t, func(b *term) { // which has ended in the same commit
		b.do(node(1), node(2), evicts(true), urgent(t, "web", 50, 1, ""))
		a := b.runs(1, 1)
		b.do(urgent(t, "web", 50, 2, ""))
		b.waits(2, 3, func(c *state.ApplyPlan) { c.Stop = []berth.AllocStop{{ID: a.ID}} })
		b.do(&state.SetNodeEligibility{ID: a.NodeID, Eligibility: berth.NodeIneligible},
			&state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}})
		b.wakes(3)
	})
}

// A job could not update an allocation in place because the node did not meet
// the constraints of the newest version. When the node changes it can, even if
// the node is ineligible.
func TestAnIneligibleNodeMeetsConstraints(t *testing.T) {
	for _, carried := range []bool{false, true} {
		inTerm(t, func(b *term) {
			b.do(node(1), urgent(t, "web", 50, 1, ""))
			a := b.runs(1, 1)
			b.do(urgent(t, "web", 60, 2, ""))
			b.next()
			b.do(ends(2, blocks(3, b.class(), b.store.Snapshot().Index), func(c *state.ApplyPlan) {
				if c.JobVersion = 1; carried {
					c.Update = []berth.AllocID{a.ID}
				}
			}))
			b.do(&state.SetNodeEligibility{ID: a.NodeID, Eligibility: berth.NodeIneligible})
			b.nothing()
			same := *b.store.Snapshot().Node(a.NodeID)
			b.do(&state.RegisterNode{Node: &same})
			b.nothing()
			other := same
			other.Meta = map[string]string{"rack": "r2"}
			if b.do(&state.RegisterNode{Node: &other}); carried {
				b.nothing()
			} else {
				b.wakes(3)
			}
		})
	}
}
