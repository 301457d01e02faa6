package place

import (
	"slices"

	"berth"
)

// GroupOf places instances of a group of an earlier version of the job, which
// has that number there, after and beside what was placed so far.
func (p *Placer) GroupOf(version *berth.Job, number int, instances []Instance) Outcome {
	defer p.as(version)()
	return p.Group(number, instances)
}

// EachOf is GroupOf for instances that want one node each, and were found to be
// wanted there by what the newest version asks for: nodes that do not meet the
// conditions of the earlier one are passed over.
func (p *Placer) EachOf(version *berth.Job, number int, list []OnNode) EachOutcome {
	defer p.as(version)()
	f := newFilter(p, version.TaskGroups[number])
	meets := slices.DeleteFunc(slices.Clone(list), func(o OnNode) bool { return f.class(p.snap.Usage(o.Node.Number).Class) != meetsAll })
	return p.Each(number, meets)
}

// as lets what is placed be of an earlier version, until what it returns is
// called.
func (p *Placer) as(version *berth.Job) (over func()) {
	newest, prey := p.job, p.prey
	p.job = version
	if version.Priority == newest.Priority || prey != nil && prey.wants == nil { // it may evict the same; nothing is evicted after Vacate
		return func() { p.job = newest }
	}
	p.prey = nil
	y := p.hunt()
	if prey != nil {
		y.evicted = prey.evicted
	}
	return func() {
		p.job = newest
		if p.prey = prey; prey == nil && len(y.evicted) > 0 {
			p.hunt().evicted = y.evicted
		}
	}
}
