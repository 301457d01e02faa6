package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/rest"
)

// The workload: people who write and read through all servers at once. Each
// keeps to one server, so that none of them is spared what its server goes
// through.

const (
	keys       = 5 // registers of a round
	writers    = 2 // at each server
	readers    = 3 // at each server; one of them reads what may be stale
	writePause = 300 * time.Millisecond
	readPause  = 60 * time.Millisecond
	writeLimit = 10 * time.Second
	retryLimit = 10 * time.Second // a request that is repeated for longer has failed
	readLimit  = time.Second      // short, so that a paused server resumes with new requests waiting
)

// workload is the users of a round.
type workload struct {
	*round
	last  atomic.Int64 // number of the last value that was written
	end   context.CancelFunc
	wait  sync.WaitGroup
	pause atomic.Int64 // between two writes of one person, ns; 0: nobody writes
	still atomic.Bool  // the service is not updated
	twice atomic.Bool  // one in five of the requests that are safe to repeat is sent twice

	fresh    atomic.Int64 // number of the last register that somebody began to create
	created  atomic.Int64 // highest number of one that was acknowledged
	unserved []string     // dispatches that failed at every attempt
}

// newWorkload returns the workload of a round, not yet started.
func newWorkload(r *round) *workload {
	w := &workload{round: r}
	w.pause.Store(int64(writePause))
	return w
}

// start lets users write to and read from each server, and dispatch and update
// jobs at any server, until stop.
func (w *workload) start(ctx context.Context) {
	ctx, w.end = context.WithCancel(ctx)
	for i, m := range w.servers {
		for k := range writers {
			p := w.person(ctx, 100*i+k, m)
			w.wait.Go(p.write)
		}
		for k := range readers {
			p := w.person(ctx, 100*i+writers+k, m)
			p.stale = k == 0
			w.wait.Go(p.read)
		}
		w.wait.Go(w.person(ctx, 3000+i, m).create)
		w.wait.Go(w.person(ctx, 4000+i, m).probe)
	}
	p := w.person(ctx, 1000, nil)
	w.wait.Go(p.dispatch)
	p = w.person(ctx, 1001, nil)
	w.wait.Go(p.update)
}

// stop ends the workload and waits for calls in progress.
func (w *workload) stop() {
	w.end()
	w.wait.Wait()
}

// person is one user.
type person struct {
	*workload
	ctx    context.Context
	number int
	server *machine // nil: any
	rng    *rand.Rand
	caller *caller
	stale  bool
	limit  time.Duration      // of a read
	known  map[string]seenJob // by key: what it saw last
}

// seenJob is a job as a user last saw it.
type seenJob struct {
	value string
	index uint64 // JobModifyIndex
}

// person returns a user of server m, or of any server if m is nil. Its random
// numbers follow from the seed and number.
func (w *workload) person(ctx context.Context, number int, m *machine) *person {
	return &person{
		workload: w, ctx: ctx, number: number, server: m, caller: newCaller(), limit: readLimit, known: map[string]seenJob{},
		rng: rand.New(rand.NewPCG(w.seed, uint64(number))),
	}
}

// at returns the server for the next call.
func (p *person) at() *machine {
	if p.server != nil {
		return p.server
	}
	return p.servers[p.rng.IntN(len(p.servers))]
}

// key is one of the round's registers.
func (r *round) key(i int) string { return fmt.Sprintf("register-%s-%d-%d", r.fault.ID, r.number, i) }

// do makes a call and adds it to the history.
func (p *person) do(c *call, m *machine, limit time.Duration, ask func(ctx context.Context, base string) (answer, error)) bool {
	// A call outlives the end of the workload: what came of it is to be known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), limit)
	defer cancel()
	c.Client, c.Server, c.Life = p.number, m.name, int(m.life.Load())
	c.Call = p.history.now()
	a, err := ask(ctx, m.http())
	if p.twice.Load() && (c.Kind == swap || c.Kind == dispatch) && p.rng.IntN(5) == 0 {
		was := *c
		_, _ = ask(ctx, m.http()) // as a network can do; the answer is lost
		*c = was
	}
	// errUndone marks the errors after which certainly nothing was done.
	c.Return, c.Index, c.Contact, c.Known, c.Outcome = p.history.now(), a.index, a.contact, a.known, done
	c.Status, c.Conn = a.code, a.conn
	switch {
	case errors.Is(err, errUndone):
		c.Outcome = refused
	case err != nil:
		c.Outcome = unknown
	}
	if err != nil {
		c.Error = err.Error()
	}
	p.history.add(c)
	return err == nil
}

// registered is the answer to a registered or dispatched job.
type registered struct {
	EvalID          string
	JobModifyIndex  uint64
	DispatchedJobID string
}

// write changes random keys until ctx ends: a write, a conditional write, or a
// purge. It makes no calls while the pause is 0.
func (p *person) write() {
	for {
		pause := time.Duration(p.pause.Load())
		if rest.For(p.ctx, max(pause/2, 20*time.Millisecond)+rand.N(max(pause, time.Millisecond))) != nil {
			return
		}
		if pause == 0 {
			continue
		}
		key := p.key(p.rng.IntN(keys))
		value := fmt.Sprint(p.last.Add(1))
		switch old, ok := p.known[key]; {
		case p.rng.IntN(12) == 0:
			p.purge(key)
		case ok && p.rng.IntN(3) == 0:
			p.register(&call{Kind: swap, Key: key, Old: old.value, Value: value}, object{"EnforceIndex": true, "JobModifyIndex": old.index})
		default:
			p.register(&call{Kind: write, Key: key, Value: value}, object{})
		}
	}
}

// register writes c's value to its key by registering a job. If the outcome is
// not known to be good, it reads the key again.
func (p *person) register(c *call, body object) {
	body["Job"] = registerJob(c.Key, c.Value)
	var out registered
	p.do(c, p.at(), writeLimit, func(ctx context.Context, base string) (answer, error) {
		a, err := p.caller.ask(ctx, "PUT", base+"/v1/jobs", body, &out)
		c.Eval, c.Version = out.EvalID, out.JobModifyIndex
		return a, err
	})
	switch c.Outcome {
	case done:
		p.known[c.Key] = seenJob{c.Value, out.JobModifyIndex}
	default:
		p.look(c.Key)
	}
}

// look reads a register for a user who writes it.
func (p *person) look(key string) {
	c := &call{Kind: read, Key: key}
	if v, ok := p.value(c, ""); ok {
		p.known[key] = v
	}
}

// purge deletes a key. If the key does not exist it is refused, which is judged
// as well.
func (p *person) purge(key string) {
	delete(p.known, key)
	c := &call{Kind: purge, Key: key}
	p.do(c, p.at(), writeLimit, func(ctx context.Context, base string) (answer, error) {
		return p.caller.ask(ctx, "DELETE", base+"/v1/job/"+key+"?purge=true", nil, nil)
	})
}

// create creates registers, one after another, and reads each at once over the
// same connection, however stale the answer may be.
func (p *person) create() {
	for rest.For(p.ctx, writePause/2+rand.N(writePause)) == nil {
		if p.pause.Load() == 0 {
			continue
		}
		n := p.fresh.Add(1)
		c := &call{Kind: write, Key: p.freshKey(n), Value: fmt.Sprint(p.last.Add(1))}
		p.register(c, object{})
		if c.Outcome == done {
			p.value(&call{Kind: stale, Key: c.Key}, "?stale=true")
			for old := p.created.Load(); old < n && !p.created.CompareAndSwap(old, n); old = p.created.Load() {
			}
		}
	}
}

// freshKey is the nth register that was created while the round went on. Nobody
// purges it.
func (r *round) freshKey(n int64) string {
	return fmt.Sprintf("register-%s-%d-fresh-%d", r.fault.ID, r.number, n)
}

// probe marks registers as stable, of those that were created last: that is
// refused unless the register exists, so a server that refuses it from an old
// state shows here.
func (p *person) probe() {
	for rest.For(p.ctx, readPause/2+rand.N(readPause)) == nil {
		n := p.created.Load() - p.rng.Int64N(3)
		if n <= 0 || p.pause.Load() == 0 {
			continue
		}
		c := &call{Kind: probe, Key: p.freshKey(n)}
		p.do(c, p.at(), readLimit, func(ctx context.Context, base string) (answer, error) {
			return p.caller.ask(ctx, "PUT", base+"/v1/job/"+c.Key+"/stable", object{"JobID": c.Key, "JobVersion": 0, "Stable": true}, nil)
		})
	}
}

// read reads random keys until ctx ends.
func (p *person) read() {
	for rest.For(p.ctx, readPause/2+rand.N(readPause)) == nil {
		c := &call{Kind: read, Key: p.key(p.rng.IntN(keys))}
		query := ""
		if p.stale {
			c.Kind, query = stale, "?stale=true"
		}
		p.value(c, query)
	}
}

// value reads a register.
func (p *person) value(c *call, query string) (v seenJob, ok bool) {
	var j struct {
		Meta           map[string]string
		JobModifyIndex uint64
	}
	ok = p.do(c, p.at(), p.limit, func(ctx context.Context, base string) (answer, error) {
		a, err := p.caller.ask(ctx, "GET", base+"/v1/job/"+c.Key+query, nil, &j)
		c.Value, c.Version = j.Meta["value"], j.JobModifyIndex
		if a.code == 404 {
			return a, nil
		}
		return a, err
	})
	return seenJob{c.Value, j.JobModifyIndex}, ok && c.Value != ""
}

// dispatch dispatches children, each with a token of its own. A failed request
// is repeated with the same token at the next server; there must be one child.
func (p *person) dispatch() {
	for i := 1; rest.For(p.ctx, 700*time.Millisecond) == nil; i++ {
		if p.pause.Load() == 0 {
			continue
		}
		token := fmt.Sprintf("%s-%d-%d", p.fault.ID, p.round.number, i)
		// The token is the same at each attempt, so repeats must not create a
		// second child.
		until, last := time.Now().Add(retryLimit), ""
		for k := p.rng.IntN(len(p.servers)); ; k++ {
			c := &call{Kind: dispatch, Key: token}
			ok := p.do(c, p.servers[k%len(p.servers)], retryLimit/2, func(ctx context.Context, base string) (answer, error) {
				var out registered
				a, err := p.caller.ask(ctx, "PUT", base+"/v1/job/"+workJob+"/dispatch?idempotency_token="+url.QueryEscape(token), object{"Meta": object{}}, &out)
				c.Value, c.Eval = out.DispatchedJobID, out.EvalID
				return a, err
			})
			if last = c.Error; ok || p.ctx.Err() != nil {
				break
			}
			if time.Now().After(until) {
				p.unserved = append(p.unserved, fmt.Sprintf("dispatch %s: %s", token, last))
				break
			}
			_ = rest.For(p.ctx, 100*time.Millisecond)
		}
	}
}

// update changes the service now and then, so that there are deployments.
func (p *person) update() {
	for rest.For(p.ctx, 3*time.Second) == nil {
		if p.pause.Load() == 0 || p.still.Load() {
			continue
		}
		value := fmt.Sprint(p.round.number, ".", p.last.Add(1))
		c := &call{Kind: write, Key: serviceJob, Value: value}
		p.do(c, p.at(), writeLimit, func(ctx context.Context, base string) (answer, error) {
			var out registered
			a, err := p.caller.ask(ctx, "PUT", base+"/v1/jobs", object{"Job": service(value)}, &out)
			c.Eval = out.EvalID
			return a, err
		})
	}
}
