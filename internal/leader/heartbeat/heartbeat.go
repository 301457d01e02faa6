// Package heartbeat knows which nodes are heard. It hands out the time within
// which a node must beat again, spread so that beats do not come all at once,
// and says of nodes that did not keep it that they are disconnected, if
// something runs there that is waited for, or else down. Beats are never in the
// log; only the change of a node's status is.
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

// Options say how patient the servers are.
type Options struct {
	MinTTL      time.Duration // the shortest time between two beats
	MaxPerSec   float64       // beats that the servers want to take in a second
	Grace       time.Duration // added before a node is given up
	FailoverTTL time.Duration // what nodes get when a term begins
	Brake       Brake
}

// DefaultOptions are those of a server.
var DefaultOptions = Options{MinTTL: 10 * time.Second, MaxPerSec: 50, Grace: 10 * time.Second, FailoverTTL: time.Minute, Brake: DefaultBrake}

// Monitor listens to the nodes for one term.
type Monitor struct {
	Logger *slog.Logger // may be set before Run; slog.Default() if not

	term  uint64
	store *state.Store
	log   state.Log
	opts  Options

	mu    sync.Mutex
	clock clock
	brake brake
	poke  chan struct{}
}

// New returns the monitor of a term.
func New(term uint64, store *state.Store, log state.Log, o Options) *Monitor {
	return &Monitor{Logger: slog.Default(), term: term, store: store, log: log, opts: o, clock: newClock(), brake: brake{Brake: o.Brake}, poke: make(chan struct{}, 1)}
}

// Beat notes that a node was heard, and returns the time within which it must
// be heard again.
func (m *Monitor) Beat(id berth.NodeID) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	base := m.base(len(m.clock.byNode))
	ttl := base + mathrand.N(base)
	m.clock.set(id, time.Now().Add(ttl+m.opts.Grace))
	m.brake.heard(id)
	if m.clock.items[0].node == id {
		select {
		case m.poke <- struct{}{}:
		default:
		}
	}
	return ttl
}

// base is the shortest TTL, which grows with the number of nodes. Each is
// spread over its length, up to twice that, so that nodes which registered
// together do not beat together.
func (m *Monitor) base(nodes int) time.Duration {
	return max(m.opts.MinTTL, time.Duration(float64(nodes)/m.opts.MaxPerSec*float64(time.Second)))
}

// Run gives up nodes that are not heard, until ctx ends or the log is lost.
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

// begin gives every node that was up when the term began the time to be heard
// by the new leader.
func (m *Monitor) begin() {
	snap := m.store.Snapshot()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	// The leader before may have given a node the longest TTL a moment ago.
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

// awaited returns until when something on a node that is not heard is waited
// for: the zero time if nothing is. The time of an allocation that is not
// unknown yet begins when its node was disconnected, or now; what never ran is
// not waited for.
func awaited(s *state.Snapshot, n *berth.Node, now time.Time) (until time.Time) {
	silence := now
	if n.Status == berth.NodeDisconnected {
		silence = time.Unix(n.StatusUpdatedAt+1, 0) // it is kept in whole seconds
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

// recheck is how often a node that is disconnected is looked at: what is waited
// for there can be stopped, and then it is down before its time.
const recheck = time.Minute

func lookAgain(now, until time.Time) time.Time {
	if next := now.Add(recheck); until.After(next) {
		return next
	}
	return until
}

// giveUp says of the nodes whose time is up that they are disconnected or down,
// and returns when the next one's is.
func (m *Monitor) giveUp(ctx context.Context, now time.Time) (again time.Time, err error) {
	pending, again, err := m.stage(now)
	if err == nil && pending != nil {
		err = pending.Wait(ctx)
	}
	return again, err
}

// stage holds the lock until the commands are ordered: a node that beats now
// either was in time, or is told what became of it by its next beat.
func (m *Monitor) stage(now time.Time) (*state.Pending, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	expired, again := m.clock.expired(now)
	tip := m.log.Tip()
	silent, cmds, next := m.slow(tip, expired, now)
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
		cmds = append(cmds, m.silenced(n, until.After(now), now))
	}
	if len(cmds) == 0 {
		return nil, again, nil
	}
	// A refusal means that another leader's term began, or that the node went:
	// nothing is left to do here.
	pending, err := m.log.Stage(cmds...)
	return pending, again, err
}

// slow returns which of the nodes whose time is up, now or before, are to be
// given up now, what is to be noted of the others, and when to look again. The
// caller holds the lock.
func (m *Monitor) slow(tip *state.Snapshot, expired []berth.NodeID, now time.Time) (out []berth.NodeID, notes []state.Command, again time.Time) {
	for _, id := range expired {
		switch n := tip.Node(id); {
		case n == nil || n.Status == berth.NodeDown:
		case n.Status == berth.NodeDisconnected: // its silence is known; now its time is up
			out = append(out, id)
		default:
			m.brake.fall(id, now)
		}
	}
	heard := len(m.clock.byNode)
	began := m.brake.judge(heard, now)
	free, again := m.brake.release(heard, now)
	if began {
		m.Logger.Error("many nodes fell silent at once; they are given up one by one",
			"silent", len(m.brake.fell), "heard", heard, "held", len(m.brake.held), "pace", m.brake.Pace)
		notes = m.noteHeld(tip, now)
	}
	return append(out, free...), notes, again
}

// mostNotes bounds the nodes of which it is noted that the brake holds them.
const mostNotes = 100

// noteHeld notes of nodes that they are silent and not given up for now.
func (m *Monitor) noteHeld(tip *state.Snapshot, now time.Time) (notes []state.Command) {
	for _, s := range m.brake.held[:min(len(m.brake.held), mostNotes)] {
		if tip.Node(s.node) != nil {
			notes = append(notes, &state.AddNodeEvents{ID: s.node, Events: []berth.NodeEvent{{
				Subsystem: berth.NodeEventHeartbeat, Message: "Node heartbeat missed; many nodes fell silent at once, so they are given up slowly", Timestamp: now.UTC(),
			}}})
		}
	}
	return notes
}

// Silent returns how many nodes are silent and not given up because too many
// fell silent at once, and how often that happened in this term.
func (m *Monitor) Silent() (held, alarms int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.brake.on {
		held = len(m.brake.held)
	}
	return held, m.brake.alarms
}

// silenced is the command that says of a node that it is not heard.
func (m *Monitor) silenced(n *berth.Node, awaited bool, now time.Time) state.Command {
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

type deadline struct {
	node  berth.NodeID
	at    time.Time
	place int
}

func newClock() clock { return clock{byNode: map[berth.NodeID]*deadline{}} }

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

// expired removes and returns the nodes whose time is up, and says when the
// next one's is.
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

func (c *clock) Len() int           { return len(c.items) }
func (c *clock) Less(i, j int) bool { return c.items[i].at.Before(c.items[j].at) }
func (c *clock) Swap(i, j int) {
	c.items[i], c.items[j] = c.items[j], c.items[i]
	c.items[i].place, c.items[j].place = i, j
}
func (c *clock) Push(x any) {
	d := x.(*deadline)
	d.place = len(c.items)
	c.items = append(c.items, d)
}
func (c *clock) Pop() any {
	n := len(c.items) - 1
	d := c.items[n]
	c.items[n] = nil
	c.items = c.items[:n]
	return d
}
