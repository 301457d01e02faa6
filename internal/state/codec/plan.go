package codec

import (
	"math"

	"berth"
)

// Values that occur about once per allocation are written field by field: a
// placement takes about ten bytes. Nodes are written as numbers; the IDs of new
// allocations follow from the evaluation's and are not written at all.

// Flag returns f if on is true, else 0.
func Flag(f byte, on bool) byte {
	if on {
		return f
	}
	return 0
}

// WriteIDs writes a list of IDs.
func WriteIDs[T any](w *Writer, list []berth.ID[T]) {
	w.Uint(uint64(len(list)))
	for _, id := range list {
		w.ID(id)
	}
}

// ReadIDs reads a list of IDs.
func ReadIDs[T any](r *Reader) []berth.ID[T] {
	list := make([]berth.ID[T], r.Length(16))
	for i := range list {
		list[i] = r.ID()
	}
	return list
}

// scoreUnit is the resolution of scores in the log: they lie between -1 and 1,
// and four digits are shown.
const scoreUnit = 1 << 14

// logged returns a score as the log has it. A score out of range becomes the
// nearest one in range: an entry that cannot be read again would be worse.
func logged(s float32) int64 {
	if s != s {
		return 0
	}
	return int64(math.Round(max(-1, min(1, float64(s))) * scoreUnit))
}

// KeptScore rounds a score to what the log can hold, so that the server that
// wrote the log has the same value as those that read it.
func KeptScore(s float32) float32 { return float32(logged(s)) / scoreUnit }

// Score writes a score.
func (w *Writer) Score(s float32) { w.Int(logged(s)) }

// Score reads a score.
func (r *Reader) Score() float32 {
	s := r.Int()
	if s < -scoreUnit || s > scoreUnit {
		r.Damaged("score")
		return 0
	}
	return float32(s) / scoreUnit
}

// Flags of a placement.
const (
	placePorts    = 1 << 0 // has dynamic ports
	placePrevious = 1 << 1 // replaces an allocation
	placeResched  = 1 << 2 // the replaced one failed
	placeGroup    = 1 << 3 // not the group of the one before
	placeSkip     = 1 << 4 // the index does not follow the one before
	placeNamed    = 1 << 5 // cores or devices
	placeRare     = 1 << 6 // another byte of flags follows
	placeEvict    = 1 << 7
)

// The other flags of a placement.
const (
	rareCanary = 1 << 0 // is a canary
	rareBefore = 1 << 1 // starts before the replaced one stops
)

// Placements writes placements with the numbers of their nodes.
func (w *Writer) Placements(list []berth.Placement, nodes []uint32) {
	w.Uint(uint64(len(list)))
	group, index := 0, uint32(math.MaxUint32)
	for i := range list {
		p := &list[i]
		// The flags tell which fields follow. Usually the group is that of the
		// previous placement, and the index the next one.
		w.Byte(Flag(placePorts, len(p.Ports) > 0) | Flag(placePrevious, !p.Previous.IsZero()) | Flag(placeResched, p.Resched) |
			Flag(placeNamed, len(p.Cores)+len(p.Devices) > 0) |
			Flag(placeRare, p.Canary || p.Before) | Flag(placeEvict, len(p.Evict) > 0) | Flag(placeGroup, p.Group != group) | Flag(placeSkip, p.Index != index+1))
		if p.Group != group {
			w.Uint(uint64(p.Group))
		}
		if p.Index != index+1 {
			w.Uint(uint64(p.Index))
		}
		group, index = p.Group, p.Index
		w.Uint(uint64(nodes[i]))
		w.Score(p.Score)
		if len(p.Ports) > 0 {
			w.Ports(p.Ports)
		}
		if len(p.Cores)+len(p.Devices) > 0 {
			w.Ports(p.Cores)
			w.Value(p.Devices)
		}
		if !p.Previous.IsZero() {
			w.ID(p.Previous)
		}
		if p.Canary || p.Before {
			w.Byte(Flag(rareCanary, p.Canary) | Flag(rareBefore, p.Before))
		}
		if len(p.Evict) > 0 {
			WriteIDs(w, p.Evict)
		}
	}
}

// Placements reads placements, and the numbers of their nodes.
func (r *Reader) Placements() (list []berth.Placement, nodes []uint32) {
	n := r.Length(3)
	group, index := 0, uint32(math.MaxUint32)
	list, nodes = make([]berth.Placement, n), make([]uint32, n)
	for i := range list {
		p := &list[i]
		// The order is that of the Writer.
		flags := r.Byte()
		index++
		if flags&placeGroup != 0 {
			group = int(r.Below(berth.MaxGroups, "group"))
		}
		if flags&placeSkip != 0 {
			index = uint32(r.Below(math.MaxUint32, "index"))
		}
		p.Group, p.Index = group, index
		nodes[i] = uint32(r.Below(math.MaxUint32+1, "node"))
		p.Score = r.Score()
		if flags&placePorts != 0 {
			p.Ports = r.Ports()
		}
		if flags&placeNamed != 0 {
			p.Cores = r.Ports()
			r.Value(&p.Devices)
		}
		if flags&placePrevious != 0 {
			p.Previous = r.ID()
		}
		if flags&placeRare != 0 {
			rare := r.Byte()
			p.Canary, p.Before = rare&rareCanary != 0, rare&rareBefore != 0
		}
		if flags&placeEvict != 0 {
			p.Evict = ReadIDs[berth.Alloc](r)
		}
		p.Resched = flags&placeResched != 0
	}
	return list, nodes
}

// Stops writes allocations to stop.
func (w *Writer) Stops(list []berth.AllocStop) {
	w.Uint(uint64(len(list)))
	for _, s := range list {
		w.ID(s.ID)
		w.Byte(byte(s.Client))
		w.Optional(s.FollowupEval)
		w.stopReason(&s)
	}
}

// Stops reads allocations to stop.
func (r *Reader) Stops() []berth.AllocStop {
	list := make([]berth.AllocStop, r.Length(19))
	for i := range list {
		s := &list[i]
		s.ID = r.ID()
		s.Client = berth.ClientStatus(r.Below(uint64(berth.ClientUnknown)+1, "client status"))
		s.FollowupEval = r.Optional()
		r.stopReason(s)
	}
	return list
}

// Ports writes numbers of ports or cores.
func (w *Writer) Ports(list []uint16) {
	w.Uint(uint64(len(list)))
	for _, p := range list {
		w.Byte(byte(p >> 8))
		w.Byte(byte(p))
	}
}

// Ports reads numbers of ports or cores.
func (r *Reader) Ports() []uint16 {
	list := make([]uint16, r.Length(2))
	for i := range list {
		list[i] = uint16(r.Byte())<<8 | uint16(r.Byte())
	}
	return list
}

// Timeline writes times as differences to now.
func (w *Writer) Timeline(t berth.Timeline, now int64) {
	for _, at := range []int64{t.Enqueued, t.Dequeued, t.Planned, t.Applied} {
		if at == 0 {
			w.Uint(0)
		} else {
			w.Uint(1 + zigzag(now-at))
		}
	}
	w.Uint(uint64(t.Deliveries))
	w.Uint(uint64(t.Refused))
}

// Timeline reads times written as differences to now.
func (r *Reader) Timeline(now int64) (t berth.Timeline) {
	for _, at := range []*int64{&t.Enqueued, &t.Dequeued, &t.Planned, &t.Applied} {
		if z := r.Uint(); z != 0 {
			*at = now - unzigzag(z-1)
		}
	}
	t.Deliveries = int(r.Below(math.MaxInt32, "deliveries"))
	t.Refused = int(r.Below(math.MaxInt32, "refused plans"))
	return t
}

// zigzag maps numbers near 0, negative ones too, to small unsigned ones.
func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

// unzigzag is the inverse of zigzag.
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
