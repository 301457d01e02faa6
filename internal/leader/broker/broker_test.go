package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/fit"
	"berth/internal/leader/broker"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// term is a broker that runs on a store.
type term struct {
	*broker.Broker
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	jobs  map[string]*berth.Job
	told  *strings.Builder // what the broker logged
}

// inTerm runs f beside a broker, in virtual time.
func inTerm(t *testing.T, f func(b *term), before ...state.Command) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, append([]state.Command{&state.BeginTerm{Term: 1}}, before...)...)
		ctx, stop := context.WithCancel(t.Context())
		b := &term{broker.New(1, store, log, broker.DefaultLimits), t, store, log, nil, new(strings.Builder)}
		b.Logger = slog.New(slog.NewTextHandler(b.told, nil))
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		f(b)
	})
}

// do proposes commands and waits until the broker has processed them.
func (b *term) do(cmds ...state.Command) {
	b.t.Helper()
	b.log.Must(b.t, cmds...)
	synctest.Wait()
}

func (b *term) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// next takes one evaluation, which must be there.
func (b *term) next() *berth.Delivery {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.t.Context(), time.Nanosecond)
	defer stop()
	list, err := b.Next(ctx, allTypes, 1)
	if err != nil {
		b.t.Fatalf("nothing is handed out: %v", err)
	}
	return &list[0]
}

// nothing checks that no evaluation is ready.
func (b *term) nothing() {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.t.Context(), time.Nanosecond)
	defer stop()
	if list, err := b.Next(ctx, allTypes, 1); !errors.Is(err, context.DeadlineExceeded) {
		b.t.Fatalf("%v is handed out, %v", list, err)
	}
}

var allTypes = []string{berth.TypeService, berth.TypeBatch, berth.TypeSystem, berth.TypeSysbatch}

func (b *term) eval(n int) *berth.Eval { return b.store.Snapshot().Eval(statetest.ID[berth.Eval](n)) }

func register(t *testing.T, job string, eval int) state.Command {
	return statetest.Register(statetest.Job(t, `{"ID":"`+job+`","TaskGroups":[{"Name":"g","Count":2,"Resources":{"CPU":3000,"MemoryMB":100}}]}`), eval)
}

// ends returns a plan that ends an evaluation.
func ends(n int, change ...func(*state.ApplyPlan)) state.Command {
	c := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](n), End: &state.EvalEnd{Status: berth.EvalComplete}}
	for _, f := range change {
		f(c)
	}
	return c
}

// blocks makes a plan leave a blocked evaluation that could use capacity on
// nodes of the class, decided on the given state.
func blocks(eval int, class string, on uint64) func(*state.ApplyPlan) {
	return func(c *state.ApplyPlan) {
		c.End.Failed = map[string]*berth.AllocMetric{"g": {NodesExhausted: 1}}
		c.End.Missed, c.End.SnapshotIndex = &berth.Missed{Classes: map[string]bool{class: true, "other": false}, Dimensions: []string{fit.DimCPU}}, on
		c.End.Blocked = &state.NewEval{ID: statetest.ID[berth.Eval](eval), TriggeredBy: berth.TriggerQueuedAllocs}
	}
}

func number(e *berth.Eval) int { hi, _ := e.ID.Words(); return int(hi >> 32) }

func TestPendingIsDeliveredUntilItEnds(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(register(t, "web", 1))
		d := b.next()
		if number(d.Eval) != 1 || d.Count != 1 || d.Enqueued == 0 || !b.Holds(d.Eval.ID, d.Token) {
			t.Fatalf("handed out %+v", d)
		}
		b.nothing()
		if err := b.Ack(d.Eval.ID, d.Token+1); berth.KindOf(err) != berth.Conflict {
			t.Errorf("a wrong token: %v", err)
		}
		b.do(ends(1))
		if err := b.Ack(d.Eval.ID, d.Token); err != nil {
			t.Errorf("it ended before it was acknowledged: %v", err)
		}
		if _, ok := b.Quasi(d.Eval.ID); ok || b.Holds(d.Eval.ID, d.Token) {
			t.Error("it is still there")
		}
	})
}

// What a worker acknowledges without having decided it is delivered again:
// otherwise nobody would look at it before another server leads.
func TestAcknowledgedButNotDecided(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(register(t, "web", 1))
		d := b.next()
		if err := b.Ack(d.Eval.ID, d.Token); err != nil {
			t.Fatal(err)
		}
		b.pass(broker.DefaultLimits.FirstNackDelay)
		if again := b.next(); again.Eval.ID != d.Eval.ID || again.Count != 2 {
			t.Errorf("delivered is %+v", again)
		}
		if !strings.Contains(b.told.String(), "that is not decided") {
			t.Errorf("logged is %q", b.told)
		}
	})
}

// A worker that is late, or dead, loses the evaluation to another.
func TestSilentWorker(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(register(t, "web", 1))
		first := b.next()
		b.pass(59 * time.Second)
		if err := b.Extend(first.Eval.ID, first.Token, true); err != nil {
			t.Fatal(err)
		}
		b.pass(59 * time.Second)
		b.nothing()
		b.pass(time.Second)
		if b.Holds(first.Eval.ID, first.Token) {
			t.Error("the worker said nothing for a minute and holds the evaluation")
		}
		b.pass(time.Second)
		second := b.next()
		if second.Count != 2 || second.Token == first.Token {
			t.Errorf("delivered again as %+v", second)
		}
		if err := b.Extend(first.Eval.ID, first.Token, true); berth.KindOf(err) != berth.Conflict {
			t.Errorf("the first worker may go on: %v", err)
		}
	})
}

// An evaluation that three workers gave back has failed. A follow-up tries
// again a minute later.
func TestDeliveryLimit(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(register(t, "web", 1))
		for _, wait := range []time.Duration{0, time.Second, 20 * time.Second} {
			b.pass(wait)
			d := b.next()
			if err := b.Nack(d.Eval.ID, d.Token); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		e := b.eval(1)
		if e.Status != berth.EvalFailed || e.NextEval.IsZero() {
			t.Fatalf("it is %+v", e)
		}
		if n := strings.Count(b.told.String(), "an evaluation failed"); n != 1 || !strings.Contains(b.told.String(), e.ID.String()) {
			t.Errorf("that it failed was logged %d times:\n%s", n, b.told)
		}
		if e.Timeline.Deliveries != 3 || e.Timeline.Enqueued == 0 || e.Timeline.Dequeued < e.Timeline.Enqueued {
			t.Errorf("what is kept of its times is %+v", e.Timeline)
		}
		b.nothing()
		if q, _ := b.Quasi(e.NextEval); q.Status != "delayed" {
			t.Errorf("the follow-up is %q", q.Status)
		}
		b.pass(time.Minute)
		d := b.next()
		if d.Eval.ID != e.NextEval || d.Eval.TriggeredBy != berth.TriggerFailedFollowUp || d.Eval.PreviousEval != e.ID || d.Count != 1 {
			t.Errorf("then comes %+v", d.Eval)
		}
	})
}

// A delivery that nobody looked at does not count: the evaluation is ready again
// at once, however often that happens.
func TestReturnedUnread(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(register(t, "web", 1))
		for range 2 * broker.DefaultLimits.Deliveries {
			d := b.next()
			if d.Count != 1 {
				t.Fatalf("delivery %d", d.Count)
			}
			if err := b.Return(d.Eval.ID, d.Token); err != nil {
				t.Fatal(err)
			}
			if err := b.Return(d.Eval.ID, d.Token); berth.KindOf(err) != berth.Conflict {
				t.Errorf("returned twice: %v", err)
			}
		}
	})
}

// A job that is registered repeatedly has one evaluation to do; the others are
// cancelled with the reason.
func TestSuperseded(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(register(t, "web", 1))
		b.do(register(t, "web", 2))
		b.do(register(t, "web", 3))
		for n, by := range map[int]string{1: b.eval(2).ID.String(), 2: b.eval(3).ID.String()} {
			if e := b.eval(n); e.Status != berth.EvalCanceled || e.StatusDescription != "superseded by evaluation "+by {
				t.Errorf("evaluation %d is %s: %s", n, e.Status, e.StatusDescription)
			}
		}
		if d := b.next(); number(d.Eval) != 3 {
			t.Errorf("%d is handed out", number(d.Eval))
		}
	})
}

func later(t *testing.T, eval int, job string, at time.Duration) state.Command {
	return &state.CreateEvals{Evals: []state.EvalFor{{
		EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](eval), TriggeredBy: berth.TriggerAllocFailure},
		Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}, WaitUntil: time.Now().Add(at).UnixNano(),
	}}}
}

func TestDelayedComeWhenTheyAreDue(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(register(t, "a", 1), register(t, "b", 2))
		b.do(ends(1), ends(2))
		b.do(later(t, 3, "a", time.Minute), later(t, 4, "b", 10*time.Second))
		b.nothing()
		b.pass(10 * time.Second)
		if d := b.next(); number(d.Eval) != 4 {
			t.Errorf("%d came first", number(d.Eval))
		}
		b.nothing()
		b.pass(50 * time.Second)
		if d := b.next(); number(d.Eval) != 3 {
			t.Errorf("%d came second", number(d.Eval))
		}
	})
}

// node returns a command that adds a node of the class of all the others.
func node(n int) *state.RegisterNode { return statetest.AddNode(n, 4000, 4000) }

func (b *term) class() string { return b.store.Snapshot().NodeByNumber(0).Class }

func TestCapacityUnblocks(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(node(1), register(t, "web", 1))
		b.next()
		b.do(ends(1, blocks(2, b.class(), b.store.Snapshot().Index)))
		b.nothing()
		if s := b.Stats(); s.Blocked != 1 {
			t.Errorf("blocked: %+v", s)
		}
		b.do(statetest.AddNode(2, 4000, 4000, func(n *berth.Node) { n.Status = berth.NodeInit }))
		b.nothing()
		b.do(&state.SetNodeStatus{ID: statetest.ID[berth.Node](2), Status: berth.NodeReady})
		d := b.next()
		if number(d.Eval) != 2 || d.Eval.Status != berth.EvalBlocked {
			t.Fatalf("handed out %+v", d.Eval)
		}
		// It stays blocked, and waits again without an answer of its worker.
		stays := ends(2, blocks(0, b.class(), b.store.Snapshot().Index)).(*state.ApplyPlan)
		stays.End.Status, stays.End.Blocked = berth.EvalBlocked, nil
		b.do(stays)
		if err := b.Ack(d.Eval.ID, d.Token); err != nil {
			t.Error(err)
		}
		if s := b.Stats(); s.Blocked != 1 || s.Held != 0 {
			t.Errorf("back with the blocked: %+v", s)
		}
	})
}

// An allocation that ends wakes evaluations that wait for its capacity; one
// that was only told to stop does not yet.
func TestEndedAllocationUnblocks(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(node(1), register(t, "web", 1))
		b.next()
		b.do(ends(1, func(c *state.ApplyPlan) {
			c.Place = []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}}
		}), register(t, "db", 2))
		b.next()
		b.do(ends(2, blocks(3, b.class(), b.store.Snapshot().Index)))
		var a *berth.Alloc
		for a = range b.store.Snapshot().Allocs() {
		}
		b.do(register(t, "web", 4))
		b.next()
		b.do(ends(4, func(c *state.ApplyPlan) { c.Stop = []berth.AllocStop{{ID: a.ID}} }))
		b.nothing()
		b.do(&state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}})
		if d := b.next(); number(d.Eval) != 3 {
			t.Errorf("%d is handed out", number(d.Eval))
		}
	})
}

// A node that came between the decision and the commit is not missed.
func TestMissedUnblock(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(node(1), register(t, "web", 1))
		b.next()
		decidedOn := b.store.Snapshot().Index
		b.do(node(2))
		b.do(ends(1, blocks(2, b.class(), decidedOn)))
		if d := b.next(); number(d.Eval) != 2 {
			t.Errorf("%d is handed out", number(d.Eval))
		}
	})
	inTerm(t, func(b *term) { // both in one commit
		b.do(node(1), register(t, "web", 1))
		b.next()
		decidedOn := b.store.Snapshot().Index
		b.do(ends(1, blocks(2, b.class(), decidedOn)), node(2))
		if d := b.next(); number(d.Eval) != 2 {
			t.Errorf("%d is handed out", number(d.Eval))
		}
	})
}

// A job has one blocked evaluation: that of a later decision replaces the
// earlier one.
func TestOneBlockedOfAJob(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(node(1), register(t, "web", 1))
		b.next()
		b.do(ends(1, blocks(2, b.class(), b.store.Snapshot().Index)))
		b.do(register(t, "web", 3))
		b.next()
		b.do(ends(3, blocks(4, b.class(), b.store.Snapshot().Index)))
		if e := b.eval(2); e.Status != berth.EvalCanceled {
			t.Errorf("the first is %s", e.Status)
		}
		if s := b.Stats(); s.Blocked != 1 {
			t.Errorf("%+v", s)
		}
		b.do(node(2))
		if d := b.next(); number(d.Eval) != 4 {
			t.Errorf("%d is handed out", number(d.Eval))
		}
		b.nothing()
	})
}

// An evaluation whose plans were refused too often is tried again even if
// nothing changed.
func TestRefusedTooOftenIsTriedAgain(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(node(1), register(t, "web", 1))
		b.next()
		b.do(ends(1, func(c *state.ApplyPlan) {
			c.End.Status, c.End.SnapshotIndex = berth.EvalFailed, b.store.Snapshot().Index
			c.End.Missed = &berth.Missed{Escaped: true}
			c.End.Blocked = &state.NewEval{ID: statetest.ID[berth.Eval](2), TriggeredBy: berth.TriggerMaxPlanAttempts}
		}))
		b.pass(broker.DefaultLimits.FollowUpAfter - time.Second)
		b.nothing()
		b.pass(time.Second)
		if d := b.next(); number(d.Eval) != 2 {
			t.Errorf("%d is handed out", number(d.Eval))
		}
	})
}

// A new leader has the open evaluations, and a restored state replaces them.
func TestBuiltFromTheState(t *testing.T) {
	open := []state.Command{
		node(1), register(t, "a", 1), register(t, "b", 2), register(t, "c", 3), ends(2),
		ends(3, blocks(4, "any", 1)),
	}
	inTerm(t, func(b *term) {
		if one, two := b.next(), b.next(); number(one.Eval) != 1 || number(two.Eval) != 4 {
			t.Errorf("the term began with %d, %d", number(one.Eval), number(two.Eval))
		}
		b.nothing()
		other, _ := statetest.New(t, register(t, "z", 9))
		b.store.Reset(other.Snapshot())
		synctest.Wait()
		if d := b.next(); number(d.Eval) != 9 {
			t.Errorf("%d is handed out", number(d.Eval))
		}
		b.nothing()
	}, open...)
}

// Callers that wait are told when the term ends, and callers that have gone get
// nothing.
func TestWaiting(t *testing.T) {
	var late *term
	inTerm(t, func(b *term) {
		late = b
		got := make(chan int)
		go func() {
			list, err := b.Next(b.t.Context(), someTypes, 5)
			if err != nil {
				t.Error(err)
			}
			got <- len(list)
		}()
		synctest.Wait()
		b.do(register(t, "a", 1), register(t, "b", 2))
		if n := <-got; n != 2 {
			t.Errorf("%d were handed to who waited", n)
		}
		b.do(register(t, "c", 3))
		gone, leave := context.WithCancel(b.t.Context())
		leave()
		if list, err := b.Next(gone, someTypes, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("%v was handed to a worker that is gone, %v", list, err)
		}
	})
	if _, err := late.Next(t.Context(), someTypes, 1); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("after the term: %v", err)
	}
}
