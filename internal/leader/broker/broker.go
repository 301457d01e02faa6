// Package broker holds the evaluations that wait: for a worker, for a time, or
// for capacity in the cluster. It is built from the state when a term begins
// and follows the commits from there, so it holds exactly the evaluations that
// are open in the state. Workers take evaluations from it and report the
// outcome. It ends those that cannot be delivered itself.
package broker

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
)

// Broker holds the evaluations of one term. Its other methods have no effect
// unless Run is running.
type Broker struct {
	Logger *slog.Logger // may be set before Run; slog.Default() if not

	term   uint64
	store  *state.Store
	log    state.Log
	limits Limits

	mu      sync.Mutex
	queue   *Queue
	blocked *Blocked
	offers  offers
	held    quarantines
	changed chan struct{} // closed when something may be ready
	poke    chan struct{} // wakes Run
	closed  bool
	paused  bool // by an operator: nothing is delivered
	volumes bool // a CSI volume is free, or came, since then
	preempt bool // more jobs may preempt others since the blocked evaluations were last looked at
	recent  *recent
	// unready is the newest index at which a node stopped taking allocations.
	unready uint64

	// OnEnd, if set before Run, is called once for each evaluation that ended.
	// The broker is locked during the call, so it must be quick and must not
	// call back.
	OnEnd func(Ended)
}

// New returns the broker of a term.
func New(term uint64, store *state.Store, log state.Log, limits Limits) *Broker {
	return &Broker{
		Logger: slog.Default(), term: term, store: store, log: log, limits: limits,
		queue: NewQueue(limits), blocked: NewBlocked(), offers: newOffers(), held: quarantines{},
		changed: make(chan struct{}), poke: make(chan struct{}, 1), recent: newRecent(),
	}
}

// Run follows the state until ctx ends or the log is lost.
func (b *Broker) Run(ctx context.Context) error {
	defer b.close()
	at := b.store.Follow()
	defer at.Stop()
	b.mu.Lock()
	b.rebuild(at.Commit().Snapshot)
	b.mu.Unlock()
	for {
		again := b.tick(time.Now())
		if err := b.reap(); err != nil {
			return err
		}
		// The timer needs some time; nothing depends on it.
		if again.IsZero() {
			again = time.Now().Add(time.Hour)
		}
		alarm := time.NewTimer(time.Until(again))
		select {
		case <-at.Ready():
			b.follow(at)
		case <-alarm.C:
		case <-b.poke:
		case <-ctx.Done():
			alarm.Stop()
			return ctx.Err()
		}
		alarm.Stop()
	}
}

// close wakes the callers that wait for an evaluation: none will come.
func (b *Broker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wake()
}

// wake tells workers to look again. b.mu is held.
func (b *Broker) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// rebuild fills the broker from a state. b.mu is held.
func (b *Broker) rebuild(s *state.Snapshot) {
	b.queue, b.blocked, b.offers, b.held = NewQueue(b.limits), NewBlocked(), newOffers(), quarantines{}
	b.paused = s.SchedulerConfig().PauseEvalBroker
	now := time.Now()
	for e := range s.OpenEvals(berth.EvalPending) {
		b.held.note(s, e, now)
	}
	for e := range s.OpenEvals(berth.EvalPending) {
		b.add(s, e, now)
	}
	// What the blocked ones waited for may have come between two terms.
	for e := range s.OpenEvals(berth.EvalBlocked) {
		if sh, _ := shapeOf(s, e); sh.any || quotaGone(s, e) || !e.NodeID.IsZero() || !b.blocked.Add(e, now.Add(b.limits.FollowUpAfter)) {
			b.add(s, e, now)
		}
	}
	if b.blocked.Len() > 0 {
		b.offers.all(s)
		b.blocked.quotas.all(s)
	}
	b.round(s, now)
	b.wake()
}

// add puts an evaluation in the queue. Those of a quarantined job wait. b.mu is
// held.
func (b *Broker) add(s *state.Snapshot, e *berth.Eval, now time.Time) {
	b.queue.AddAfter(e, b.held.holds(s, e), now)
}

// follow processes all commits that f has not read yet.
func (b *Broker) follow(f *state.Follower) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	at := f.Commit()
	for next := f.TryNext(); next != nil; next = f.TryNext() {
		before := at.Snapshot.Index
		at = next
		if at.Reset {
			b.rebuild(at.Snapshot)
			continue
		}
		for i := range at.Changes {
			c := &at.Changes[i]
			if n, r := b.take(at.Snapshot, before, c, now); r != 0 {
				b.freed(at.Snapshot, c, n, r, now)
			}
			for _, n := range released(at.Snapshot, c) {
				b.blocked.Note(n.Class, CapacityPool, at.Snapshot.Index)
				b.offers.make(n, CapacityPool, at.Snapshot.Index)
			}
		}
		// A change of the configuration may let any blocked evaluation preempt.
		if b.volumes {
			b.volumes = false
			b.addAll(at.Snapshot, b.blocked.FreedVolume(at.Snapshot), now)
		}
		if b.preempt {
			b.preempt = false
			b.addAll(at.Snapshot, b.blocked.FreedAll(at.Snapshot.Index), now)
		}
		b.waitOn(at.Snapshot) // before the next commit, which may help them
	}
	b.round(at.Snapshot, now)
	b.wake()
}

// addAll puts evaluations that waited for capacity in the queue. b.mu is held.
func (b *Broker) addAll(s *state.Snapshot, list []*berth.Eval, now time.Time) {
	for _, e := range list {
		b.add(s, e, now)
	}
}

// take processes one change of the state. before is the index of the state
// before the change. If a node got capacity by it, take returns the node and
// the kinds of capacity.
func (b *Broker) take(s *state.Snapshot, before uint64, c *state.Change, now time.Time) (on *berth.Node, freed Capacity) {
	switch c.Table {
	case state.SchedulerConfigs:
		b.paused = s.SchedulerConfig().PauseEvalBroker
		old, _ := c.Old.(*berth.SchedulerConfig)
		b.preempt = b.preempt || preemptsMore(old, s.SchedulerConfig())
	case state.QuotaUsages:
		b.blocked.quotas.quotaChanged(c)
	case state.Namespaces:
		// Those that wait for a quota do not when the namespace has another.
		old, _ := c.Old.(*berth.Namespace)
		if n, _ := c.New.(*berth.Namespace); old != nil && old.Quota != "" && (n == nil || n.Quota != old.Quota) {
			for _, e := range b.blocked.quotas.of(old.Quota, old.Name) {
				b.blocked.Remove(e.ID)
				b.add(s, e, now)
			}
		}
	case state.Evals:
		if e, ok := c.New.(*berth.Eval); ok {
			old, _ := c.Old.(*berth.Eval)
			b.eval(s, old, e, now)
		} else if e, ok := c.Old.(*berth.Eval); ok {
			b.queue.Drop(e.ID)
			b.blocked.Remove(e.ID)
			b.held.forget(e)
		}
	case state.Jobs:
		for _, row := range [2]any{c.Old, c.New} {
			if j, ok := row.(*berth.Job); ok && len(b.held) > 0 {
				b.lift(s, j.Key(), now)
			}
		}
	case state.HostVolumes:
		// It came, allows more than before, or made its name free.
		for _, row := range [2]any{c.New, c.Old} {
			if v, ok := row.(*berth.HostVolume); ok {
				if n := s.Node(v.NodeID); n != nil {
					return n, CapacityNode
				}
			}
		}
	case state.HostVolumeClaims:
		if old, ok := c.Old.(*berth.HostVolumeClaim); ok && c.New == nil {
			b.unclaimed(s, old, now)
		}
	case state.CSIClaims, state.CSIVolumes:
		// A volume is free, or it came or allows more than before: on any node.
		if c.New == nil || c.Table == state.CSIVolumes {
			b.volumes = true
		}
	case state.CSIPlugins:
		// A node's plugin may be well and the volume wait for a controller elsewhere.
		old, _ := c.Old.(*state.CSIPlugin)
		if p, ok := c.New.(*state.CSIPlugin); ok && p.ControllersHealthy > 0 && (old == nil || old.ControllersHealthy == 0) {
			b.volumes = true
		}
	case state.Nodes:
		n, _ := c.New.(*berth.Node)
		old, _ := c.Old.(*berth.Node)
		// A node that is new, ready again or changed counts as all free.
		if n != nil && n.Ready() && (old == nil || !old.Ready() || !sameForScheduling(old, n)) {
			return n, CapacityAll
		}
		if old != nil && old.Ready() {
			b.unready = max(b.unready, c.Index)
		}
		if old != nil && n != nil && (awaitedInVain(s, old, n) || staysUpdated(s, old, n)) {
			return n, CapacityAll
		}
	case state.Allocs:
		// An allocation frees capacity only if it held some.
		old, _ := c.Old.(*berth.Alloc)
		if old == nil || !old.Occupies() {
			return nil, 0
		}
		a, _ := c.New.(*berth.Alloc)
		r := capacityFreed(s, old, a)
		if r == 0 {
			return nil, 0
		}
		n := s.Node(old.NodeID)
		if n != nil && (n.Ready() || n.ModifyIndex > before && !old.Wanted()) {
			return n, r // a job may have waited for this while the node still took allocations: see awaitedInVain
		}
	}
	return nil, 0
}

// unclaimed wakes the evaluations of the job that had a claim on a host volume:
// its instances may use other nodes now. Those that are being decided look again.
func (b *Broker) unclaimed(s *state.Snapshot, c *berth.HostVolumeClaim, now time.Time) {
	b.blocked.freed.everywhere(s.Index)
	for e := range s.OpenEvalsOf(berth.JobKey{Namespace: c.Namespace, ID: berth.JobID(c.JobID)}, berth.EvalBlocked) {
		b.blocked.Remove(e.ID)
		b.add(s, e, now)
	}
}

// eval takes over a change of an evaluation from old to e: it ends, waits for
// capacity, or joins the queue.
func (b *Broker) eval(s *state.Snapshot, old, e *berth.Eval, now time.Time) {
	b.held.note(s, e, now)
	if e.Terminal() {
		b.notify(b.recent.end(e))
	}
	if berth.PerNode(e.Type) && decided(old, e) {
		b.queue.Drop(e.ID)
		b.waitOn(s) // the same commit may have left some to it
		// Other evaluations of its job that wait for one node were left to this
		// one. What happened after the state that it was decided on is theirs
		// again.
		for x := range s.OpenEvalsOf(e.Key(), berth.EvalBlocked) {
			if x.ID != e.ID && b.blocked.missedSince(x.ID, e.SnapshotIndex) {
				b.blocked.Remove(x.ID)
				b.add(s, x, now)
			}
		}
	}
	if e.Status != berth.EvalBlocked {
		b.blocked.Remove(e.ID)
		b.add(s, e, now)
		return
	}
	b.queue.Drop(e.ID)
	if !b.blocked.Add(e, now.Add(b.limits.FollowUpAfter)) || b.unready > e.SnapshotIndex && waitsInVain(s, e) || quotaGone(s, e) {
		b.blocked.Remove(e.ID)
		b.add(s, e, now)
	}
}

// decided reports whether a worker has just decided an evaluation, which
// changes its timeline. Whether the worker still holds it proves nothing: it
// can be done before the commit of its plan arrives here. old is nil if the
// evaluation is new.
func decided(old, e *berth.Eval) bool {
	return e.Status == berth.EvalComplete || e.Status == berth.EvalBlocked && old != nil && old.Timeline != e.Timeline
}

// tick makes ready what is due at now and returns when the next one is due.
// Zero means that nothing is.
func (b *Broker) tick(now time.Time) (again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.store.Snapshot()
	due, again := b.blocked.Due(now)
	b.addAll(s, due, now)
	for _, next := range []time.Time{b.queue.Tick(now), b.round(s, now)} {
		if again.IsZero() || !next.IsZero() && next.Before(again) {
			again = next
		}
	}
	b.wake()
	return again
}

// waitOn puts evaluations that wait for a node, and need not be looked at, back
// among the blocked. b.mu is held.
func (b *Broker) waitOn(s *state.Snapshot) {
	for _, e := range b.queue.Waiters() {
		if _, again := b.queue.Quasi(e.ID); again {
			continue // it has become ready meanwhile
		}
		switch now := s.Eval(e.ID); {
		case now == nil || now.Status != berth.EvalBlocked:
		case b.queue.Busy(now.Key()):
			b.blocked.Keep(now)
		case !b.blocked.Add(now, time.Now().Add(b.limits.FollowUpAfter)): // the newer one is gone
			b.add(s, now, time.Now())
		}
	}
}

// reap ends the evaluations that newer ones superseded and those that could not
// be delivered. It does not wait for the commit; the result comes back with the
// commits.
func (b *Broker) reap() error {
	b.mu.Lock()
	dropped, failed := b.queue.Dropped(), b.queue.Failed()
	snap := b.store.Snapshot()
	b.waitOn(snap)
	timelines := make([]berth.Timeline, len(failed)) // the command that ends an evaluation stores it
	for i, e := range failed {
		q, _ := b.queue.Quasi(e.ID)
		timelines[i] = q.Timeline
	}
	b.mu.Unlock()
	// Commands are staged without the lock, because staging can wait.
	var cmds []state.Command
	now := time.Now()
	for _, d := range dropped {
		c := &state.CancelEvals{IDs: []berth.EvalID{d.Old}, Why: state.Superseded(d.New), Now: now.UnixNano()}
		if snap.KeepsLineage() {
			c.Why, c.By = "", d.New
		}
		c.Stamp(b.term)
		cmds = append(cmds, c)
	}
	for i, e := range failed {
		c := &state.FailEval{
			ID: e.ID, Why: "it was delivered to workers too often without being decided", Timeline: timelines[i],
			Wait: now.Add(b.limits.FollowUpAfter).UnixNano(), Now: e.At.UnixNano(),
		}
		rand.Read(c.FollowUp[:])
		c.Stamp(b.term)
		cmds = append(cmds, c)
		b.Logger.Warn("an evaluation failed", "eval", e.ID, "job", e.Key().String(), "reason", c.Why)
	}
	if len(cmds) == 0 {
		return nil
	}
	_, err := b.log.Stage(cmds...)
	return err
}
