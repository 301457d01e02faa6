package heartbeat

import (
	"container/heap"
	"time"

	"berth"
)

// deadlines holds the time at which each node is given up.
type deadlines struct {
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

// newDeadlines returns no deadlines.
func newDeadlines() deadlines { return deadlines{byNode: map[berth.NodeID]*deadline{}} }

// set gives a node a deadline, in place of an earlier one.
func (c *deadlines) set(id berth.NodeID, at time.Time) {
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
func (c *deadlines) expired(now time.Time) (out []berth.NodeID, again time.Time) {
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
func (c *deadlines) Len() int { return len(c.items) }

// Less implements sort.Interface.
func (c *deadlines) Less(i, j int) bool { return c.items[i].at.Before(c.items[j].at) }

// Swap implements sort.Interface.
func (c *deadlines) Swap(i, j int) {
	c.items[i], c.items[j] = c.items[j], c.items[i]
	c.items[i].place, c.items[j].place = i, j
}

// Push implements heap.Interface.
func (c *deadlines) Push(x any) {
	d := x.(*deadline)
	d.place = len(c.items)
	c.items = append(c.items, d)
}

// Pop implements heap.Interface.
func (c *deadlines) Pop() any {
	n := len(c.items) - 1
	d := c.items[n]
	c.items[n] = nil
	c.items = c.items[:n]
	return d
}

// shorten lets a node's deadline come no later than at.
func (c *deadlines) shorten(id berth.NodeID, at time.Time) {
	if d := c.byNode[id]; d != nil && d.at.After(at) {
		c.set(id, at)
	}
}
