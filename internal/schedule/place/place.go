// Package place chooses nodes. It looks at every node, keeps those that meet a
// group's constraints and have free capacity, and takes the one with the best
// score, without sampling. If none is left, it explains what was wrong with
// each node, with numbers. Package reconcile decides which instances need a
// place. Package state checks with the same arithmetic (package fit) that a
// placement still fits when it is committed.
package place

import (
	"berth"
	"berth/internal/fit"
	"berth/internal/quota"
	"berth/internal/state"
)

// Instance is one instance of a group that needs a place.
type Instance struct {
	Index    uint32
	Previous berth.AllocID
	Avoid    berth.NodeID // where its predecessor failed: used only if no other node is better
	Prefer   berth.NodeID // where its predecessor's data is: used if it can be; the zero value is any
	Failed   bool         // it counts as a reschedule of Previous
}

// Placer places the groups of one job, one after another. Earlier placements
// take capacity from later ones and are respected by constraints that keep
// instances apart.
type Placer struct {
	snap   *state.Snapshot
	job    *berth.Job
	config berth.SchedulerConfig // of the job's node pool
	seed   uint64                // decides ties
	starts map[uint32]uint       // by node number: placements so far, if they are limited
	work   *Budget               // nil: as much as it takes
	later  bool                  // see Later: nothing is preempted or explained
	*scratch

	quota       *quota.Usage           // of the job's namespace with the placements so far; nil: it has none
	leaving     map[berth.AllocID]bool // what the plan stops
	standIns    map[uint32]bool        // see batch; nil if none is placed now
	preemptible *preemptible           // what the job could preempt; nil until needed
}

// peer is an instance of the job: one that runs and stays, or one that was just
// placed.
type peer struct {
	group *berth.TaskGroup // of the version that it runs
	index uint32
	node  *berth.Node
	now   bool     // just placed
	ports []uint16 // if just placed: its dynamic ports

	unknown bool // its node is disconnected, and it may come back
}

// New returns a placer of a job on a snapshot. Allocations in leaving no longer
// count for constraints and anti-affinity, but they hold their capacity until
// their end is confirmed. Those that leaving only marks unknown, or gives an
// evaluation that follows, stay. The seed breaks ties between nodes.
func New(snap *state.Snapshot, job *berth.Job, leaving []berth.AllocStop, seed uint64) *Placer {
	p := &Placer{
		snap: snap, job: job, config: snap.SchedulerConfigFor(job.NodePool), seed: seed, scratch: scratchPool.Get().(*scratch),
	}
	if p.config.MaxStartsPerNode > 0 {
		p.starts = map[uint32]uint{}
	}
	if u := snap.QuotaUsageOf(job.Namespace); u != nil {
		p.quota = u.Clone()
	}
	stops, unknown := make(map[berth.AllocID]bool, len(leaving)), map[berth.AllocID]bool{}
	for _, s := range leaving {
		switch {
		case s.Client == berth.ClientUnknown:
			unknown[s.ID] = true
		case s.FollowupEval.IsZero():
			stops[s.ID] = true
		}
	}
	p.leaving = stops
	for a := range snap.AllocsOf(job.Key()) {
		if !a.Live() || a.Job.UID != job.UID || stops[a.ID] {
			continue
		}
		if n := snap.Node(a.NodeID); n != nil {
			p.peers = append(p.peers, peer{group: a.Group, index: a.Index, node: n, unknown: a.Client == berth.ClientUnknown || unknown[a.ID]})
		}
	}
	return p
}

// Within makes the work of the placer count for a budget. It returns the placer.
func (p *Placer) Within(work *Budget) *Placer {
	p.work = work
	return p
}

// Outcome is the result of placing a group.
type Outcome struct {
	Placed []berth.Placement
	Failed int // number of instances without a place
	// Why explains the outcome: if Failed > 0 by what nodes lacked, otherwise
	// by the scores of nodes for the first instance. It is never nil.
	Why *berth.AllocMetric
	// Chosen explains the first placement, even if later instances failed; nil
	// if nothing was placed.
	Chosen *berth.AllocMetric
	// Missed tells what would help, if any instance failed.
	Missed *berth.Missed
}

// Group places instances of the group with that number.
func (p *Placer) Group(number int, instances []Instance) Outcome {
	if perAlloc(p.job.TaskGroups[number]) {
		return p.oneByOne(number, instances)
	}
	var all Outcome
	for _, b := range p.batches(p.job.TaskGroups[number], instances) {
		p.standIns = b.standIns
		all.add(p.round(number).place(b.instances))
	}
	p.standIns = nil
	return all
}

// One places one instance of the group with that number. excludes returns why a
// node may not be used, "" if it may. It is called for nodes that meet the
// group's own constraints; nil excludes no node.
func (p *Placer) One(number int, in Instance, excludes func(*berth.Node) string) Outcome {
	r := p.round(number)
	r.filter.index, r.filter.excludes = in.Index, excludes
	return r.place([]Instance{in})
}

// oneByOne places instances that need different nodes.
func (p *Placer) oneByOne(number int, instances []Instance) (all Outcome) {
	for i := range instances {
		r := p.round(number)
		r.filter.index = instances[i].Index
		all.add(r.place(instances[i : i+1]))
	}
	if all.Why == nil {
		all.Why = &berth.AllocMetric{}
	}
	return all
}

// usage returns a node's usage including earlier placements.
func (p *Placer) usage(number uint32) *fit.Usage {
	if d := p.taken[number]; d != nil {
		return &d.Usage
	}
	return p.snap.Usage(number)
}

// draft returns a node's usage for changing.
func (p *Placer) draft(number uint32) *fit.Draft {
	d := p.taken[number]
	if d == nil {
		d = p.newDraft()
		d.Begin(p.snap.Usage(number))
		p.taken[number] = d
	}
	return d
}
