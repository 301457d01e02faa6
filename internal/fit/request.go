package fit

import (
	"slices"

	"berth"
)

// Request is what one allocation asks of a node, computed once per group.
type Request struct {
	berth.Ask
	Static  []uint16      // exclusive ports on the default host network
	Dynamic int           // number of dynamic ports on all networks
	named   *namedRequest // nil for most
}

// RequestOf returns what an allocation of the group asks for.
func RequestOf(g *berth.TaskGroup) Request {
	r := Request{Ask: g.Ask()}
	for _, nw := range g.AllNetworks() {
		for _, p := range nw.ReservedPorts {
			if !p.IgnoreCollision && p.Network() == berth.DefaultHostNetwork {
				r.Static = append(r.Static, uint16(p.Value))
			}
		}
		r.Dynamic += len(nw.DynamicPorts)
	}
	r.named = namedOf(g)
	return r
}

// HasPorts reports whether r takes any port of its node.
func (r *Request) HasPorts() bool {
	return len(r.Static) > 0 || r.Dynamic > 0 || r.named != nil && len(r.named.ports) > 0
}

// HasNamed reports whether r asks for resources tracked by name: cores,
// devices, ports of a named host network or shared ports. What it takes then
// differs from node to node.
func (r *Request) HasNamed() bool { return r.named != nil }

// UsesMemoryMax reports whether a task may use more memory than it reserves.
func (r *Request) UsesMemoryMax() bool { return r.named != nil && r.named.memoryMax }

// Same reports whether r and o ask for the same, so that a grant for one is
// right for the other.
func (r *Request) Same(o *Request) bool {
	return r.Ask == o.Ask && r.Dynamic == o.Dynamic && r.named.same(o.named) &&
		slices.Equal(slices.Sorted(slices.Values(r.Static)), slices.Sorted(slices.Values(o.Static)))
}
