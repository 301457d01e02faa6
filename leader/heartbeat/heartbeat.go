// Package heartbeat knows which nodes are heard. It hands out the time within
// which a node must beat again, spread so that beats do not come all at once,
// and says of nodes that did not keep it that they are down. Beats are never
// in the log; only the change of a node's status is.
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
	"berth/state"
)

// Options say how patient the servers are.
type Options struct {
	MinTTL      time.Duration // the shortest time between two beats
	MaxPerSec   float64       // beats that the servers want to take in a second
	Grace       time.Duration // added before a node is given up
	FailoverTTL time.Duration // what nodes get when a term begins
}

// DefaultOptions are those of a server.
var DefaultOptions = Options{MinTTL: 10 * time.Second, MaxPerSec: 50, Grace: 10 * time.Second, FailoverTTL: time.Minute}

// Monitor listens to the nodes for one term.
type Monitor struct {
	term  uint64
	store *state.Store
	log   state.Log
	opts  Options

	mu    sync.Mutex
	clock clock
	poke  chan struct{}
}

// New returns the monitor of a term.
func New(term uint64, store *state.Store, log state.Log, o Options) *Monitor {
	return &Monitor{term: term, store: store, log: log, opts: o, clock: newClock(), poke: make(chan struct{}, 1)}
}

// Beat notes that a node was heard, and returns the time within which it must
// be heard again.
func (m *Monitor) Beat(id berth.NodeID) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	base := m.base(len(m.clock.byNode))
	ttl := base + mathrand.N(base)
	m.clock.set(id, time.Now().Add(ttl+m.opts.Grace))
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
		if _, heard := m.clock.byNode[n.ID]; !heard && n.Status != berth.NodeDown {
			m.clock.set(n.ID, now.Add(patience))
		}
	}
}

// giveUp says of the nodes whose time is up that they are down, and returns
// when the next one's is.
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
	silent, again := m.clock.expired(now)
	tip := m.log.Tip()
	var cmds []state.Command
	for _, id := range silent {
		n := tip.Node(id)
		if n == nil || n.Status == berth.NodeDown {
			continue
		}
		slog.Warn("a node is down: its heartbeat was missed", "node", id, "name", n.Name)
		c := &state.SetNodeStatus{
			ID: id, Status: berth.NodeDown, Description: "its heartbeat was missed", Now: now.UnixNano(),
			Event: &berth.NodeEvent{Subsystem: berth.NodeEventHeartbeat, Message: "Node heartbeat missed", Timestamp: now.UTC()},
		}
		rand.Read(c.Seed[:])
		c.Stamp(m.term)
		cmds = append(cmds, c)
	}
	if len(cmds) == 0 {
		return nil, again, nil
	}
	// A refusal means that another leader's term began, or that the node went:
	// nothing is left to do here.
	pending, err := m.log.Stage(cmds...)
	return pending, again, err
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
