package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/rest"
)

// round is one run of one fault.
type round struct {
	*cluster
	fault   *Fault
	number  int
	seed    uint64
	rng     *rand.Rand
	history *history
	work    *workload
	figures map[string]float64 // seconds, unless the name says otherwise
	killed  time.Duration      // when the leader was last taken away
	dead    []*machine         // killed by the fault, in order

	// What some faults remember:

	victim *machine
	filled []*machine       // whose disks are full
	from   time.Duration    // when it began
	terms  int              // before it
	tasks  map[string][]int // before it

	mu     sync.Mutex
	fallen map[string]bool // nodes that were seen down

	looks []look // the watcher's, until it has ended
}

// look is who leads according to each server at one moment; "" for a server
// that did not answer.
type look struct {
	at     time.Duration
	leader map[string]string
}

const (
	leadIn  = 1500 * time.Millisecond // of the workload, before the fault
	leadOut = 1500 * time.Millisecond // and after it
)

// newRound returns a round with its own seed, which follows from the run's
// seed, the fault and the number. A failed round can so be repeated alone.
func newRound(c *cluster, f *Fault, number int, o *options) *round {
	h := fnv.New64a()
	fmt.Fprint(h, o.seed, f.ID, number)
	r := &round{
		cluster: c, fault: f, number: number, seed: h.Sum64(), history: newHistory(), figures: map[string]float64{}, fallen: map[string]bool{},
	}
	r.rng = rand.New(rand.NewPCG(r.seed, 0))
	r.work = newWorkload(r)
	return r
}

// play plays the round and judges it.
func (r *round) play(ctx context.Context) *result {
	res := &result{Fault: r.fault.ID, Name: r.fault.Name, Round: r.number, Seed: r.seed, Began: time.Now()}
	watch, unwatch := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { r.watch(watch) })
	r.work.start(ctx)
	err := rest.For(ctx, leadIn)
	if err == nil {
		r.history.note("the fault begins")
		err = r.fault.Start(ctx, r)
	}
	if err == nil {
		err = rest.For(ctx, r.fault.Hold)
	}
	// The fault is ended even if it could not begin as a whole.
	res.check("the fault: %w", errors.Join(err, r.fault.Stop(ctx, r), r.heal()))
	r.history.note("the fault has ended")
	ended := time.Now()
	// Users go on for a while, to see that all works again.
	_ = rest.For(ctx, leadOut)
	r.work.stop()
	r.settle(ctx, res)
	r.figures["settled"] = time.Since(ended).Seconds()
	unwatch()
	watchers.Wait()
	r.judge(ctx, res)
	res.finish(r)
	return res
}

// settle waits until the cluster is healthy again.
func (r *round) settle(ctx context.Context, res *result) {
	if err := r.ready(ctx, settleLimit); err != nil {
		res.fail("%v", err)
		return
	}
	if err := r.probe(ctx, fmt.Sprintf("probe-%s-%d", r.fault.ID, r.number)); err != nil {
		res.fail("%v", err)
		return
	}
	res.check("%w", r.settled(ctx))
}

// judge checks everything that must hold after a round.
func (r *round) judge(ctx context.Context, res *result) {
	if len(res.Failures) == 0 {
		r.lastReads(ctx, res)
	}
	// The workload has ended, so the history does not change any more.
	calls := r.history.calls
	if !r.measure() && r.killed > 0 {
		res.fail("no write was done after the leader was gone")
	}
	res.Failures = append(res.Failures, judgeOrder(calls)...)
	res.Failures = append(res.Failures, judgeIndexes(calls)...)
	res.Failures = append(res.Failures, judgeConnections(calls)...)
	res.Failures = append(res.Failures, judgeTokens(calls)...)
	res.Failures = append(res.Failures, r.judgeStates(ctx, calls)...)
	res.Failures = append(res.Failures, r.judgeLogs()...)
	if len(r.fallen) > 0 && !r.fault.Falls {
		var names []string
		for n := range r.fallen {
			names = append(names, n)
		}
		slices.Sort(names)
		res.fail("I-30: %d nodes were taken for down: %.80s", len(names), strings.Join(names, ", "))
	}
	// A round in which little happened would pass by chance.
	if len(calls) < 50 {
		res.fail("there were only %d calls: the round shows nothing", len(calls))
	}
	if r.fault.After != nil && ctx.Err() == nil {
		res.check("%w", r.fault.After(ctx, r))
	}
}

// measure records how long no write was possible. It returns false if there was
// no write after the leader was gone.
func (r *round) measure() bool {
	if r.killed == 0 {
		return false
	}
	took := r.history.firstWrite(r.killed)
	if took > 0 {
		r.figures[firstWrite] = took.Seconds()
	}
	return took > 0
}

// lastReads reads every register at every server, so that a lost write shows.
func (r *round) lastReads(ctx context.Context, res *result) {
	for i, m := range r.servers {
		p := r.work.person(ctx, 2000+i, m)
		p.limit = writeLimit // its connections to other servers may be older than the fault
		for k := range keys {
			c := &call{Kind: read, Key: r.key(k)}
			if p.value(c, ""); c.Outcome != done {
				res.fail("%s cannot be read at %s: %s", c.Key, m.name, c.Error)
			}
		}
	}
}

// watch notes who leads, and which nodes are down or disconnected.
func (r *round) watch(ctx context.Context) {
	was := map[string]string{}
	for rest.For(ctx, 100*time.Millisecond) == nil {
		l := look{r.history.now(), map[string]string{}}
		for _, m := range r.servers {
			one, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			var at string
			if err := r.get(one, m, "/v1/status/leader", &at); err != nil {
				at = ""
			}
			cancel()
			if ctx.Err() != nil {
				return
			}
			if at != was[m.name] {
				r.history.note("%s: leader %q → %q", m.name, was[m.name], at)
				was[m.name] = at
			}
			l.leader[m.name] = at
		}
		r.looks = append(r.looks, l)
		r.watchNodes(ctx)
	}
}

// watchNodes notes the nodes that are down or disconnected. It gives up after
// half a second, since servers may be unreachable.
func (r *round) watchNodes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, other, err := r.nodeList(ctx, r.anyone(), "?stale=true&filter="+url.QueryEscape(`Status == "down" or Status == "disconnected"`))
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range other {
		if !r.fallen[n] {
			r.fallen[n] = true
			r.history.note("node %s", n)
		}
	}
}

// wait waits for a leader that all servers agree on.
func (r *round) wait(ctx context.Context) (m *machine, err error) {
	err = until(ctx, settleLimit, "there is a leader", func() string {
		if m = r.leader(ctx, r.servers); m == nil {
			return "they do not agree"
		}
		return ""
	})
	return m, err
}

// gone notes that the leader is taken away now.
func (r *round) gone(m *machine) {
	r.killed = r.history.now()
	r.history.note("%s, which leads, is gone", m.name)
}

// down kills a server. up starts it again.
func (r *round) down(m *machine) {
	if r.killed == 0 {
		r.gone(m)
	}
	m.kill()
	r.history.note("%s is killed", m.name)
	r.dead = append(r.dead, m)
}

// up starts all servers that down killed.
func (r *round) up() error {
	var errs []error
	for _, m := range r.dead {
		if !m.running() {
			errs = append(errs, m.start())
			r.history.note("%s is started", m.name)
		}
	}
	r.dead = nil
	return errors.Join(errs...)
}

// write saves the history.
func (r *round) write(dir string) { _ = r.history.write(dir) }
