package place

import (
	"slices"

	"berth"
)

// GroupOfVersion places instances of a group of an earlier version of the job, which
// has that number there, after and beside what was placed so far.
func (p *Placer) GroupOfVersion(version *berth.Job, number int, instances []Instance) Outcome {
	defer p.asVersion(version)()
	return p.Group(number, instances)
}

// OnNodesOfVersion is GroupOf for instances that want one node each, and were found to be
// wanted there by what the newest version asks for: nodes that do not meet the
// conditions of the earlier one are passed over.
func (p *Placer) OnNodesOfVersion(version *berth.Job, number int, list []OnNode) OnNodesOutcome {
	defer p.asVersion(version)()
	f := newFilter(p, version.TaskGroups[number])
	meets := slices.DeleteFunc(slices.Clone(list), func(o OnNode) bool { return f.class(p.snap.Usage(o.Node.Number).Class) != meetsAll })
	return p.OnNodes(number, meets)
}

// asVersion lets what is placed be of an earlier version, until what it returns is
// called.
func (p *Placer) asVersion(version *berth.Job) (over func()) {
	newest, prey := p.job, p.preemptible
	p.job = version
	if version.Priority == newest.Priority || prey != nil && prey.requests == nil { // it may evict the same; nothing is evicted after Vacate
		return func() { p.job = newest }
	}
	p.preemptible = nil
	y := p.findPreemptible()
	if prey != nil {
		y.preempted = prey.preempted
	}
	return func() {
		p.job = newest
		if p.preemptible = prey; prey == nil && len(y.preempted) > 0 {
			p.findPreemptible().preempted = y.preempted
		}
	}
}
