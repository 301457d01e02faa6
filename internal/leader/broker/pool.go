package broker

import (
	"slices"

	"berth"
	"berth/internal/state"
)

// released returns the nodes that an exclusive host pool reserved until this
// change. The pool goes after everything that ran in it, so no freed capacity
// announces the change.
func released(s *state.Snapshot, c *state.Change) (out []*berth.Node) {
	if c.Table != state.Resources {
		return nil
	}
	old, _ := c.Old.(*berth.Object)
	if old == nil || !exclusive(old) {
		return nil
	}
	r, _ := c.New.(*berth.Object)
	for _, id := range old.Nodes {
		if r != nil && exclusive(r) && slices.Contains(r.Nodes, id) {
			continue
		}
		if n := s.Node(id); n != nil && n.Ready() {
			out = append(out, n)
		}
	}
	return out
}

// exclusive reports whether r is a host pool whose nodes serve one job only.
func exclusive(r *berth.Object) bool {
	return r.Object.Pool != nil && r.Object.Pool.Mode == berth.PoolExclusive
}
