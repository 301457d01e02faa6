package broker

import (
	"slices"

	"berth"
	"berth/internal/state"
)

// opened returns the nodes that an exclusive host pool kept from the processing
// elements of other jobs until a change. It goes after all that ran there, so that
// no room that comes free tells of it.
func opened(s *state.Snapshot, c *state.Change) (out []*berth.Node) {
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

func exclusive(r *berth.Object) bool {
	return r.Object.Pool != nil && r.Object.Pool.Mode == berth.PoolExclusive
}
