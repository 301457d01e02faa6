package worker_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/internal/leader/broker"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// counting counts how often the evaluations of each job are handed out.
type counting struct {
	*broker.Broker
	mu    sync.Mutex
	times map[berth.JobKey]int
}

// Next implements worker.Queue.
func (c *counting) Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error) {
	list, err := c.Broker.Next(ctx, types, most)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range list {
		c.times[list[i].Eval.Key()]++
	}
	return list, err
}

// burst raises evaluations for a hundred jobs, all at once, while a broker and
// a worker run, waits until all have ended, and returns how often the job that
// was scheduled most was, and the bytes that the broker's queue took at most.
func burst(t testing.TB, evals int) (most int, heap uint64) {
	const jobs = 100
	var before []state.Command
	before = append(before, &state.BeginTerm{Term: 1})
	for n := range 50 {
		before = append(before, statetest.AddNode(n+1, 4000, 4000))
	}
	key := func(n int) berth.JobKey {
		return berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(fmt.Sprint("job", n))}
	}
	for n := range jobs {
		before = append(before, statetest.Register(statetest.Job(t, fmt.Sprintf(`{"ID":"job%d","TaskGroups":[{"Name":"g","Count":2,"Resources":{"CPU":100,"MemoryMB":50}}]}`, n)), n+1))
	}
	store, log := statetest.New(t, before...)
	ctx, stop := context.WithCancel(t.Context())
	b := &counting{Broker: newBroker(t, store, log), times: map[berth.JobKey]int{}}
	ended := make(chan error, 2)
	go func() { ended <- b.Run(ctx) }()
	go func() { ended <- newWorker(t, b, newPlanner(t, log, b)).Run(ctx) }()
	defer func() { stop(); <-ended; <-ended }()
	settled := func() bool {
		s := store.Snapshot()
		for range s.OpenEvals(berth.EvalPending) {
			return false
		}
		q := b.Stats()
		return q.Held == 0 && q.Waiting == 0 && q.Ready[berth.TypeService] == 0
	}
	wait := func(what string) {
		for deadline := time.Now().Add(eventually.Limit); !settled(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain until %s: %+v", what, b.Stats())
			}
		}
	}
	wait("the jobs are placed")
	clear(b.times)

	log.Hold()
	const each = 1000
	for done := 0; done < evals; done += each {
		c := &state.CreateEvals{Now: 1}
		for i := range each {
			c.Evals = append(c.Evals, state.EvalFor{Key: key(i % jobs), EvalSeed: state.EvalSeed{
				ID: statetest.ID[berth.Eval](1000 + done + i), TriggeredBy: berth.TriggerNodeUpdate, Cause: berth.Cause{Kind: berth.CauseNode, ID: "n1"},
			}})
		}
		if _, err := log.Stage(c); err != nil {
			t.Fatal(err)
		}
	}
	var was, is runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&was)
	log.Release()
	wait("all evaluations have ended")
	runtime.GC()
	runtime.ReadMemStats(&is)
	for _, n := range b.times {
		most = max(most, n)
	}
	if is.HeapAlloc > was.HeapAlloc {
		heap = is.HeapAlloc - was.HeapAlloc
	}
	for e := range store.Snapshot().Evals() {
		if !e.Terminal() {
			t.Fatalf("evaluation %s is %s", e.ID, e.Status)
		}
	}
	return most, heap
}

// A storm of evaluations does not become a storm of decisions: of those of one
// job that wait the newest does for all.
func TestBurst(t *testing.T) {
	if most, _ := burst(t, 10_000); most > 5 {
		t.Errorf("a job was scheduled %d times", most)
	}
}

func BenchmarkBurst(b *testing.B) {
	var most int
	var heap uint64
	for b.Loop() {
		m, h := burst(b, 100_000)
		most, heap = max(most, m), max(heap, h)
	}
	b.ReportMetric(float64(most), "times/job")
	b.ReportMetric(float64(heap)/100_000, "heapB/eval")
}
