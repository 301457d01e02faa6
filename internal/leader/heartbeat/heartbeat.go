// Package heartbeat watches the nodes' heartbeats. It tells each node within
// what time to send the next one, spread so that heartbeats do not come all at
// once. A node that misses its time becomes disconnected if it runs an
// allocation that is allowed to come back, or else down. Heartbeats are never
// in the log; only changes of a node's status are.
package heartbeat

import (
	"container/heap"
	"context"
	"crypto/rand"
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
	FailoverTTL time.Duration // the time that nodes get when a term begins
	Limiter     Limiter
}

// DefaultOptions are a server's options.
var DefaultOptions = Options{MinTTL: 10 * time.Second, MaxPerSec: 50, Grace: 10 * time.Second, FailoverTTL: time.Minute, Limiter: DefaultLimiter}

// Monitor watches the heartbeats of one term.
type Monitor struct {
	Logger *slog.Logger // may be set before Run; slog.Default() if not

	term  uint64
	store *state.Store
	log   state.Log
	opts  Options

	mu      sync.Mutex
	clock   clock
	limiter limiter
	// poke wakes Run when an earlier deadline was set.
	poke chan struct{}
}

// New returns the monitor of a term.
func New(term uint64, store *state.Store, log state.Log, o Options) *Monitor {
	return &Monitor{Logger: slog.Default(), term: term, store: store, log: log, opts: o, clock: newClock(), limiter: limiter{Limiter: o.Limiter}, poke: make(chan struct{}, 1)}
}

// Heartbeat records a heartbeat of a node and returns the time within which the
// next must come.
func (m *Monitor) Heartbeat(id berth.NodeID) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	base := m.base(len(m.clock.byNode))
	ttl := base + mathrand.N(base)
	m.clock.set(id, time.Now().Add(ttl+m.opts.Grace))
	m.limiter.contacted(id)
	if m.clock.items[0].node == id {
		select {
		case m.poke <- struct{}{}:
		default:
		}
	}
	return ttl
}

// base is the shortest TTL, which grows with the number of nodes. A TTL lies at
// random between base and twice that, so that nodes that registered together do
// not send their heartbeats together.
func (m *Monitor) base(nodes int) time.Duration {
	return max(m.opts.MinTTL, time.Duration(float64(nodes)/m.opts.MaxPerSec*float64(time.Second)))
}

// Run gives up nodes that are silent, until ctx ends or the log is lost.
func (m *Monitor) Run(ctx context.Context) error {
	m.begin()
	for {
		again, err := m.giveUp(ctx, time.Now())
		if err != nil {
			return err
		}
		if again.IsZero() {
			again = time.Now().Add(time.Hour)
		}
		alarm := time.NewTimer(time.Until(again))
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
	now := time.Now()
	// The previous leader may have given a node the longest TTL a moment ago.
	patience := max(m.opts.FailoverTTL, 2*m.base(snap.Count(state.Nodes))+m.opts.Grace)
	for n := range snap.Nodes() {
		switch _, heard := m.clock.byNode[n.ID]; {
		case heard || n.Status == berth.NodeDown:
		case n.Status == berth.NodeDisconnected:
			m.clock.set(n.ID, lookAgain(now, awaited(snap, n, now)))
		default:
			m.clock.set(n.ID, now.Add(patience))
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
	pending, again, err := m.stage(now)
	if err == nil && pending != nil {
		err = pending.Wait(ctx)
	}
	return again, err
}

// stage holds the lock until the commands are ordered. A node that sends a
// heartbeat now either was in time or learns its new status with its next
// heartbeat.
func (m *Monitor) stage(now time.Time) (*state.Pending, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	expired, again := m.clock.expired(now)
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
			m.clock.set(id, at)
			if again.IsZero() || at.Before(again) {
				again = at
			}
			if n.Status == berth.NodeDisconnected {
				continue
			}
		}
		cmds = append(cmds, m.markSilent(n, until.After(now), now))
	}
	if len(cmds) == 0 {
		return nil, again, nil
	}
	// A refusal means that another leader's term began or that the node was
	// deleted: nothing is left to do here.
	pending, err := m.log.Stage(cmds...)
	return pending, again, err
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
	heard := len(m.clock.byNode)
	began := m.limiter.judge(heard, now)
	free, again := m.limiter.release(heard, now)
	if began {
		m.Logger.Error("many nodes fell silent at once; they are given up one by one",
			"silent", len(m.limiter.silent), "heard", heard, "held", len(m.limiter.held), "pace", m.limiter.Pace)
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

// clock holds the time at which each node is given up.
type clock struct {
	items  []*deadline // a heap
	byNode map[berth.NodeID]*deadline
}

// deadline is when a node is down unless it is heard from. place is its index
// in the heap.
type deadline struct {
	node  berth.NodeID
	at    time.Time
	place int
}

// newClock returns a clock without deadlines.
func newClock() clock { return clock{byNode: map[berth.NodeID]*deadline{}} }

// set gives a node a deadline, in place of an earlier one.
func (c *clock) set(id berth.NodeID, at time.Time) {
	if d := c.byNode[id]; d != nil {
		d.at = at
		heap.Fix(c, d.place)
		return
	}
	d := &deadline{node: id, at: at}
	c.byNode[id] = d
	heap.Push(c, d)
}

// expired removes and returns the nodes whose time is up. again is when the
// next node's time is up.
func (c *clock) expired(now time.Time) (out []berth.NodeID, again time.Time) {
	for len(c.items) > 0 {
		d := c.items[0]
		if d.at.After(now) {
			return out, d.at
		}
		heap.Pop(c)
		delete(c.byNode, d.node)
		out = append(out, d.node)
	}
	return out, time.Time{}
}

// Len implements sort.Interface.
func (c *clock) Len() int { return len(c.items) }

// Less implements sort.Interface.
func (c *clock) Less(i, j int) bool { return c.items[i].at.Before(c.items[j].at) }

// Swap implements sort.Interface.
func (c *clock) Swap(i, j int) {
	c.items[i], c.items[j] = c.items[j], c.items[i]
	c.items[i].place, c.items[j].place = i, j
}

// Push implements heap.Interface.
func (c *clock) Push(x any) {
	d := x.(*deadline)
	d.place = len(c.items)
	c.items = append(c.items, d)
}

// Pop implements heap.Interface.
func (c *clock) Pop() any {
	n := len(c.items) - 1
	d := c.items[n]
	c.items[n] = nil
	c.items = c.items[:n]
	return d
}
