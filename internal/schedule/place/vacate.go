package place

import (
	"berth"
	"berth/internal/fit"
)

// Vacate treats what leaves, and what of the job has not ended yet, as if it
// had: what it holds is free for what is placed from here on, and nothing more
// is evicted. So one learns what would have a place later; none of that can be
// committed now.
func (p *Placer) Vacate() {
	for a := range p.snap.AllocsOf(p.job.Key()) {
		if !a.Occupies() || a.Wanted() && !p.leaving[a.ID] {
			continue
		}
		if n := p.snap.Node(a.NodeID); n != nil {
			w := fit.RequestOf(a.Group)
			p.draft(n.Number).Release(&w, a.Grant())
		}
	}
	p.preemptible = &preemptible{byNode: map[uint32][]*berth.Alloc{}}
}
