package fit

import (
	"fmt"
	"slices"
	"strconv"

	"berth"
)

// Usage is the capacity of one node, what of it is taken, and what decides
// whether placement considers the node at all. It is updated with each
// allocation that comes, changes or goes. Copies are independent values: a
// [Writer] or [Draft] never changes what others see.
type Usage struct {
	// Fields that every placement reads come first: a scan of all nodes is
	// bound by memory bandwidth.
	Ready    bool      // takes new allocations
	Class    uint32    // number of the node's class
	Capacity berth.Ask // what the node has for allocations
	Used     berth.Ask // by allocations that have not ended
	// Ten to the power of the free share of CPU and memory, from which scores
	// are computed. They depend on Capacity and Used alone, so they never
	// drift.
	PowCPU, PowMemory float64

	Ports    PortSet // held by allocations or reserved by the node
	Reserved PortSet // reserved by the node
	Allocs   uint32  // that have not ended
	Most     uint32  // how many of those there may be; 0 is any number

	MinDynamic, MaxDynamic uint16 // the range of dynamic ports

	// Changed is the index of the last change that the node's agent must see.
	Changed uint64
	// Touched is the index of the last change of any of its allocations. It is
	// local to this server: a loaded state starts at its own index.
	Touched uint64

	named *named // cores, devices and named host networks; nil if it has none
}

// Free returns the free capacity.
func (u *Usage) Free() berth.Ask { return u.Capacity.Sub(u.Used) }

// Fits reports whether the node has capacity for one more allocation.
func (r *Request) Fits(u *Usage) bool {
	if u.Used.CPU+r.CPU > u.Capacity.CPU || u.Used.MemoryMB+r.MemoryMB > u.Capacity.MemoryMB || u.Used.DiskMB+r.DiskMB > u.Capacity.DiskMB {
		return false
	}
	if u.Most > 0 && u.Allocs >= u.Most {
		return false
	}
	if r.named != nil {
		return r.fitsNamed(u)
	}
	return r.fitsPorts(u)
}

// fitsPorts reports whether the ports are free, all of them on the default host
// network.
func (r *Request) fitsPorts(u *Usage) bool {
	for _, p := range r.Static {
		if u.Ports.Has(p) {
			return false
		}
	}
	return r.Dynamic == 0 || u.freeDynamic(r.inRange(u))
}

// inRange returns how many ports of the dynamic range r takes, including static
// ports that lie in it.
func (r *Request) inRange(u *Usage) int {
	n := r.Dynamic
	for _, p := range r.Static {
		if p >= u.MinDynamic && p <= u.MaxDynamic {
			n++
		}
	}
	return n
}

// freeDynamic reports whether n ports of the dynamic range are free.
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

// Shortfall returns every dimension in which the node lacks capacity for one
// more allocation, with numbers; none if it fits.
func (r *Request) Shortfall(u *Usage) (out []berth.Shortage) {
	add := func(dim, unit string, wanted, free int64) {
		if wanted > free {
			out = append(out, berth.Shortage{Dimension: dim, Unit: unit, Nodes: 1, Wanted: wanted, Free: max(free, 0)})
		}
	}
	free := u.Free()
	add(DimCPU, "MHz", r.AskOn(u).CPU, free.CPU)
	add(DimMemory, "MiB", r.MemoryMB, free.MemoryMB)
	add(DimDisk, "MiB", r.DiskMB, free.DiskMB)
	if u.Most > 0 {
		add(names[Allocs], "", 1, int64(u.Most)-int64(u.Allocs))
	}
	// Named resources have rules of their own; those for ports replace the
	// plain ones below.
	if r.named != nil {
		count := func(dim string, wanted, free int64) { add(dim, "", wanted, free) }
		r.named.namedShortages(u, count)
		if r.named.ports != nil {
			r.named.portShortages(u, count)
			return out
		}
	}
	for _, p := range r.Static {
		if u.Ports.Has(p) {
			add(names[StaticPort]+strconv.Itoa(int(p)), "", 1, 0)
		}
	}
	if n := r.inRange(u); r.Dynamic > 0 && !u.freeDynamic(n) {
		add(DimDynamic, "", int64(n), int64(u.countDynamic(n)))
	}
	return out
}

// dynamicPorts picks the dynamic ports of r, all on the default host network.
func (u *Usage) dynamicPorts(r *Request, at uint32) []uint16 {
	if r.Dynamic == 0 {
		return nil
	}
	span := uint32(u.MaxDynamic) - uint32(u.MinDynamic) + 1
	// Begin at a place that differs, so that a port is not used again at once.
	start := u.MinDynamic + uint16(at%span)
	picked := make([]uint16, 0, r.Dynamic)
	scan := func(from uint32, last uint16) {
		for len(picked) < r.Dynamic {
			p, ok := u.Ports.Free(from, last)
			if !ok {
				return
			}
			if !slices.Contains(r.Static, p) {
				picked = append(picked, p)
			}
			from = uint32(p) + 1
		}
	}
	// From there to the end of the range, then from its beginning.
	scan(uint32(start), u.MaxDynamic)
	if start > u.MinDynamic {
		scan(uint32(u.MinDynamic), start-1)
	}
	return picked
}

// Overcommitted returns the first dimension in which more is used than there
// is, with numbers; "" if all fit.
func (u *Usage) Overcommitted() string {
	for _, d := range []struct {
		name           string
		used, capacity int64
	}{{DimCPU, u.Used.CPU, u.Capacity.CPU}, {DimMemory, u.Used.MemoryMB, u.Capacity.MemoryMB}, {DimDisk, u.Used.DiskMB, u.Capacity.DiskMB}} {
		if d.used > d.capacity {
			return fmt.Sprintf("%s: %d used of %d", d.name, d.used, d.capacity)
		}
	}
	return ""
}
