package worker_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// asks returns a job of instances that take much of a node.
func asks(t testing.TB, id string, count, cpu, priority int, more string) *berth.Job {
	return statetest.Job(t, fmt.Sprintf(`{"ID":%q,"Type":"batch","Priority":%d%s,"TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":%d,"MemoryMB":10}}]}`, id, priority, more, count, cpu))
}

// ends reports that an allocation has ended.
func ends(a *berth.Alloc) state.Command {
	return &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}, Now: time.Now().UnixNano()}
}

// wait registers jobs that all wait for the node that another one fills.
func (c *cluster) wait(t testing.TB, jobs int) (filler *berth.Alloc) {
	c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(asks(t, "filler", 1, 4000, 50, ""), 1))
	var cmds []state.Command
	for i := range jobs {
		cmds = append(cmds, statetest.Register(asks(t, fmt.Sprint("job", i), 1, 4000, 1+i%100, ""), i+2))
	}
	c.do(cmds...)
	return live(c.store.Snapshot(), "filler")[0]
}

// One freed slot is looked at by the evaluation that gets it and by few others,
// however many wait. The most urgent of them gets it, the oldest of those.
func TestAFreedSlotIsDecidedByFew(t *testing.T) {
	inCluster(t, func(c *cluster) {
		const jobs = 1000
		filler := c.wait(t, jobs)
		before := c.store.Snapshot().Index
		s := c.do(ends(filler))
		if n := s.Index - before; n >= 50 {
			t.Errorf("%d commands for one slot", n)
		}
		if len(live(s, "job99")) != 1 { // of priority 100, as job199 and others
			t.Error("the most urgent and oldest job did not get the slot")
		}
		blocked := 0
		for range s.OpenEvals(berth.EvalBlocked) {
			blocked++
		}
		if blocked != jobs-1 {
			t.Errorf("%d wait, want %d", blocked, jobs-1)
		}
	})
}

// A slot that the most urgent job cannot use, for a reason that has nothing to do
// with capacity, goes to the next one.
func TestASlotThatTheFirstCannotUseGoesToTheNext(t *testing.T) {
	inCluster(t, func(c *cluster) {
		apart := `,"Constraints":[{"Operand":"distinct_property","LTarget":"${meta.rack}"}]`
		rack := func(n *berth.Node) { n.Meta = map[string]string{"rack": "r1"} }
		c.do(statetest.AddNode(1, 4000, 4000, rack), statetest.AddNode(2, 1000, 4000, rack), statetest.Register(asks(t, "filler", 1, 4000, 50, ""), 1))
		s := c.do(
			statetest.Register(asks(t, "urgent", 2, 1000, 90, apart), 2), // one runs on the other node, in the same rack
			statetest.Register(asks(t, "next", 1, 3500, 80, ""), 3),
			statetest.Register(asks(t, "last", 1, 1000, 10, ""), 4))
		s = c.do(ends(live(s, "filler")[0]))
		if a, b, d := len(live(s, "urgent")), len(live(s, "next")), len(live(s, "last")); a != 1 || b != 1 || d != 0 {
			t.Errorf("%d, %d and %d run, want 1, 1 and 0", a, b, d)
		}
	})
}

// A new leader offers what there is, and does not decide all that waits.
func TestANewTermDecidesFewOfThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, &state.BeginTerm{Term: 1})
		c := &cluster{t, store, log}
		over := c.term()
		filler := c.wait(t, 200)
		over()
		c.do(ends(filler)) // between two terms
		before := c.store.Snapshot().Index
		defer c.term()()
		s := c.do()
		if n := s.Index - before; n >= 20 || len(live(s, "job99")) != 1 {
			t.Errorf("%d commands, and %d of the most urgent job run", n, len(live(s, "job99")))
		}
	})
}

// term begins a term: a broker and a worker. The function that it returns ends
// it.
func (c *cluster) term() (over func()) {
	ctx, stop := context.WithCancel(c.t.Context())
	b := newBroker(c.t, c.store, c.log)
	ended := make(chan error, 2)
	go func() { ended <- b.Run(ctx) }()
	go func() { ended <- newWorker(c.t, b, newPlanner(c.t, c.log, b)).Run(ctx) }()
	synctest.Wait()
	return func() { stop(); <-ended; <-ended }
}

// The outcome of offering freed capacity is that of deciding everything that
// waits: the same jobs run as many instances, whatever ends in which order.
func TestOfferingHasTheOutcomeOfWakingAll(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.IntRange(1, 4).Draw(r, "nodes")
		var cmds []state.Command
		for n := range nodes {
			cmds = append(cmds, statetest.AddNode(n+1, 1000, 4000, func(x *berth.Node) { x.Meta = map[string]string{"rack": fmt.Sprint("r", n%2)} }))
		}
		fillers := rapid.IntRange(1, 2*nodes).Draw(r, "fillers")
		for i := range fillers {
			cmds = append(cmds, statetest.Register(asks(t, fmt.Sprint("filler", i), 1, rapid.SampledFrom([]int{500, 1000}).Draw(r, "size"), 100, ""), i+1))
		}
		waiting := rapid.IntRange(1, 8).Draw(r, "jobs")
		var jobs []state.Command
		for i := range waiting {
			more := rapid.SampledFrom([]string{
				``, ``, `,"Constraints":[{"LTarget":"${meta.rack}","Operand":"=","RTarget":"r0"}]`, `,"Constraints":[{"Operand":"distinct_hosts"}]`,
				`,"Constraints":[{"Operand":"distinct_property","LTarget":"${meta.rack}"}]`,
			}).Draw(r, "constraint")
			job := asks(t, fmt.Sprint("job", i), rapid.IntRange(1, 3).Draw(r, "count"), rapid.SampledFrom([]int{200, 500, 1000}).Draw(r, "cpu"), rapid.IntRange(1, 3).Draw(r, "priority"), more)
			jobs = append(jobs, statetest.Register(job, 100+i))
		}
		order := rapid.Permutation(seq(fillers)).Draw(r, "order")
		runs := func(all bool) map[berth.JobKey]int {
			out := map[berth.JobKey]int{}
			synctest.Test(t, func(t *testing.T) {
				store, log := statetest.New(t, append([]state.Command{&state.BeginTerm{Term: 1}}, cmds...)...)
				c := &cluster{t, store, log}
				over := c.term()
				defer func() { over() }()
				c.do(jobs...)
				if all { // the plain way takes over
					over()
					over = func() {}
				}
				for _, i := range order {
					for _, a := range live(c.store.Snapshot(), fmt.Sprint("filler", i)) {
						c.do(ends(a))
					}
					if all {
						c.decideAll()
					}
				}
				for a := range c.store.Snapshot().Allocs() {
					if a.Live() {
						out[a.Key()]++
					}
				}
			})
			return out
		}
		if clever, plain := runs(false), runs(true); !maps.Equal(clever, plain) {
			r.Fatalf("these run: %v\nif all that waits is decided: %v", clever, plain)
		}
	})
}

// seq returns the numbers below n.
func seq(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// decideAll decides all blocked evaluations, the most urgent first, until none
// changes anything.
func (c *cluster) decideAll() {
	for again := true; again; {
		again = false
		s := c.store.Snapshot()
		for _, e := range slices.SortedFunc(s.OpenEvals(berth.EvalBlocked), func(a, b *berth.Eval) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.CreateIndex, b.CreateIndex))
		}) {
			s := c.store.Snapshot()
			plan := schedule.Decide(s, s.Eval(e.ID), 0, time.Now()).Plan
			plan.Stamp(1)
			again = again || len(plan.Place) > 0
			c.do(plan)
		}
	}
}

// What one freed slot costs while many evaluations wait for it.
func BenchmarkFreedSlot(b *testing.B) {
	for _, waiting := range []int{1000, 20_000} {
		b.Run(fmt.Sprint("waiting=", waiting), func(b *testing.B) {
			// What waits is made in the state before the term begins.
			store, log := statetest.New(b, &state.BeginTerm{Term: 1}, statetest.AddNode(1, 4000, 4000))
			decide := func(n int) {
				s := store.Snapshot()
				plan := schedule.Decide(s, s.Eval(statetest.ID[berth.Eval](n)), 0, time.Now()).Plan
				plan.Stamp(1)
				log.Must(b, plan)
			}
			log.Must(b, statetest.Register(asks(b, "filler", 1, 4000, 50, ""), 1))
			decide(1)
			for i := range waiting {
				log.Must(b, statetest.Register(asks(b, fmt.Sprint("job", i), 1, 4000, 1+i%100, ""), i+2))
				decide(i + 2)
			}
			ctx, stop := context.WithCancel(b.Context())
			queue := newBroker(b, store, log)
			ended := make(chan error, 2)
			go func() { ended <- queue.Run(ctx) }()
			go func() { ended <- newWorker(b, queue, newPlanner(b, log, queue)).Run(ctx) }()
			// The broker and the worker settle without a commit of their own, so
			// commits alone do not show it.
			until := func(done func() bool) {
				for !done() {
					if ctx.Err() != nil {
						b.Fatal(ctx.Err())
					}
					runtime.Gosched()
				}
			}
			settled := func() bool {
				st := queue.Stats()
				return st.Blocked == waiting && st.Held+st.Waiting+st.Ready[berth.TypeBatch]+st.Offered == 0
			}
			running := func() (a *berth.Alloc) {
				for a = range store.Snapshot().AllocsOn(statetest.ID[berth.Node](1)) {
					if a.Live() {
						return a
					}
				}
				return nil
			}
			until(settled)
			defer func() { stop(); <-ended; <-ended }()
			commands, n := uint64(0), 0
			for b.Loop() {
				before := store.Snapshot().Index
				old := running()
				log.Must(b, ends(old), statetest.Register(asks(b, fmt.Sprint("more", n), 1, 4000, 1, ""), waiting+n+2))
				n++
				until(func() bool { a := running(); return a != nil && a.ID != old.ID && settled() })
				commands += store.Snapshot().Index - before
			}
			b.ReportMetric(float64(commands)/float64(n), "commands/slot")
		})
	}
}
