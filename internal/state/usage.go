package state

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"berth"
)

// Usage is one node's line in the columns that placement reads: what it has,
// what of it is taken, and what decides whether it is looked at. It is kept by
// delta with each allocation that comes, changes or goes.
type Usage struct {
	// What every placement looks at stands first and together: a scan of all
	// nodes is bound by memory.
	Ready bool      // takes new allocations
	Class uint32    // of the node's class, see ClassOf
	Room  berth.Ask // what the node has for allocations
	Used  berth.Ask // what allocations take that have not ended
	// Ten to the power of the free share of cpu and of memory, of which scores
	// are made. They follow from Room and Used alone, so they never drift.
	PowCPU, PowMemory float64

	Ports    PortSet // what allocations hold and the node reserves
	Reserved PortSet // what the node reserves
	Allocs   uint32  // that have not ended
	// Changed is the index of the last change that the node's agent must see.
	Changed uint64
	// Touched is the index of the last change of any of its allocations. It is
	// this server's own: a state that is loaded begins at its index.
	Touched uint64

	MinDynamic, MaxDynamic uint16 // the range of dynamic ports

	More *UsageMore // cores, devices and named host networks; nil if it has none
}

// Free returns what is left.
func (u *Usage) Free() berth.Ask { return u.Room.Sub(u.Used) }

// Want is what one allocation asks of a node's room, worked out once for a
// group: fit arithmetic is in [Want.Fits] and nowhere else, so placement and
// the planner cannot disagree.
type Want struct {
	berth.Ask
	Static  []uint16  // ports it must have to itself on the default host network
	Dynamic int       // ports it takes wherever they are free, on all its networks
	More    *WantMore // nil for most
}

// WantOf returns what an allocation of the group asks for.
func WantOf(g *berth.TaskGroup) Want {
	w := Want{Ask: g.Ask()}
	for i := range g.Networks {
		for _, p := range g.Networks[i].ReservedPorts {
			if !p.IgnoreCollision && p.Network() == berth.DefaultHostNetwork {
				w.Static = append(w.Static, uint16(p.Value))
			}
		}
		w.Dynamic += len(g.Networks[i].DynamicPorts)
	}
	w.More = moreOf(g)
	return w
}

// HasPorts says whether w takes any port of its node.
func (w *Want) HasPorts() bool {
	return len(w.Static) > 0 || w.Dynamic > 0 || w.More != nil && len(w.More.ports) > 0
}

// Dimensions in which a node can be short.
const (
	DimCPU     = "cpu"
	DimMemory  = "memory"
	DimDisk    = "disk"
	DimDynamic = "dynamic ports"
	DimPort    = "port " // with the number of a static port, and "on" and its host network if that has a name

	DimCores   = "cores"
	DimNUMA    = "cores of one NUMA node"
	DimDevices = "devices "      // with the name of a request
	DimNetwork = "host network " // with a name that the node does not know
)

// Fits says whether the node has room for one more allocation.
func (w *Want) Fits(u *Usage) bool {
	if u.Used.CPU+w.CPU > u.Room.CPU || u.Used.MemoryMB+w.MemoryMB > u.Room.MemoryMB || u.Used.DiskMB+w.DiskMB > u.Room.DiskMB {
		return false
	}
	if w.More != nil {
		return w.fitsMore(u)
	}
	return w.fitsPorts(u)
}

// fitsPorts says whether the ports can be had, all of them on the default host
// network.
func (w *Want) fitsPorts(u *Usage) bool {
	for _, p := range w.Static {
		if u.Ports.Has(p) {
			return false
		}
	}
	return w.Dynamic == 0 || u.freeDynamic(w.inRange(u))
}

// inRange returns how many ports of the dynamic range w takes: those it must
// have can lie there too.
func (w *Want) inRange(u *Usage) int {
	n := w.Dynamic
	for _, p := range w.Static {
		if p >= u.MinDynamic && p <= u.MaxDynamic {
			n++
		}
	}
	return n
}

// freeDynamic says whether n ports of the dynamic range are free.
func (u *Usage) freeDynamic(n int) bool {
	span := int(u.MaxDynamic) - int(u.MinDynamic) + 1
	return span-u.Ports.Len() >= n || u.countDynamic(n) >= n
}

// countDynamic counts the free dynamic ports, up to most.
func (u *Usage) countDynamic(most int) (n int) {
	for at := uint32(u.MinDynamic); n < most; n++ {
		p, ok := u.Ports.Free(at, u.MaxDynamic)
		if !ok {
			break
		}
		at = uint32(p) + 1
	}
	return n
}

// Short returns every dimension in which the node lacks room for one more
// allocation, with the numbers; none if it fits.
func (w *Want) Short(u *Usage) (out []berth.Shortage) {
	add := func(dim, unit string, wanted, free int64) {
		if wanted > free {
			out = append(out, berth.Shortage{Dimension: dim, Unit: unit, Nodes: 1, Wanted: wanted, Free: max(free, 0)})
		}
	}
	free := u.Free()
	add(DimCPU, "MHz", w.AskOn(u).CPU, free.CPU)
	add(DimMemory, "MiB", w.MemoryMB, free.MemoryMB)
	add(DimDisk, "MiB", w.DiskMB, free.DiskMB)
	if w.More != nil {
		count := func(dim string, wanted, free int64) { add(dim, "", wanted, free) }
		w.More.shortNamed(u, count)
		if w.More.ports != nil {
			w.More.shortPorts(u, count)
			return out
		}
	}
	for _, p := range w.Static {
		if u.Ports.Has(p) {
			add(DimPort+strconv.Itoa(int(p)), "", 1, 0)
		}
	}
	if n := w.inRange(u); w.Dynamic > 0 && !u.freeDynamic(n) {
		add(DimDynamic, "", int64(n), int64(u.countDynamic(n)))
	}
	return out
}

// Place claims what w asks for out of a copy of a node's line on which it
// fits, and returns what it picked of the things that are counted by name.
// Dynamic ports are looked for from the place in the range that at points to, so that a port just given back is not
// given out at once.
func (u *Usage) Place(edit uint64, w *Want, at uint32) (g berth.Grant) {
	if w.More != nil {
		return u.placeMore(edit, w, at)
	}
	if w.Dynamic > 0 {
		g.Ports = u.dynamicPorts(w, at)
	}
	u.Claim(edit, w, g)
	return g
}

// dynamicPorts picks the dynamic ports of w, all on the default host network.
func (u *Usage) dynamicPorts(w *Want, at uint32) []uint16 {
	if w.Dynamic == 0 {
		return nil
	}
	span := uint32(u.MaxDynamic) - uint32(u.MinDynamic) + 1
	start := u.MinDynamic + uint16(at%span)
	picked := make([]uint16, 0, w.Dynamic)
	scan := func(from uint32, last uint16) {
		for len(picked) < w.Dynamic {
			p, ok := u.Ports.Free(from, last)
			if !ok {
				return
			}
			if !slices.Contains(w.Static, p) {
				picked = append(picked, p)
			}
			from = uint32(p) + 1
		}
	}
	scan(uint32(start), u.MaxDynamic)
	if start > u.MinDynamic {
		scan(uint32(u.MinDynamic), start-1)
	}
	return picked
}

// Usage returns the line of a node, by its number.
func (s *Snapshot) Usage(number uint32) *Usage {
	if u := s.nodes.usage.At(number); u != nil {
		return u
	}
	return &Usage{}
}

// UsageColumns returns the lines of all nodes in runs, each with the number of
// its first. A number that no node has is a line that is not Ready.
func (s *Snapshot) UsageColumns() iter.Seq2[uint32, []Usage] {
	return s.nodes.usage.Runs(s.nodes.numbers)
}

// Claim takes what w asks for, and what was picked for it, out of a copy of a
// node's line. edit, from NewEdit, must not have been used before the
// copy was made.
func (u *Usage) Claim(edit uint64, w *Want, g berth.Grant) { u.move(edit, w, g, 1) }

// Release gives back what Claim or a stored allocation took.
func (u *Usage) Release(edit uint64, w *Want, g berth.Grant) { u.move(edit, w, g, -1) }

// NewEdit returns a number for Claim and Release.
func NewEdit() uint64 { return edits.Add(1) }

func (u *Usage) move(edit uint64, w *Want, g berth.Grant, sign int64) {
	u.Used.CPU += sign * w.CPU
	u.Used.MemoryMB += sign * w.MemoryMB
	u.Used.DiskMB += sign * w.DiskMB
	u.Allocs += uint32(sign)
	if len(g.Cores)+len(g.Devices) > 0 {
		u.moveNamed(edit, &g, sign)
	}
	u.weigh()
	if w.More != nil && w.More.ports != nil {
		u.movePorts(edit, w.More, g.Ports, sign)
		return
	}
	shared := u.More != nil && len(u.More.shared) > 0
	for _, ports := range [2][]uint16{w.Static, g.Ports} {
		for _, p := range ports {
			switch {
			case shared && sign > 0:
				u.hold(edit, 0, p)
			case shared:
				u.drop(edit, 0, p)
			case sign > 0:
				u.Ports.add(edit, p)
			case !u.Reserved.Has(p):
				u.Ports.remove(edit, p)
			}
		}
	}
}

// weigh works out the powers of what is free, after Room or Used changed.
func (u *Usage) weigh() {
	u.PowCPU = powFree(u.Room.CPU, u.Used.CPU)
	u.PowMemory = powFree(u.Room.MemoryMB, u.Used.MemoryMB)
}

// powFree returns ten to the power of the share that is free; nothing is free
// of nothing.
func powFree(room, used int64) float64 {
	if room <= 0 {
		return 1
	}
	return math.Exp((1 - float64(used)/float64(room)) * math.Ln10)
}

// describe fills the parts of a node's line that follow from the node alone.
func (tx *Tx) describe(u *Usage, n *berth.Node) {
	u.Room, u.Ready = n.Room(), n.Ready()
	u.weigh()
	u.MinDynamic, u.MaxDynamic = berth.MinDynamicPort, berth.MaxDynamicPort
	if r := n.NodeResources; r.MinDynamicPort > 0 && r.MaxDynamicPort >= r.MinDynamicPort {
		u.MinDynamic, u.MaxDynamic = uint16(r.MinDynamicPort), uint16(r.MaxDynamicPort)
	}
}

// ReservedPorts reads a node's list of ports kept back: "22,80,8000-8100".
func ReservedPorts(list string) ([]uint16, error) {
	type span struct{ from, to uint64 }
	var spans []span
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
	// A list can say the same ports over and over; each is taken once.
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

// Overcommitted returns how a node's line breaks the promise that nothing is
// given out twice; "" if it keeps it.
func (u *Usage) Overcommitted() string {
	for _, d := range []struct {
		name       string
		used, room int64
	}{{DimCPU, u.Used.CPU, u.Room.CPU}, {DimMemory, u.Used.MemoryMB, u.Room.MemoryMB}, {DimDisk, u.Used.DiskMB, u.Room.DiskMB}} {
		if d.used > d.room {
			return fmt.Sprintf("%s: %d used of %d", d.name, d.used, d.room)
		}
	}
	return ""
}
