package place

import (
	"slices"

	"berth"
)

// GroupOfVersion places instances of a group of an earlier version of the job,
// in which the group has that number. Earlier placements of p count.
func (p *Placer) GroupOfVersion(version *berth.Job, number int, instances []Instance) Outcome {
	defer p.asVersion(version)()
	return p.Group(number, instances)
}

// OnNodesOfVersion is like GroupOfVersion, for instances that each belong to
// one node. The nodes were chosen by the constraints of the newest version;
// those that do not meet the constraints of the earlier one are skipped.
func (p *Placer) OnNodesOfVersion(version *berth.Job, number int, list []OnNode) OnNodesOutcome {
	defer p.asVersion(version)()
	f := newFilter(p, version.TaskGroups[number])
	meets := slices.DeleteFunc(slices.Clone(list), func(o OnNode) bool { return f.class(p.snap.Usage(o.Node.Number).Class).kind != meetsAll })
	return p.OnNodes(number, meets)
}

// asVersion makes p place an earlier version of the job until the returned
// function is called.
func (p *Placer) asVersion(version *berth.Job) (over func()) {
	newest, known := p.job, p.preemptible
	p.job = version
	if version.Priority == newest.Priority || p.later { // it may preempt the same allocations, or none
		return func() { p.job = newest }
	}
	p.preemptible = nil
	y := p.findPreemptible()
	if known != nil {
		y.preempted = known.preempted
	}
	return func() {
		p.job = newest
		if p.preemptible = known; known == nil && len(y.preempted) > 0 {
			p.findPreemptible().preempted = y.preempted
		}
	}
}
