package state

import (
	"berth"
	"berth/internal/state/codec"
)

// Ship returns a plan in the encoding in which a worker on another server sends
// it to the leader: the fields are as in the log, except that nodes have their
// IDs. In a log entry they have numbers, which could belong to another node
// when the plan arrives. The plan must not be applied meanwhile.
func (c *ApplyPlan) Ship() []byte {
	// A node is written once and then named by its place: many placements share
	// nodes.
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
	var w codec.Writer
	codec.WriteIDs(&w, list)
	own.pack(&w)
	return w.Buf()
}

// Unship returns the plan that Ship encoded. Other bytes are an Invalid error,
// never a panic.
func Unship(b []byte) (*ApplyPlan, error) {
	r := codec.NewReader(b)
	nodes := codec.ReadIDs[berth.Node](r)
	c := &ApplyPlan{}
	if r.Err() == nil {
		c.unpack(r)
	}
	if err := r.End(); err != nil {
		return nil, berth.Errorf(berth.Invalid, "plan: %w", err)
	}
	// Replace places by IDs; the leader knows the numbers.
	for i, at := range c.nodes {
		if int64(at) >= int64(len(nodes)) {
			return nil, berth.Errorf(berth.Invalid, "plan: a placement refers to node %d of %d", at, len(nodes))
		}
		c.Place[i].NodeID = nodes[at]
	}
	c.nodes, c.fromLog = nil, false
	return c, nil
}
