package place

import (
	"berth"
	"berth/internal/fit"
)

// Vacate treats the job's allocations that are being stopped as if they had
// ended: later placements may use their capacity, and nothing more is
// preempted. This shows what would find a place later; such placements cannot
// be committed now.
func (p *Placer) Vacate() {
	for a := range p.snap.AllocsOf(p.job.Key()) {
		if !a.Occupies() || a.Wanted() && !p.leaving[a.ID] {
			continue
		}
		if p.quota != nil {
			p.quota.Add(p.quota.Of(a.Job, a.Group), -1)
		}
		if n := p.snap.Node(a.NodeID); n != nil {
			w := fit.RequestOf(a.Group)
			p.draft(n.Number).Release(&w, a.Grant())
		}
	}
	p.preemptible = &preemptible{byNode: map[uint32][]*berth.Alloc{}}
}
