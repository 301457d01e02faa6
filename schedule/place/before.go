package place

import "berth"

// GroupOf places instances of a group of an earlier version of the job, which
// has that number there, after and beside what was placed so far.
func (p *Placer) GroupOf(version *berth.Job, number int, instances []Instance) Outcome {
	newest := p.job
	p.job = version
	defer func() { p.job = newest }()
	return p.Group(number, instances)
}
