package place

import (
	"slices"
	"sync"

	"berth/internal/fit"
)

// scratch is what a placer writes on. Sheets are used again: made anew for each
// decision they would be most of what it allocates.
type scratch struct {
	taken  map[uint32]*fit.Draft // by node number: lines changed by what was placed
	blocks [][]fit.Draft         // where these lie
	drafts int                   // how many there are
	peers  []peer

	// Of the group that is placed.
	siblings map[uint32]int // by node number: instances of the group there
	classes  []classView    // by class number
	spreads  spreads        // if it has spread blocks
}

var scratchPool = sync.Pool{New: func() any {
	return &scratch{taken: map[uint32]*fit.Draft{}, siblings: map[uint32]int{}}
}}

// draftsPerBlock is how many lines are made at a time.
const draftsPerBlock = 32

// maxDraftsKept is how large a sheet may be to be used again.
const maxDraftsKept = 2048

// newDraft returns a line to write on.
func (s *scratch) newDraft() *fit.Draft {
	block, at := s.drafts/draftsPerBlock, s.drafts%draftsPerBlock
	if block == len(s.blocks) {
		s.blocks = append(s.blocks, make([]fit.Draft, draftsPerBlock))
	}
	s.drafts++
	return &s.blocks[block][at]
}

// resetGroup wipes what is about one group.
func (p *Placer) resetGroup() {
	clear(p.siblings)
	n := int(p.snap.Classes())
	p.classes = slices.Grow(p.classes[:0], n)[:n]
	clear(p.classes)
}

// Close gives back what the placer wrote on; what it returned stays as it is.
// Nothing may be placed with it any more. A placer that is not closed costs
// some memory and nothing else.
func (p *Placer) Close() {
	s := p.scratch
	p.scratch = nil
	if s.drafts > maxDraftsKept { // what a large decision left would cost the small ones
		return
	}
	clear(s.taken)
	for i := range s.blocks { // lines hold parts of states that are old by then
		clear(s.blocks[i][:min(max(s.drafts-i*draftsPerBlock, 0), draftsPerBlock)])
	}
	clear(s.peers)
	s.drafts, s.peers = 0, s.peers[:0]
	scratchPool.Put(s)
}
