package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// idleLeader has nothing to hand out until it is given something. A request
// waits there for up to dequeueWait.
type idleLeader struct {
	mu       sync.Mutex
	asking   [][]string // the types of the requests that wait, the oldest first
	give     chan struct{}
	returned []op.SettleEval
}

func (l *idleLeader) Call(ctx context.Context, method string, in, out any) error {
	switch method {
	case op.EvalDequeue.RPC:
		types := in.(*op.DequeueEvals).Schedulers
		l.mu.Lock()
		l.asking = append(l.asking, types)
		l.mu.Unlock()
		answer := op.DequeuedEvals{Term: 1}
		select {
		case <-l.give:
			answer.Evals = []op.DequeuedEval{{EvalID: statetest.ID[berth.Eval](1), Token: 1, Count: 1}}
		case <-time.After(dequeueWait):
		case <-ctx.Done():
			return ctx.Err()
		}
		l.mu.Lock()
		at := slices.IndexFunc(l.asking, func(x []string) bool { return slices.Equal(x, types) })
		l.asking = slices.Delete(l.asking, at, at+1)
		l.mu.Unlock()
		*out.(*op.DequeuedEvals) = answer
		return nil
	case op.EvalNack.RPC:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.returned = append(l.returned, *in.(*op.SettleEval))
		return nil
	}
	return errors.New("not expected: " + method)
}

// asks counts the requests that wait, by type.
func (l *idleLeader) asks(typ string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.asking {
		if slices.Contains(x, typ) {
			n++
		}
	}
	return n
}

// The workers of an idle follower change at once: new ones are hired without
// waiting for the old, which take nothing more and return unread what their last
// request brings.
func TestWorkersOfAnIdleFollowerChangeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := statetest.New(t, &state.BeginTerm{Term: 1})
		leader := &idleLeader{give: make(chan struct{})}
		f := NewFollower(leader, store)
		f.Registry = &Registry{}
		pool := NewPool(Settings{Following: 2, Types: []string{berth.TypeService, berth.TypeBatch}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx, pool) }()
		is := func(when string, service, batch, workers int) {
			t.Helper()
			synctest.Wait()
			if s, b, w := leader.asks(berth.TypeService), leader.asks(berth.TypeBatch), len(f.Registry.Workers()); s != service || b != batch || w != workers {
				t.Errorf("%s: %d requests for services, %d for batches, %d workers; want %d, %d and %d", when, s, b, w, service, batch, workers)
			}
		}
		is("at first", 2, 2, 2)
		pool.Change(Settings{Following: 3, Types: []string{berth.TypeService}})
		is("at once", 5, 2, 5) // the requests of the old ones wait still
		time.Sleep(dequeueWait)
		is("when these are answered", 3, 0, 3)
		pool.Change(Settings{Types: []string{berth.TypeService}})
		synctest.Wait()
		leader.give <- struct{}{}
		synctest.Wait()
		if r := leader.returned; len(r) != 1 || !r[0].Unread || r[0].Token != 1 {
			t.Errorf("an evaluation that came too late: %+v", r)
		}
		time.Sleep(dequeueWait)
		is("without workers", 0, 0, 0)
		pool.Change(Settings{Following: 1, Types: []string{berth.TypeBatch}})
		is("with one again", 0, 1, 1)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
