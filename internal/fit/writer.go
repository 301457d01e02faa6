package fit

import (
	"math"
	"sync/atomic"

	"berth"
)

// Writer changes usages in place and keeps their copies as they are: what a
// usage shares with copies of it is copied before its first change. The zero
// Writer is ready to use.
//
// A Writer takes a usage for its own once it has changed it. Whoever gives out
// copies of such usages to be kept, as a snapshot, goes on with a new Writer. A
// Writer must not be copied after its first use.
type Writer struct {
	_      noCopy
	number uint64
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// edits numbers the Writers of the process.
var edits atomic.Uint64

// edit returns the number by which the writer knows its own parts. Most change
// counts only and need none.
func (by *Writer) edit() uint64 {
	if by.number == 0 {
		by.number = edits.Add(1)
	}
	return by.number
}

// Claim takes what r asks for, and what was picked for it, out of u.
func (by *Writer) Claim(u *Usage, r *Request, g berth.Grant) { u.move(by, r, g, 1) }

// Release gives back what Claim took.
func (by *Writer) Release(u *Usage, r *Request, g berth.Grant) { u.move(by, r, g, -1) }

// Place claims what r asks for out of u, on which it fits, and returns what it
// picked of the things that are counted by name. Dynamic ports are looked for
// from the place in the range that at points to, so that a port just given back
// is not given out at once.
func (by *Writer) Place(u *Usage, r *Request, at uint32) (g berth.Grant) {
	if r.named != nil {
		g = u.pickNamed(r, at)
	} else if r.Dynamic > 0 {
		g.Ports = u.dynamicPorts(r, at)
	}
	by.Claim(u, r, g)
	return g
}

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

// updatePowers works out the powers of what is free, after Capacity or Used changed.
func (u *Usage) updatePowers() {
	u.PowCPU = powFree(u.Capacity.CPU, u.Used.CPU)
	u.PowMemory = powFree(u.Capacity.MemoryMB, u.Used.MemoryMB)
}

// powFree returns ten to the power of the share that is free; nothing is free
// of nothing.
func powFree(capacity, used int64) float64 {
	if capacity <= 0 {
		return 1
	}
	return math.Exp((1 - float64(used)/float64(capacity)) * math.Ln10)
}

// Draft is a copy of a node's usage on which to try out changes. The usage it
// was copied from stays as it is.
type Draft struct {
	Usage
	by Writer
}

// Draft returns a copy to change.
func (u *Usage) Draft() *Draft { return &Draft{Usage: *u} }

// Begin makes d a copy of u, whatever it was before. It lets callers reuse the
// memory of drafts.
func (d *Draft) Begin(u *Usage) { *d = Draft{Usage: *u} }

// Claim takes what r asks for, and what was picked for it.
func (d *Draft) Claim(r *Request, g berth.Grant) { d.by.Claim(&d.Usage, r, g) }

// Release gives back what Claim, or an allocation of the node, took.
func (d *Draft) Release(r *Request, g berth.Grant) { d.by.Release(&d.Usage, r, g) }

// Place claims what r asks for, which must fit, as [Writer.Place] does.
func (d *Draft) Place(r *Request, at uint32) berth.Grant { return d.by.Place(&d.Usage, r, at) }

// PlaceOver does what Place does, with the capacity of allocations that are
// preempted for it.
func (d *Draft) PlaceOver(r *Request, at uint32, preempted []*berth.Alloc) berth.Grant {
	g := d.Without(preempted...).Place(r, at)
	d.by.ClaimOver(&d.Usage, r, g, preempted)
	return g
}
