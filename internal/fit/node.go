package fit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"berth"
)

// Describe sets what depends on the node alone: its capacity, whether it is
// ready and its range of dynamic ports.
func (u *Usage) Describe(n *berth.Node) {
	u.Capacity, u.Ready, u.Most = n.Room(), n.Ready(), uint32(n.NodeMaxAllocs)
	u.updatePowers()
	u.MinDynamic, u.MaxDynamic = berth.MinDynamicPort, berth.MaxDynamicPort
	if r := n.NodeResources; r.MinDynamicPort > 0 && r.MaxDynamicPort >= r.MinDynamicPort {
		u.MinDynamic, u.MaxDynamic = uint16(r.MinDynamicPort), uint16(r.MaxDynamicPort)
	}
}

// Empty sets u to hold only what the node reserves for itself. Its allocations
// must be claimed afterwards.
func (by *Writer) Empty(u *Usage, n *berth.Node) {
	u.Ports, u.Reserved, u.named = PortSet{}, PortSet{}, nil
	if l := layoutOf(n); l != nil {
		u.named = l.empty(by)
	}
	if u.named != nil && len(u.named.reserved) > 0 {
		u.Reserved, u.Ports = u.named.reserved[0], u.named.reserved[0]
	} else if r := n.ReservedResources; r != nil {
		ports, _ := ReservedPorts(r.Networks.ReservedHostPorts) // checked when the node registered
		for _, p := range ports {
			u.Reserved.add(by, p)
			u.Ports.add(by, p)
		}
	}
	u.Used, u.Allocs = berth.Ask{}, 0
}

// ReservedPorts parses a node's list of reserved ports, such as
// "22,80,8000-8100". The result is sorted and has no duplicates.
func ReservedPorts(list string) ([]uint16, error) {
	type span struct{ from, to uint64 }
	var spans []span
	// Parse into ranges; a single port is a range of one.
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		lo, hi, ranged := strings.Cut(part, "-")
		if !ranged {
			hi = lo
		}
		a, err1 := strconv.ParseUint(strings.TrimSpace(lo), 10, 16)
		b, err2 := strconv.ParseUint(strings.TrimSpace(hi), 10, 16)
		if err1 != nil || err2 != nil || a > b || a == 0 {
			return nil, berth.Errorf(berth.Invalid, "reserved ports: %q is not a port or a range of ports", part)
		}
		spans = append(spans, span{a, b})
	}
	// A list can contain the same ports many times; each is returned once.
	slices.SortFunc(spans, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	var out []uint16
	next := uint64(1)
	for _, s := range spans {
		for next = max(next, s.from); next <= s.to; next++ {
			out = append(out, uint16(next))
		}
	}
	return out, nil
}
