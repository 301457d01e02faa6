package fit

import (
	"math"
	"sync/atomic"

	"berth"
)

// Writer changes usages in place without affecting their copies: what a usage
// shares with copies is copied before its first change. The zero Writer is
// ready to use.
//
// After its first change of a usage, a Writer assumes that it owns the usage.
// Code that hands out copies to be kept, such as snapshots, must continue with
// a new Writer. A Writer must not be copied after its first use.
type Writer struct {
	_      noCopy
	number uint64 // the edit that owns its blocks; 0: none yet
}

// noCopy makes go vet report copies.
type noCopy struct{}

// Lock makes go vet report copies of the struct around it.
func (*noCopy) Lock() {}

// Unlock completes the interface that go vet looks for.
func (*noCopy) Unlock() {}

// edits numbers the Writers of the process.
var edits atomic.Uint64

// edit returns the number by which the writer recognizes its own parts. It is
// assigned on first use, because most changes affect only counters.
func (by *Writer) edit() uint64 {
	if by.number == 0 {
		by.number = edits.Add(1)
	}
	return by.number
}

// Claim takes what r asks for, and the grant, out of u.
func (by *Writer) Claim(u *Usage, r *Request, g berth.Grant) { u.move(by, r, g, 1) }

// Release returns what Claim took.
func (by *Writer) Release(u *Usage, r *Request, g berth.Grant) { u.move(by, r, g, -1) }

// Place claims r on u, where it must fit, and returns the named resources it
// picked. The search for dynamic ports starts at offset at, so that a port just
// released is not reused at once.
func (by *Writer) Place(u *Usage, r *Request, at uint32) (g berth.Grant) {
	if r.named != nil {
		g = u.pickNamed(r, at)
	} else if r.Dynamic > 0 {
		g.Ports = u.dynamicPorts(r, at)
	}
	by.Claim(u, r, g)
	return g
}

// move adds (sign 1) or takes away (sign -1) one allocation's request and
// grant. Taking away what was never added makes the totals wrong; nothing
// checks it.
func (u *Usage) move(by *Writer, r *Request, g berth.Grant, sign int64) {
	u.Used.CPU += sign * r.CPU
	u.Used.MemoryMB += sign * r.MemoryMB
	u.Used.DiskMB += sign * r.DiskMB
	u.Allocs += uint32(sign)
	if len(g.Cores)+len(g.Devices) > 0 {
		u.moveNamed(by, &g, sign)
	}
	u.updatePowers()
	if r.named != nil && r.named.ports != nil {
		u.movePorts(by, r.named, g.Ports, sign)
		return
	}
	// Requests without named ports use space 0. Once ports are shared there,
	// the counts decide when a port is free again.
	shared := u.named != nil && len(u.named.shared) > 0
	for _, ports := range [2][]uint16{r.Static, g.Ports} {
		for _, p := range ports {
			switch {
			case shared && sign > 0:
				u.hold(by, 0, p)
			case shared:
				u.drop(by, 0, p)
			case sign > 0:
				u.Ports.add(by, p)
			case !u.Reserved.Has(p):
				u.Ports.remove(by, p)
			}
		}
	}
}

// updatePowers recomputes the powers after a change of Capacity or Used.
func (u *Usage) updatePowers() {
	u.PowCPU = powFree(u.Capacity.CPU, u.Used.CPU)
	u.PowMemory = powFree(u.Capacity.MemoryMB, u.Used.MemoryMB)
}

// powFree returns ten to the power of the free share; a node without capacity
// has no free share.
func powFree(capacity, used int64) float64 {
	if capacity <= 0 {
		return 1
	}
	return math.Exp((1 - float64(used)/float64(capacity)) * math.Ln10)
}

// Draft is a copy of a node's usage for trying out changes.
type Draft struct {
	Usage
	by Writer
}

// Draft returns a copy to change.
func (u *Usage) Draft() *Draft { return &Draft{Usage: *u} }

// Begin makes d a copy of u, so that callers can reuse the memory of drafts.
func (d *Draft) Begin(u *Usage) { *d = Draft{Usage: *u} }

// Claim takes what r asks for, and the grant.
func (d *Draft) Claim(r *Request, g berth.Grant) { d.by.Claim(&d.Usage, r, g) }

// Release returns what Claim, or an allocation of the node, took.
func (d *Draft) Release(r *Request, g berth.Grant) { d.by.Release(&d.Usage, r, g) }

// Place claims r, which must fit, as [Writer.Place] does.
func (d *Draft) Place(r *Request, at uint32) berth.Grant { return d.by.Place(&d.Usage, r, at) }

// PlaceOver is like Place, reusing the capacity of preempted allocations.
func (d *Draft) PlaceOver(r *Request, at uint32, preempted []*berth.Alloc) berth.Grant {
	g := d.Without(preempted...).Place(r, at)
	d.by.ClaimOver(&d.Usage, r, g, preempted)
	return g
}
