package place

import (
	"slices"
	"sync"

	"berth/internal/fit"
)

// sheet is what a placer writes on. Sheets are used again: made anew for each
// decision they would be most of what it allocates.
type sheet struct {
	taken  map[uint32]*fit.Draft // by node number: lines changed by what was placed
	blocks [][]fit.Draft         // where these lie
	lines  int                   // how many there are
	peers  []peer

	// Of the group that is placed.
	siblings map[uint32]int // by node number: instances of the group there
	classes  []classView    // by class number
	spreads  spreads        // if it has spread blocks
}

var sheets = sync.Pool{New: func() any {
	return &sheet{taken: map[uint32]*fit.Draft{}, siblings: map[uint32]int{}}
}}

// linesPerBlock is how many lines are made at a time.
const linesPerBlock = 32

// linesKept is how large a sheet may be to be used again.
const linesKept = 2048

// newLine returns a line to write on.
func (s *sheet) newLine() *fit.Draft {
	block, at := s.lines/linesPerBlock, s.lines%linesPerBlock
	if block == len(s.blocks) {
		s.blocks = append(s.blocks, make([]fit.Draft, linesPerBlock))
	}
	s.lines++
	return &s.blocks[block][at]
}

// begin wipes what is about one group.
func (p *Placer) begin() {
	clear(p.siblings)
	n := int(p.snap.Classes())
	p.classes = slices.Grow(p.classes[:0], n)[:n]
	clear(p.classes)
}

// Close gives back what the placer wrote on; what it returned stays as it is.
// Nothing may be placed with it any more. A placer that is not closed costs
// some memory and nothing else.
func (p *Placer) Close() {
	s := p.sheet
	p.sheet = nil
	if s.lines > linesKept { // what a large decision left would cost the small ones
		return
	}
	clear(s.taken)
	for i := range s.blocks { // lines hold parts of states that are old by then
		clear(s.blocks[i][:min(max(s.lines-i*linesPerBlock, 0), linesPerBlock)])
	}
	clear(s.peers)
	s.lines, s.peers = 0, s.peers[:0]
	sheets.Put(s)
}
