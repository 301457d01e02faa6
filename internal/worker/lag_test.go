package worker

import (
	"berth/op"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// slowLeader hands out one evaluation at an index that the follower does not
// have yet, and notes what is said of it.
type slowLeader struct {
	index uint64

	mu     sync.Mutex
	asked  int
	nacked []berth.EvalID
}

func (l *slowLeader) Call(ctx context.Context, method string, in, out any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch method {
	case op.EvalDequeue.RPC:
		l.asked++
		*out.(*op.DequeuedEvals) = op.DequeuedEvals{Term: 1, Index: l.index, Evals: []op.DequeuedEval{{EvalID: statetest.ID[berth.Eval](1), Token: 1, Count: 1}}}
		return nil
	case op.EvalNack.RPC:
		l.nacked = append(l.nacked, in.(*op.SettleEval).EvalID)
		return nil
	}
	return errors.New("not expected: " + method)
}

func (l *slowLeader) seen() (asked, nacked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, len(l.nacked)
}

// A server whose state is far behind gives back what it was handed, so that
// another decides it, and asks for more only when it has caught up.
func TestALaggingServerHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000))
		leader := &slowLeader{index: store.Snapshot().Index + 1}
		f := NewFollower(leader, store)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.ctx = ctx
		got := make(chan []berth.Delivery, 1)
		go func() {
			list, err := f.Next(ctx, Types, 1)
			if err != nil {
				t.Error(err)
			}
			got <- list
		}()
		time.Sleep(lagTime - time.Millisecond)
		if asked, nacked := leader.seen(); asked != 1 || nacked != 0 {
			t.Fatalf("at first: asked %d times, given back %d", asked, nacked)
		}
		time.Sleep(time.Hour)
		if asked, nacked := leader.seen(); asked != 1 || nacked != 1 {
			t.Fatalf("asked %d times, given back %d", asked, nacked)
		}
		log.Must(t, &state.AddNodeEvents{ID: statetest.ID[berth.Node](1), Events: []berth.NodeEvent{{Message: "hello"}}})
		list := <-got
		if asked, nacked := leader.seen(); len(list) != 1 || asked != 2 || nacked != 1 {
			t.Fatalf("%v: asked %d times, given back %d", list, asked, nacked)
		}
	})
}

// busyLeader refuses the first calls: too many are under way.
type busyLeader struct {
	slowLeader
	refuse int
}

func (l *busyLeader) Call(ctx context.Context, method string, in, out any) error {
	if l.refuse--; l.refuse >= 0 {
		return berth.Errorf(berth.Limited, "too many calls are under way. Nothing was done; try again later")
	}
	return l.slowLeader.Call(ctx, method, in, out)
}

// A call that was refused because too many are under way is repeated: the term is
// not over for that.
func TestALeaderThatIsBusyIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := statetest.New(t, statetest.AddNode(1, 4000, 4000))
		leader := &busyLeader{slowLeader: slowLeader{index: store.Snapshot().Index}, refuse: 5}
		f := NewFollower(leader, store)
		f.ctx = t.Context()
		list, err := f.Next(t.Context(), Types, 1)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		leader.refuse = 5
		if err := f.Nack(list[0].Eval.ID, list[0].Token); err != nil || len(leader.nacked) != 1 {
			t.Error(err, leader.nacked)
		}
	})
}
