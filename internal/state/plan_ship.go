package state

import (
	"fmt"

	"berth"
)

// Ship returns a plan as another server's worker hands it to the leader: the
// fields as the log has them, but for nodes, which go by their IDs. In a log
// entry they go by number; here a number could have become another node's on
// the way. The plan must not be applied meanwhile.
func (c *ApplyPlan) Ship() []byte {
	places := map[berth.NodeID]uint32{}
	var list []berth.NodeID
	own := *c
	own.nodes = make([]uint32, len(c.Place))
	for i := range c.Place {
		id := c.Place[i].NodeID
		at, known := places[id]
		if !known {
			at = uint32(len(list))
			places[id] = at
			list = append(list, id)
		}
		own.nodes[i] = at
	}
	var w writer
	w.uint(uint64(len(list)))
	for _, id := range list {
		w.id(id)
	}
	own.pack(&w)
	return w.buf
}

// Unship returns the plan that Ship made bytes of. Bytes that it did not make
// are an Invalid error, never a panic.
func Unship(b []byte) (*ApplyPlan, error) {
	r := reader{buf: b}
	nodes := make([]berth.NodeID, r.length(16))
	for i := range nodes {
		nodes[i] = r.id()
	}
	c := &ApplyPlan{}
	if r.err == nil {
		c.unpack(&r)
	}
	if r.err == nil && len(r.buf) > 0 {
		r.fail(fmt.Sprintf("%d bytes are left over", len(r.buf)))
	}
	if r.err != nil {
		return nil, berth.Errorf(berth.Invalid, "plan: %w", r.err)
	}
	for i, at := range c.nodes {
		if int64(at) >= int64(len(nodes)) {
			return nil, berth.Errorf(berth.Invalid, "plan: a placement is on node %d of %d", at, len(nodes))
		}
		c.Place[i].NodeID = nodes[at]
	}
	c.nodes, c.fromLog = nil, false
	return c, nil
}
