package place

import (
	"berth"
	"berth/internal/fit"
)

// Later returns a placer for the time when the given stops have ended: it may
// use the capacity of the job's allocations that are being stopped, and it
// preempts nothing. What p placed counts; p stays as it is, and the stops need
// not be those that p knows. The placements of the new placer cannot be
// committed now. They show how many instances will find a place, and explain
// nothing.
func (p *Placer) Later(stops []berth.AllocStop) *Placer {
	q := New(p.snap, p.job, stops, p.seed).Within(p.work)
	q.later, q.starts = true, nil
	for _, x := range p.peers {
		if x.now {
			q.peers = append(q.peers, x)
		}
	}
	for number, d := range p.taken {
		e := q.newDraft()
		e.Begin(&d.Usage)
		q.taken[number] = e
	}
	if p.quota != nil {
		q.quota = p.quota.Clone()
	}
	q.vacate()
	return q
}

// vacate makes the capacity free that the job's allocations hold until their
// end is confirmed.
func (p *Placer) vacate() {
	requests := map[*berth.TaskGroup]*fit.Request{}
	for a := range p.snap.AllocsOf(p.job.Key()) {
		p.work.Spend(1)
		if !a.Occupies() || a.Wanted() && !p.leaving[a.ID] {
			continue
		}
		if p.quota != nil {
			p.quota.Add(p.quota.Of(a.Job, a.Group), -1)
		}
		if n := p.snap.Node(a.NodeID); n != nil {
			w := requests[a.Group]
			if w == nil {
				r := fit.RequestOf(a.Group)
				w = &r
				requests[a.Group] = w
			}
			p.draft(n.Number).Release(w, a.Grant())
		}
	}
}
