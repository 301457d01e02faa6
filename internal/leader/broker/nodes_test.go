package broker_test

import (
	"testing"
	"testing/synctest"

	"berth"
	"berth/internal/fit"
	"berth/internal/leader/broker"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A change on one node wakes only the evaluations that wait for that node.
func TestNodesAreWokenOneByOne(t *testing.T) {
	inTerm(t, func(b *term) {
		b.everywhere(4)
		free := statetest.AddNode(2, 8000, 4000)
		b.do(free)
		d := b.next()
		if d.Eval.NodeID != free.Node.ID || d.Eval.Status != berth.EvalBlocked {
			t.Fatalf("handed out is %s for node %s", d.Eval.TriggeredBy, d.Eval.NodeID)
		}
		b.nothing()
		if s := b.Stats(); s.Blocked != 3 || s.Held != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// everywhere registers a job that runs on every node and lacks capacity on each
// of n of them.
func (b *term) everywhere(n int) {
	b.t.Helper()
	end := &state.EvalEnd{Status: berth.EvalComplete}
	for i := range n {
		b.do(node(i + 1))
		end.Nodes = append(end.Nodes, state.NodeWait{
			Nodes: []berth.NodeID{statetest.ID[berth.Node](i + 1)}, Queued: map[string]int{"g": 1},
			Failed: map[string]*berth.AllocMetric{"g": {NodesExhausted: 1}}, Missed: &berth.Missed{Dimensions: []string{fit.DimCPU}},
		})
	}
	b.do(statetest.Register(statetest.Job(b.t, `{"ID":"log","Type":"system","TaskGroups":[{"Name":"g","Resources":{"CPU":3000,"MemoryMB":100}}]}`), 1))
	d := b.next()
	end.SnapshotIndex = b.store.Snapshot().Index
	b.do(&state.ApplyPlan{Eval: d.Eval.ID, End: end})
	if s := b.Stats(); s.Blocked != n {
		b.t.Fatalf("%+v", s)
	}
}

// Of the evaluations of one job that were woken together only the newest is
// delivered. The others go on waiting: none is cancelled, and capacity wakes
// each of them again.
func TestSupersededWaitersGoOnWaiting(t *testing.T) {
	inTerm(t, func(b *term) {
		b.everywhere(3)
		b.do(statetest.AddNode(1, 4500, 4000), statetest.AddNode(2, 4500, 4000), statetest.AddNode(3, 4500, 4000))
		first := b.next()
		b.nothing()
		if s := b.Stats(); s.Blocked != 2 || s.Held != 1 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		open := 0
		for range b.store.Snapshot().OpenEvals(berth.EvalBlocked) {
			open++
		}
		if open != 3 {
			t.Errorf("%d are blocked by the state", open)
		}
		// It decides, still without room: what it says leaves all as they are.
		stays := &state.ApplyPlan{Eval: first.Eval.ID, End: &state.EvalEnd{
			Status: berth.EvalBlocked, SnapshotIndex: b.store.Snapshot().Index, Queued: map[string]int{"g": 1},
			Failed: first.Eval.FailedTGAllocs, Missed: first.Eval.Missed,
		}}
		for n := range 3 {
			if id := statetest.ID[berth.Node](n + 1); id != first.Eval.NodeID {
				stays.End.Nodes = append(stays.End.Nodes, state.NodeWait{
					Nodes: []berth.NodeID{id}, Queued: map[string]int{"g": 1}, Failed: first.Eval.FailedTGAllocs, Missed: first.Eval.Missed,
				})
			}
		}
		b.do(stays)
		if err := b.Ack(first.Eval.ID, first.Token); err != nil {
			t.Error(err)
		}
		b.nothing()
		if s := b.Stats(); s.Blocked != 3 || s.Held != 0 {
			t.Errorf("%+v", s)
		}
		for n := range 3 {
			b.do(statetest.AddNode(n+1, 9000, 4000))
			d := b.next()
			if d.Eval.NodeID != statetest.ID[berth.Node](n+1) {
				t.Errorf("node %d wakes who waits for %s", n+1, d.Eval.NodeID)
			}
			if err := b.Nack(d.Eval.ID, d.Token); err != nil {
				t.Error(err)
			}
			b.pass(broker.DefaultLimits.NackTimeout)
			again := b.next()
			b.do(&state.CancelEvals{IDs: []berth.EvalID{again.Eval.ID}, Why: "drawn"})
		}
		b.nothing()
	})
}

// Capacity that came after the state on which the newest evaluation of a job
// was decided is not missed by the evaluations that were left to it, because it
// did not see that capacity.
func TestCapacityThatTheNewestDidNotSee(t *testing.T) {
	for _, seen := range []bool{false, true} {
		inTerm(t, func(b *term) {
			b.everywhere(2)
			b.do(&state.CreateEvals{Evals: []state.EvalFor{{
				EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](9), Cause: berth.Cause{Kind: berth.CauseUser}},
				Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: "log"},
			}}})
			on := b.store.Snapshot().Index
			b.do(statetest.AddNode(2, 9000, 4000))
			if seen {
				on = b.store.Snapshot().Index
			}
			newest := b.next()
			if number(newest.Eval) != 9 {
				t.Fatalf("handed out is %s", newest.Eval.TriggeredBy)
			}
			end := &state.EvalEnd{Status: berth.EvalComplete, SnapshotIndex: on}
			for n := range 2 {
				end.Nodes = append(end.Nodes, state.NodeWait{
					Nodes: []berth.NodeID{statetest.ID[berth.Node](n + 1)}, Queued: map[string]int{"g": 1},
					Failed: map[string]*berth.AllocMetric{"g": {NodesExhausted: 1}}, Missed: &berth.Missed{Dimensions: []string{fit.DimCPU}},
				})
			}
			b.do(&state.ApplyPlan{Eval: newest.Eval.ID, End: end})
			if err := b.Ack(newest.Eval.ID, newest.Token); err != nil {
				t.Error(err)
			}
			if seen {
				b.nothing()
			} else if d := b.next(); d.Eval.NodeID != statetest.ID[berth.Node](2) {
				t.Errorf("handed out is what waits for %s", d.Eval.NodeID)
			}
		})
	}
}

// An evaluation that waits for a node is left to another one of its job that is
// woken after it. If that one did not see the capacity, the first is looked at,
// even if the worker was done before the broker saw the commit.
func TestAckBeforeTheBrokerSeesTheCommit(t *testing.T) {
	inTerm(t, func(b *term) {
		b.everywhere(2)
		b.do(statetest.AddNode(1, 4500, 4000))
		first, on := b.next(), b.store.Snapshot().Index
		b.do(statetest.AddNode(2, 9000, 4000))
		if err := b.Nack(first.Eval.ID, first.Token); err != nil {
			t.Fatal(err)
		}
		b.pass(broker.DefaultLimits.FirstNackDelay)
		first = b.next()
		if first.Count != 2 {
			t.Fatalf("handed out is what waits for %s", first.Eval.NodeID)
		}
		stays := &state.ApplyPlan{Eval: first.Eval.ID, End: &state.EvalEnd{
			Status: berth.EvalBlocked, SnapshotIndex: on, Queued: map[string]int{"g": 1}, Failed: first.Eval.FailedTGAllocs, Missed: first.Eval.Missed,
			Timeline: berth.Timeline{Deliveries: 2},
			Nodes: []state.NodeWait{{
				Nodes: []berth.NodeID{statetest.ID[berth.Node](2)}, Queued: map[string]int{"g": 1}, Failed: first.Eval.FailedTGAllocs, Missed: first.Eval.Missed,
			}},
		}}
		b.log.Hold()
		if _, err := b.log.Stage(stays); err != nil {
			t.Fatal(err)
		}
		if err := b.Ack(first.Eval.ID, first.Token); err != nil {
			t.Error(err)
		}
		b.log.Release()
		synctest.Wait()
		if d := b.next(); d.Eval.NodeID != statetest.ID[berth.Node](2) {
			t.Errorf("handed out is what waits for %s", d.Eval.NodeID)
		}
	})
}

// One commit updates an evaluation that waits for a node and the evaluation
// whose plan it is. Capacity that the plan did not see is not missed, even if
// the latter was taken from its worker meanwhile and the former was left to it.
func TestCapacityThatAPendingPlanDidNotSee(t *testing.T) {
	inTerm(t, func(b *term) {
		b.everywhere(2)
		b.do(&state.CreateEvals{Evals: []state.EvalFor{{
			EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](9), Cause: berth.Cause{Kind: berth.CauseUser}},
			Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: "log"},
		}}})
		on := b.store.Snapshot().Index
		if d := b.next(); number(d.Eval) != 9 {
			t.Fatalf("handed out is %s", d.Eval.TriggeredBy)
		}
		b.do(statetest.AddNode(2, 9000, 4000))
		b.log.Hold()
		if _, err := b.log.Stage(&state.ApplyPlan{Eval: statetest.ID[berth.Eval](9), End: &state.EvalEnd{
			Status: berth.EvalComplete, SnapshotIndex: on, Nodes: []state.NodeWait{{
				Nodes: []berth.NodeID{statetest.ID[berth.Node](1), statetest.ID[berth.Node](2)}, Queued: map[string]int{"g": 1},
				Failed: map[string]*berth.AllocMetric{"g": {NodesExhausted: 1}}, Missed: &berth.Missed{Dimensions: []string{fit.DimCPU, fit.DimMemory}},
			}},
		}}); err != nil {
			t.Fatal(err)
		}
		b.pass(broker.DefaultLimits.NackTimeout + broker.DefaultLimits.FirstNackDelay)
		b.log.Release()
		synctest.Wait()
		if d := b.next(); d.Eval.NodeID != statetest.ID[berth.Node](2) {
			t.Errorf("handed out is what waits for %s", d.Eval.NodeID)
		}
	})
}

// An evaluation that was left to a newer one of its job is looked at after all
// if that one is cancelled in the same commit.
func TestTheNewerOneIsCancelledAtOnce(t *testing.T) {
	inTerm(t, func(b *term) {
		b.everywhere(2)
		b.do(statetest.AddNode(2, 9000, 4000)) // wakes one, which nobody asks for yet
		b.do(&state.CreateEvals{Evals: []state.EvalFor{{
			EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](9), Cause: berth.Cause{Kind: berth.CauseUser}},
			Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: "log"},
		}}}, &state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval](9)}, Why: "drawn"})
		if d := b.next(); d.Eval.NodeID != statetest.ID[berth.Node](2) {
			t.Errorf("handed out is what waits for %s", d.Eval.NodeID)
		}
		b.nothing()
	})
}

// Several evaluations that wait for nodes get capacity that the newest of their
// job did not see. Its plan brings them back one after another, and each is
// then in one place only: ready or blocked.
func TestEachIsInOnePlace(t *testing.T) {
	inTerm(t, func(b *term) {
		b.everywhere(2)
		b.do(&state.CreateEvals{Evals: []state.EvalFor{{
			EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](9), Cause: berth.Cause{Kind: berth.CauseUser}},
			Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: "log"},
		}}})
		on := b.store.Snapshot().Index
		b.next()
		b.do(statetest.AddNode(1, 9000, 4000), statetest.AddNode(2, 9000, 4000))
		b.do(&state.ApplyPlan{Eval: statetest.ID[berth.Eval](9), End: &state.EvalEnd{
			Status: berth.EvalComplete, SnapshotIndex: on, Nodes: []state.NodeWait{{
				Nodes: []berth.NodeID{statetest.ID[berth.Node](1), statetest.ID[berth.Node](2)}, Queued: map[string]int{"g": 1},
				Failed: map[string]*berth.AllocMetric{"g": {NodesExhausted: 1}}, Missed: &berth.Missed{Dimensions: []string{fit.DimCPU, fit.DimMemory}},
			}},
		}})
		if s := b.Stats(); s.Blocked != 1 || s.Ready[berth.TypeSystem] != 1 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}
