package histories

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/leader"
	"berth/internal/leader/broker"
	"berth/internal/leader/collector"
	"berth/internal/leader/deploy"
	"berth/internal/leader/drain"
	"berth/internal/leader/periodic"
	"berth/internal/leader/planner"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/worker"

	"golang.org/x/sync/errgroup"
)

// limits are those of the brokers: shorter than a server's, so that a history
// sees them run out.
var limits = broker.Limits{
	NackTimeout: 20 * time.Second, FirstNackDelay: time.Second, NackDelay: 5 * time.Second,
	Deliveries: 3, FollowUpAfter: 30 * time.Second,
}

// collect says when what is deleted.
var collect = collector.Options{Interval: 30 * time.Second, Ages: schedule.Ages{
	Evals: time.Minute, BatchEvals: 2 * time.Minute, Jobs: 2 * time.Minute, Nodes: 5 * time.Minute, Deployments: time.Minute,
}}

// commandsMost is how many commands a history may have; the longest of many
// thousands had some 2,000. More is a service that is never satisfied.
const commandsMost = 50_000

// eventCount is how many events a history has before the quiet.
const eventCount = 200

// history is one history of a cluster.
type history struct {
	seed   uint64
	chance *rand.Rand // of the goroutine that makes things happen
	defect *defect    // planted, if any
	store  *state.Store
	term   *term
	disk   disk
	quiet  atomic.Bool // nothing goes wrong any more
	steady atomic.Bool // nor did it for a while
	obeyed int64       // when agents last did as they were told, in Unix nanoseconds
	cover  coverage
	began  time.Time
	staged atomic.Int64 // commands
	evicts bool         // operators let jobs evict others

	mu    sync.Mutex
	fates map[berth.EvalID]fate
	dice  *rand.Rand             // of fates
	over  map[berth.AllocID]bool // their agents said that they ended
	// What users asked for: drains that have not ended, in all the ways that they
	// were to be done; and launches, and those that were made.
	drains   map[berth.NodeID][]berth.DrainSpec
	forced   map[berth.JobID]bool
	launches map[child]bool
	tokens   map[berth.JobID]string // of dispatches
	found    []string               // what does not hold
	last     []state.Change         // the newest changes of the state
	story    []string               // what happened
}

// fate is what a history has in store for an evaluation.
type fate int

const (
	lucky   fate = iota
	cursed       // no worker brings it to an end
	unlucky      // its plans are refused
)

// term is a leader.
type term struct {
	number uint64
	log    *termLog
	ledger *ledger
	cancel context.CancelFunc
	ctx    context.Context
	group  *errgroup.Group
	wrote  chan struct{} // closed when the log has stopped
	plans  *planner.Planner
	kill   []context.CancelFunc // a worker each
}

// run lets a history happen, in a bubble of virtual time, and returns what did
// not hold.
func run(seed uint64, d *defect) *history {
	h := &history{
		seed: seed, chance: rand.New(rand.NewPCG(seed, 0)), dice: rand.New(rand.NewPCG(seed, 1)), defect: d,
		store: state.New(), fates: map[berth.EvalID]fate{}, over: map[berth.AllocID]bool{}, began: time.Now(),
		drains: map[berth.NodeID][]berth.DrainSpec{}, forced: map[berth.JobID]bool{}, launches: map[child]bool{}, tokens: map[berth.JobID]string{},
	}
	h.disk = []disk{{}, {slow: 0.1}, {slow: 0.3, stuck: 0.01}}[h.chance.IntN(3)]
	h.begin()
	h.allowEviction(h.chance.IntN(4) > 0)
	for events := 0; events < eventCount && !h.failed(); {
		if h.event() {
			events++
		}
		h.pass()
	}
	h.silence()
	h.end(2)
	return h
}

func (h *history) failf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.found) < 10 {
		h.found = append(h.found, fmt.Sprintf("%8.3fs  ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
	}
}

func (h *history) failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.found) > 0
}

// tell notes what happens, for who reads a history that failed.
func (h *history) tell(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.story = append(h.story, fmt.Sprintf("%8.3fs  ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

func (h *history) took(r row) { h.cover[r].Add(1) }

// fate returns what is in store for an evaluation.
func (h *history) fate(e *berth.Eval) fate {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.fates[e.ID]
	if !ok {
		switch p := h.dice.Float64(); {
		case p < 0.03:
			f = cursed
		case p < 0.07:
			f = unlucky
		}
		h.fates[e.ID] = f
	}
	return f
}

// begin begins a term.
func (h *history) begin() {
	t := &term{number: h.store.Snapshot().Term + 1, wrote: make(chan struct{})}
	h.term = t
	t.log = newLog(h.store, h.disk, h.chance.Uint64())
	t.log.commit = h.committed
	t.log.staged = func(cmds []state.Command) bool { return h.spend(t, cmds) }
	t.log.deleted = func(before, after *state.Snapshot) {
		for _, v := range invariant.Step(before, after) {
			h.failf("%s", v)
		}
	}
	if h.defect != nil && h.defect.log != nil {
		t.log.meddle = h.defect.log
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	b := broker.New(t.number, h.store, t.log, limits)
	b.Logger = slog.New(slog.DiscardHandler) // what goes wrong is meant to, and is looked for in the state
	t.ledger = &ledger{
		h: h, broker: b, queue: b, log: t.log, last: map[berth.EvalID]berth.Token{}, holds: map[berth.JobKey]berth.Delivery{},
		acked: map[berth.EvalID]bool{}, told: map[berth.EvalID]bool{}, plans: map[berth.JobKey]uint64{},
	}
	if h.defect != nil && h.defect.queue != nil {
		t.ledger.queue = h.defect.queue(b)
	}
	b.OnEnd = t.ledger.ended
	t.plans = planner.New(t.number, t.log, t.ledger)
	t.plans.Logger = b.Logger
	collects := collector.NewWorker(t.number, t.log, t.ledger, t.plans, collect)
	collects.Logger = b.Logger
	go func() {
		defer close(t.wrote)
		t.log.run(t.ctx)
	}()
	if _, err := t.log.Propose(t.ctx, &state.BeginTerm{Term: t.number}); err != nil {
		h.failf("the term does not begin: %v", err)
	}
	t.group = &errgroup.Group{}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], h.chance.Uint64())
	t.group.Go(func() error { return b.Run(t.ctx) })
	t.group.Go(func() error { return leader.Run(t.ctx, collector.NewTimer(collect, seed), t.number, h.store, t.log) })
	t.group.Go(func() error { return collects.Run(t.ctx) })
	h.control(t)
	for range 1 + h.chance.IntN(3) {
		h.hire()
	}
}

// spend counts commands, and ends the term when there were too many.
func (h *history) spend(t *term, cmds []state.Command) bool {
	n := h.staged.Add(int64(len(cmds)))
	if n <= commandsMost {
		return true
	}
	if n-int64(len(cmds)) <= commandsMost {
		h.failf("a history has no more than %d commands, and this one goes on with %T", commandsMost, cmds[0])
	}
	t.cancel()
	return false
}

// control starts the controllers of a term that change jobs over time, as a
// server does.
func (h *history) control(t *term) {
	run := func(c leader.Controller, keys ...state.WatchKey) {
		t.group.Go(func() error { return leader.Run(t.ctx, c, t.number, h.store, t.log, keys...) })
	}
	seed := func() (s [32]byte) { // of each its own, for IDs come of them
		binary.LittleEndian.PutUint64(s[:], h.chance.Uint64())
		return s
	}
	run(deploy.New(), state.OnTable(state.Deployments))
	run(drain.New(seed()), drain.Watched()...)
	run(periodic.New(seed()), state.OnTable(state.Jobs))
}

// hire starts a worker.
func (h *history) hire() {
	t := h.term
	ctx, kill := context.WithCancel(t.ctx)
	t.kill = append(t.kill, kill)
	d := &desk{ledger: t.ledger, planner: t.plans, gone: ctx, chance: rand.New(rand.NewPCG(h.chance.Uint64(), 3))}
	w := worker.New(d, d, worker.Types)
	w.Logger = slog.New(slog.DiscardHandler)
	t.group.Go(func() error {
		err := w.Run(ctx)
		if !errors.Is(err, context.Canceled) && !errors.Is(err, broker.ErrClosed) && t.ctx.Err() == nil {
			h.failf("a worker ended: %v", err)
		}
		return nil
	})
}

// end ends the term. Of what is on its way, so many entries are safe.
func (h *history) end(keep int) {
	t := h.term
	t.cancel()
	<-t.wrote
	_ = t.group.Wait()
	for range t.log.end(keep) {
		h.took(keptAfterTerm)
	}
}

// committed looks at an entry before others see it.
func (h *history) committed(b *state.Batch) {
	h.remember(b.Changes)
	sound := !h.failed()
	defer func() {
		if sound && h.failed() {
			h.describeSince(b.Base.Index)
			for _, k := range touched(b) {
				h.describe(b.Snapshot, k)
			}
		}
	}()
	h.count(b.Changes)
	h.feasible(b)
	h.confirmed(b)
	h.kept(b)
	for _, v := range invariant.Changed(b.Base, b.Changes) {
		h.failf("%s", v)
	}
	for _, v := range invariant.Between(b.Base, b.Snapshot) {
		h.failf("%s", v)
	}
	for _, v := range invariant.Check(b.Snapshot) {
		h.failf("%s", v)
	}
	for _, v := range invariant.Scheduled(b.Snapshot) {
		if v.ID != "I-25" { // what no evaluation ends the deployment watcher does, after a while
			h.failf("%s", v)
		}
	}
}

// remember keeps the newest changes, for who reads a history that failed.
func (h *history) remember(changes []state.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const most = 300
	h.last = append(h.last, changes...)
	if n := len(h.last); n > 2*most {
		h.last = slices.Clone(h.last[n-most:])
	}
}

// feasible checks the rest of I-10: that constraints hold where something was
// put, unless the node changed with the same entry.
func (h *history) feasible(b *state.Batch) {
	for i := range b.Changes {
		a, ok := b.Changes[i].New.(*berth.Alloc)
		if !ok || b.Changes[i].Old != nil {
			continue
		}
		n := b.Node(a.NodeID)
		if n == nil || n.ModifyIndex > a.CreateIndex {
			continue
		}
		for _, c := range a.Group.Constraints {
			if c.Operand == berth.OpEqual && n.Meta["rack"] != c.RTarget || c.Operand == berth.OpNotEqual && n.Name == c.RTarget {
				h.failf("I-10: %s was put on node %s against %s", a.Name(), n.Name, c.String())
			}
		}
	}
}

// confirmed checks that room comes free only when the agent of its node says so,
// or is not heard.
func (h *history) confirmed(b *state.Batch) {
	for i := range b.Changes {
		old, _ := b.Changes[i].Old.(*berth.Alloc)
		if old == nil || !old.Occupies() {
			continue
		}
		if a, _ := b.Changes[i].New.(*berth.Alloc); a != nil && a.Occupies() {
			continue
		}
		h.mu.Lock()
		over := h.over[old.ID]
		h.mu.Unlock()
		silent := away(b.Base.Node(old.NodeID))
		for _, c := range b.Changes { // it can turn with the same entry, more than once
			n, is := c.New.(*berth.Node)
			silent = silent || is && n.ID == old.NodeID && away(n)
		}
		if !over && !silent {
			h.failf("%s gave up its room on %s, and its agent did not say that it ended", old.Name(), old.NodeID.Short())
		}
	}
}

// away reports whether what runs on a node can be given up without its word.
func away(n *berth.Node) bool {
	return n == nil || n.Status == berth.NodeDown || n.Status == berth.NodeDisconnected
}

// pass lets some time go by, often none, and sometimes compares the broker
// with the state.
func (h *history) pass() {
	switch p := h.chance.Float64(); {
	case p < 0.4:
		return // the next event comes at the same moment
	case p < 0.75:
		time.Sleep(time.Duration(h.chance.Int64N(int64(100 * time.Millisecond))))
	case p < 0.97:
		time.Sleep(time.Duration(h.chance.Int64N(int64(8 * time.Second))))
	default:
		time.Sleep(time.Duration(h.chance.Int64N(int64(2 * time.Minute))))
	}
	synctest.Wait()
	h.giveUp()
	h.audit()
}

// giveUp does what the leader's monitor does: it sets those nodes down that are
// disconnected and where nothing is waited for any more.
func (h *history) giveUp() {
	s := h.term.log.Tip()
	for n := range s.Nodes() {
		awaited := n.Status != berth.NodeDisconnected
		for a := range s.AllocsOn(n.ID) {
			since := n.StatusUpdatedAt * int64(time.Second)
			if a.Client == berth.ClientUnknown {
				since = a.Rest().UnknownSince
			}
			after, _, _ := a.Group.Away()
			awaited = awaited || a.Live() && a.Client != berth.ClientPending && since+int64(after) > now()
		}
		if !awaited {
			h.tell("node %s is given up", n.Name)
			h.stage(&state.SetNodeStatus{ID: n.ID, Status: berth.NodeDown, Seed: h.id(), Now: now()})
		}
	}
}

// silence lets nothing happen any more but time, and looks at what is left.
func (h *history) silence() {
	if h.failed() {
		return
	}
	h.tell("quiet")
	h.quiet.Store(true)
	h.pause(false)
	calm := h.chance.IntN(2) == 0
	if calm {
		h.calm()
	}
	h.retire()
	if !calm && h.chance.IntN(2) == 0 { // agents at least do as they are told
		for range 20 {
			time.Sleep(5 * time.Second)
			h.obey(false)
		}
	}
	for range 20 {
		time.Sleep(time.Minute)
		synctest.Wait()
		h.giveUp()
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	for tries := 0; !h.term.log.idle(); tries++ { // a collection may be on its way
		if tries == 100 {
			h.failf("after 20 minutes of quiet there are still commands on their way")
			for _, k := range jobKeys {
				h.describe(h.store.Snapshot(), k)
			}
			for n := range h.store.Snapshot().Nodes() {
				h.describeNode(h.store.Snapshot(), n)
			}
			return
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
	h.audit()
	h.settled(calm)
}
