package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/leader/broker"
	"berth/internal/leader/planner"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/worker"
)

// logOf is the log of a test: it is shown where the test fails.
func logOf(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func newBroker(t testing.TB, store *state.Store, log *statetest.Log) *broker.Broker {
	b := broker.New(1, store, log, broker.DefaultLimits)
	b.Logger = logOf(t)
	return b
}

func newPlanner(t testing.TB, log *statetest.Log, queue planner.Queue) *planner.Planner {
	p := planner.New(1, log, queue)
	p.Logger = logOf(t)
	return p
}

func newWorker(t testing.TB, queue worker.Queue, to worker.Planner) *worker.Worker {
	w := worker.New(queue, to, worker.Types)
	w.Logger = logOf(t)
	return w
}

// What goes wrong is told to the log that the worker was given.
func TestWhatGoesWrongIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, &state.BeginTerm{Term: 1}, statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`), 1))
		b := newBroker(t, store, log)
		m := &meddler{Planner: newPlanner(t, log, b), before: func(int, *state.ApplyPlan) { panic("the plan is too clever") }}
		w := newWorker(t, b, m)
		var told strings.Builder
		w.Logger = slog.New(slog.NewTextHandler(&told, nil))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- b.Run(ctx) }()
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		if !strings.Contains(told.String(), `level=WARN msg="an evaluation could not be decided"`) || !strings.Contains(told.String(), "job=web") || !strings.Contains(told.String(), "too clever") {
			t.Errorf("it logged %q", told.String())
		}
		stop()
		<-ended
		<-ended
	})
}
