// Package heartbeat watches the nodes' heartbeats. It tells each node within
// what time to send the next one, spread so that heartbeats do not come all at
// once. A node that misses its time becomes disconnected if it runs an
// allocation that is allowed to come back, or else down. Heartbeats are never
// in the log; only changes of a node's status are.
package heartbeat

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
)

// Options are the time limits of heartbeats.
type Options struct {
	MinTTL      time.Duration // the shortest time between two heartbeats
	MaxPerSec   float64       // heartbeats per second that the servers want to handle
	Grace       time.Duration // added before a node is given up
	FailoverTTL time.Duration // the time that nodes get when a term begins, unless half of them are heard sooner
	Limiter     Limiter
}

// DefaultOptions are a server's options.
var DefaultOptions = Options{MinTTL: 10 * time.Second, MaxPerSec: 1000, Grace: 10 * time.Second, FailoverTTL: time.Minute, Limiter: DefaultLimiter}

// Monitor watches the heartbeats of one term.
type Monitor struct {
	Logger *slog.Logger // may be set before Run; slog.Default() if not

	term  uint64
	store *state.Store
	log   state.Log
	opts  Options

	clock Clock

	mu        sync.Mutex
	deadlines deadlines
	limiter   limiter
	presence  presence
	failover  failover // how long nodes have that did not reach this leader yet
	// changing holds the nodes whose change of status is being committed. The
	// channel is closed afterwards.
	changing map[berth.NodeID]chan struct{}
	// poke wakes Run when an earlier deadline was set.
	poke chan struct{}
}

// New returns the monitor of a term.
func New(term uint64, store *state.Store, log state.Log, o Options) *Monitor {
	return NewOn(SystemClock{}, term, store, log, o)
}

// NewOn returns the monitor of a term that reads another clock.
func NewOn(c Clock, term uint64, store *state.Store, log state.Log, o Options) *Monitor {
	return &Monitor{
		Logger: slog.Default(), term: term, store: store, log: log, opts: o, clock: c, deadlines: newDeadlines(), limiter: limiter{Limiter: o.Limiter},
		changing: map[berth.NodeID]chan struct{}{}, poke: make(chan struct{}, 1),
	}
}

// Heartbeat records a heartbeat of a node and returns the time within which the
// next must come. If the node has just been given up it first waits until that
// is committed: the caller must then look at the node's status again. The error
// is the context's.
func (m *Monitor) Heartbeat(ctx context.Context, id berth.NodeID) (time.Duration, error) {
	for {
		ttl, changing := m.hear(id)
		if changing == nil {
			return ttl, nil
		}
		select {
		case <-changing:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// hear records a heartbeat of a node, unless a change of the node's status is
// being committed. It returns what is closed after that change.
func (m *Monitor) hear(id berth.NodeID) (ttl time.Duration, changing <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.changing[id]; c != nil {
		return 0, c
	}
	now := m.clock.Now()
	base := m.base(len(m.deadlines.byNode))
	ttl = base + mathrand.N(base)
	m.deadlines.set(id, now.Add(ttl+m.opts.Grace))
	m.limiter.contacted(id, now)
	if m.failover.heard(id, now) || m.deadlines.items[0].node == id {
		select {
		case m.poke <- struct{}{}:
		default:
		}
	}
	return ttl, nil
}

// base is the shortest TTL, which grows with the number of nodes. A TTL lies at
// random between base and twice that, so that nodes that registered together do
// not send their heartbeats together.
func (m *Monitor) base(nodes int) time.Duration {
	return max(m.opts.MinTTL, time.Duration(float64(nodes)/m.opts.MaxPerSec*float64(time.Second)))
}

// patience is the time that nodes get when they have to find their way to this
// server first. The previous leader may have given a node the longest TTL a
// moment ago.
func (m *Monitor) patience(nodes int) time.Duration {
	return max(m.opts.FailoverTTL, m.longest(nodes))
}

// longest is the longest that a node can be silent before it is given up.
func (m *Monitor) longest(nodes int) time.Duration { return 2*m.base(nodes) + m.opts.Grace }

// Run gives up nodes that are silent, until ctx ends or the log is lost.
func (m *Monitor) Run(ctx context.Context) error {
	m.begin()
	for {
		now := m.clock.Now()
		again, err := m.giveUp(ctx, now)
		if err != nil {
			return err
		}
		if next := now.Add(tick); again.IsZero() || again.After(next) {
			again = next
		}
		alarm := time.NewTimer(again.Sub(now))
		select {
		case <-alarm.C:
		case <-m.poke:
		case <-ctx.Done():
			alarm.Stop()
			return ctx.Err()
		}
		alarm.Stop()
	}
}

// begin gives every node that was up when the term began time to reach the new
// leader.
func (m *Monitor) begin() {
	snap := m.store.Snapshot()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	count := snap.Count(state.Nodes)
	patience := m.patience(count)
	m.failover = failover{unheard: map[berth.NodeID]bool{}, normal: now.Add(m.longest(count)), limit: m.opts.Limiter}
	for n := range snap.Nodes() {
		switch _, heard := m.deadlines.byNode[n.ID]; {
		case n.Status == berth.NodeDown:
		case heard:
			m.failover.all++
		case n.Status == berth.NodeDisconnected:
			m.deadlines.set(n.ID, lookAgain(now, awaited(snap, n, now)))
		default:
			m.deadlines.set(n.ID, now.Add(patience))
			m.failover.unheard[n.ID] = true
			m.failover.all++
		}
	}
}

// awaited returns until when an allocation on a silent node is allowed to come
// back, the zero time if none is. For an allocation that is not unknown yet the
// time begins when its node was disconnected, or now. An allocation that never
// ran is not waited for.
func awaited(s *state.Snapshot, n *berth.Node, now time.Time) (until time.Time) {
	silence := now
	if n.Status == berth.NodeDisconnected {
		silence = time.Unix(n.StatusUpdatedAt+1, 0) // stored in whole seconds
	}
	for a := range s.AllocsOn(n.ID) {
		lostAfter, _, _ := a.Group.Away()
		if lostAfter == 0 || !a.Live() || a.Orphaned || a.Client == berth.ClientPending {
			continue
		}
		since := silence
		if a.Client == berth.ClientUnknown {
			since = time.Unix(0, a.Rest().UnknownSince)
		}
		if since.After(now) { // the clock was put back
			since = now
		}
		if at := since.Add(lostAfter); at.After(until) {
			until = at
		}
	}
	return until
}

// recheck is how often a disconnected node is looked at. The allocations that
// are allowed to come back there can be stopped meanwhile, and then the node is
// down before its time.
const recheck = time.Minute

// lookAgain returns until, but no later than recheck from now.
func lookAgain(now, until time.Time) time.Time {
	if next := now.Add(recheck); until.After(next) {
		return next
	}
	return until
}

// giveUp marks the nodes whose time is up as disconnected or down, and returns
// when the next node's time is up.
func (m *Monitor) giveUp(ctx context.Context, now time.Time) (again time.Time, err error) {
	pending, changing, again, err := m.stage(now)
	if err == nil && pending != nil {
		err = m.await(ctx, pending)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range changing {
		close(m.changing[id])
		delete(m.changing, id)
	}
	return again, err
}

// await waits until what was proposed is committed. The clocks are looked at
// meanwhile, or a slow disk would be taken for a suspension.
func (m *Monitor) await(ctx context.Context, p *state.Pending) error {
	for {
		wait, cancel := context.WithTimeout(ctx, tick)
		err := p.Wait(wait)
		again := wait.Err() != nil && ctx.Err() == nil && errors.Is(err, wait.Err())
		cancel()
		if !again {
			return err
		}
		m.mu.Lock()
		m.returned(m.clock.Now())
		m.mu.Unlock()
	}
}

// stage proposes the changes of status and returns the nodes that they are
// about, which the caller takes off m.changing. It holds the lock until the
// commands are ordered. A node that sends a heartbeat now either was in time, or
// is answered after its new status is committed.
func (m *Monitor) stage(now time.Time) (pending *state.Pending, changing []berth.NodeID, again time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.returned(now)
	shorter := m.shortenFailover(now)
	expired, again := m.deadlines.expired(now)
	if !shorter.IsZero() && (again.IsZero() || shorter.Before(again)) {
		again = shorter
	}
	if len(expired) == 0 && len(m.limiter.held) == 0 {
		return nil, nil, again, nil
	}
	tip := m.log.Tip()
	silent, cmds, next := m.limit(tip, expired, now)
	if !next.IsZero() && (again.IsZero() || next.Before(again)) {
		again = next
	}
	for _, id := range silent {
		n := tip.Node(id)
		if n == nil || n.Status == berth.NodeDown {
			continue
		}
		until := awaited(tip, n, now)
		if until.After(now) {
			at := lookAgain(now, until)
			m.deadlines.set(id, at)
			if again.IsZero() || at.Before(again) {
				again = at
			}
			if n.Status == berth.NodeDisconnected {
				continue
			}
		}
		cmds = append(cmds, m.markSilent(n, until.After(now), now))
		m.changing[id] = make(chan struct{})
		changing = append(changing, id)
	}
	if len(cmds) == 0 {
		return nil, nil, again, nil
	}
	// A refusal means that another leader's term began or that the node was
	// deleted: nothing is left to do here.
	pending, err = m.log.Stage(cmds...)
	return pending, changing, again, err
}

// limit returns the silent nodes to give up now, the commands that record
// events on the others, and when to look again. expired are the nodes whose
// time is up since the last call. The lock is held.
func (m *Monitor) limit(tip *state.Snapshot, expired []berth.NodeID, now time.Time) (out []berth.NodeID, notes []state.Command, again time.Time) {
	for _, id := range expired {
		switch n := tip.Node(id); {
		case n == nil || n.Status == berth.NodeDown:
		case n.Status == berth.NodeDisconnected: // already known to be silent; now its time is up
			out = append(out, id)
		default:
			m.limiter.add(id, now)
		}
	}
	heard := len(m.deadlines.byNode)
	began := m.limiter.judge(heard, now)
	free, again := m.limiter.release(heard, now)
	if began {
		m.Logger.Error("many nodes fell silent at once; they are given up slowly, and faster with every minute",
			"silent", len(m.limiter.silent), "heard", heard, "held", len(m.limiter.held), "first", m.limiter.batch(now), "every", m.limiter.Pace)
		notes = m.noteHeld(tip, now)
	}
	return append(out, free...), notes, again
}

// mostNotes bounds the nodes that get an event when the limiter holds them.
const mostNotes = 100

// noteHeld returns commands that record on held nodes that they are silent and
// not given up for now.
func (m *Monitor) noteHeld(tip *state.Snapshot, now time.Time) (notes []state.Command) {
	for _, s := range m.limiter.held[:min(len(m.limiter.held), mostNotes)] {
		if tip.Node(s.node) != nil {
			notes = append(notes, &state.AddNodeEvents{ID: s.node, Events: []berth.NodeEvent{{
				Subsystem: berth.NodeEventHeartbeat, Message: "Node heartbeat missed; many nodes fell silent at once, so they are given up slowly", Timestamp: now.UTC(),
			}}})
		}
	}
	return notes
}

// Silent returns the number of nodes that are silent but held because too many
// went silent at once, and how often that happened in this term.
func (m *Monitor) Silent() (held, alarms int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limiter.on {
		held = len(m.limiter.held)
	}
	return held, m.limiter.alarms
}

// markSilent returns the command that changes the status of a silent node.
func (m *Monitor) markSilent(n *berth.Node, awaited bool, now time.Time) state.Command {
	status, why, message := berth.NodeDown, "its heartbeat was missed", "Node heartbeat missed"
	switch {
	case awaited:
		status = berth.NodeDisconnected
	case n.Status == berth.NodeDisconnected:
		why, message = "nothing that runs there is waited for any more", "Node given up"
	}
	m.Logger.Warn("a node is not heard", "node", n.ID, "name", n.Name, "status", status, "why", why)
	c := &state.SetNodeStatus{
		ID: n.ID, Status: status, Description: why, Now: now.UnixNano(),
		Event: &berth.NodeEvent{Subsystem: berth.NodeEventHeartbeat, Message: message, Timestamp: now.UTC()},
	}
	rand.Read(c.Seed[:])
	c.Stamp(m.term)
	return c
}
