package place

import (
	"slices"
	"sync"

	"berth/internal/fit"
)

// scratch is a placer's working memory. It is reused: allocated for each
// decision, it would be most of what a decision allocates.
type scratch struct {
	taken  map[uint32]*fit.Draft // by node number: usage with earlier placements
	blocks [][]fit.Draft         // the memory of taken
	drafts int                   // how many are in use
	peers  []peer

	// For the current group.
	siblings map[uint32]int // by node number: instances of the group there
	classes  []classView    // by class number
	spreads  spreads        // if it has spread blocks
}

// scratchPool holds the memory of placers between decisions.
var scratchPool = sync.Pool{New: func() any {
	return &scratch{taken: map[uint32]*fit.Draft{}, siblings: map[uint32]int{}}
}}

// draftsPerBlock is how many drafts are allocated at a time.
const draftsPerBlock = 32

// maxDraftsKept is the largest number of drafts with which a scratch is reused.
const maxDraftsKept = 2048

// newDraft returns an unused draft.
func (s *scratch) newDraft() *fit.Draft {
	block, at := s.drafts/draftsPerBlock, s.drafts%draftsPerBlock
	if block == len(s.blocks) {
		s.blocks = append(s.blocks, make([]fit.Draft, draftsPerBlock))
	}
	s.drafts++
	return &s.blocks[block][at]
}

// resetGroup clears what is about one group.
func (p *Placer) resetGroup() {
	clear(p.siblings)
	n := int(p.snap.Classes())
	p.classes = slices.Grow(p.classes[:0], n)[:n]
	clear(p.classes)
}

// Close releases the placer's working memory; results stay valid. The placer
// must not be used afterwards. Not closing a placer only costs some memory.
func (p *Placer) Close() {
	s := p.scratch
	p.scratch = nil
	if s.drafts > maxDraftsKept { // small decisions must not pay for clearing a large one
		return
	}
	clear(s.taken)
	for i := range s.blocks { // drafts must not keep old states alive
		clear(s.blocks[i][:min(max(s.drafts-i*draftsPerBlock, 0), draftsPerBlock)])
	}
	clear(s.peers)
	s.drafts, s.peers = 0, s.peers[:0]
	scratchPool.Put(s)
}
