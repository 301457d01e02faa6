package fit

import (
	"math/bits"

	"berth/internal/cow"
)

// PortSet is a set of ports of one node. Copies share what did not change. The
// zero PortSet is empty.
type PortSet struct {
	words cow.Vec[uint64] // bit p%64 of word p/64 stands for port p
	count int             // of ports in the set
}

// Has reports whether the port is in the set.
func (p *PortSet) Has(port uint16) bool {
	return p.words.Get(uint32(port)/64)&(1<<(port%64)) != 0
}

// Len returns the number of ports in the set.
func (p *PortSet) Len() int { return p.count }

// add marks a port as taken; a port that is taken already stays counted once.
// Only the owner of by may call it, and snapshots keep what they had.
func (p *PortSet) add(by *Writer, port uint16) {
	w := p.words.Edit(by.edit(), uint32(port)/64)
	if *w&(1<<(port%64)) == 0 {
		*w |= 1 << (port % 64)
		p.count++
	}
}

// remove frees a port; freeing a free one changes nothing. Like add, it is for
// the owner of by.
func (p *PortSet) remove(by *Writer, port uint16) {
	w := p.words.Edit(by.edit(), uint32(port)/64)
	if *w&(1<<(port%64)) != 0 {
		*w &^= 1 << (port % 64)
		p.count--
	}
}

// Free returns the first port from from to last that is not in the set.
func (p *PortSet) Free(from uint32, last uint16) (port uint16, ok bool) {
	for at := from; at <= uint32(last); at = (at/64 + 1) * 64 {
		free := ^p.words.Get(at/64) & (^uint64(0) << (at % 64))
		if free != 0 {
			at = at/64*64 + uint32(bits.TrailingZeros64(free))
			return uint16(at), at <= uint32(last)
		}
	}
	return 0, false
}
