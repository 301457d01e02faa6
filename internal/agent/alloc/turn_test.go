package alloc

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	_ "berth/internal/onethread"
	"berth/op"
)

// teller is a leader as an allocation sees it.
type teller struct {
	mu     sync.Mutex
	said   []string // states that it was told
	give   bool     // it gives turns
	broken bool     // it cannot be reached
}

func (l *teller) turn(_ context.Context, _ berth.AllocID, state string) (*op.TurnAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, state)
	if l.broken {
		return nil, errors.New("no server")
	}
	return &op.TurnAnswer{Given: l.give, Again: 3 * time.Second, Waits: "somebody"}, nil
}

// set changes how the leader is.
func (l *teller) set(give, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.give, l.broken = give, broken
}

// heard returns what the leader was told since the last call, and the last of it.
func (l *teller) heard() (said []string, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if said, l.said = l.said, nil; len(said) > 0 {
		last = said[len(said)-1]
	}
	return said, last
}

// turning runs the turns of an allocation without tasks, which is as healthy as its
// update block lets it be, until stop is called.
func turning(t *testing.T, l *teller, update berth.UpdateStrategy, saved map[string][]byte) (r *Runner, stop func()) {
	update.HealthCheck, update.MaxParallel = berth.HealthTaskStates, 1
	a := &op.Alloc{TaskGroup: "g", Job: &berth.Job{Type: berth.TypeService, TaskGroups: []*berth.TaskGroup{{Name: "g", Update: &update}}}}
	a.ID[0] = 1
	r = New(Config{
		Turns: l.turn, Log: slog.New(slog.DiscardHandler), Restored: saved,
		Save: func(name string, b []byte) error { saved[name] = b; return nil },
	}, a)
	r.restoreTurn()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.keepTurns(ctx); close(done) }()
	return r, func() { cancel(); <-done }
}

// An allocation asks until it has its turn, tells of it until it is healthy, and says
// that it is over until the leader knows.
func TestATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, saved := &teller{}, map[string][]byte{}
		r, stop := turning(t, l, berth.UpdateStrategy{MinHealthyTime: 40 * time.Second, HealthyDeadline: time.Minute}, saved)
		defer func() { stop() }()
		r.turnOf("app")(1, true)
		time.Sleep(10 * time.Second)
		if said, last := l.heard(); len(said) < 3 || len(said) > 5 || last != op.TurnWanted {
			t.Fatalf("it said %v", said)
		}
		l.set(true, false)
		time.Sleep(4 * time.Second)
		stop() // the agent ends, and the next one goes on
		l.heard()
		r, stop = turning(t, l, berth.UpdateStrategy{MinHealthyTime: 40 * time.Second, HealthyDeadline: time.Minute}, saved)
		time.Sleep(30 * time.Second)
		if said, last := l.heard(); last != op.TurnTaken || slices.Contains(said, op.TurnWanted) {
			t.Fatalf("after a restart of the agent it said %v", said)
		}
		l.set(true, true)
		time.Sleep(20 * time.Second)
		l.set(true, false)
		l.heard()
		time.Sleep(10 * time.Second)
		if said, _ := l.heard(); !slices.Equal(said, []string{op.TurnOver}) {
			t.Errorf("in the end it said %v", said)
		}
		r.turnOf("app")(2, true)
		r.turnOf("app")(2, false)
		time.Sleep(time.Minute)
		if said, _ := l.heard(); len(said) > 2 {
			t.Errorf("without a wish it said %v", said)
		}
	})
}

// A turn that ends badly is told for as long as the allocation is there, until
// somebody restarts it.
func TestATurnThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, saved := &teller{give: true}, map[string][]byte{}
		r, stop := turning(t, l, berth.UpdateStrategy{MinHealthyTime: 2 * time.Minute, HealthyDeadline: time.Minute}, saved)
		defer func() { stop() }()
		r.turnOf("app")(1, true)
		time.Sleep(90 * time.Second)
		if said, last := l.heard(); last != op.TurnFailed {
			t.Fatalf("it said %v", said)
		}
		stop()
		l.heard()
		r, stop = turning(t, l, berth.UpdateStrategy{MinHealthyTime: time.Second, HealthyDeadline: time.Minute}, saved)
		time.Sleep(time.Minute)
		if said, _ := l.heard(); len(said) < 4 || slices.ContainsFunc(said, func(s string) bool { return s != op.TurnFailed }) {
			t.Fatalf("after a restart of the agent it said %v", said)
		}
		r.restartedByHand("")
		time.Sleep(5 * time.Second)
		if said, last := l.heard(); last != op.TurnOver {
			t.Errorf("after a restart by hand it said %v", said)
		}
	})
}
