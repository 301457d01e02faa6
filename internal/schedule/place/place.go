// Package place says which node: it looks at every node, keeps those that meet
// a group's conditions and have room, and takes the best, exactly. Where none
// is left it says what was wrong with each, with numbers. Which instances want
// a place is the business of package reconcile; whether a placement still fits
// when it is committed, that of the state, by the same arithmetic.
package place

import (
	"berth"
	"berth/internal/fit"
	"berth/internal/state"
)

// Instance is one instance of a group that wants a place.
type Instance struct {
	Index    uint32
	Previous berth.AllocID
	Avoid    berth.NodeID // where the one it replaces failed: taken only if no other is better
	Failed   bool         // it counts as a reschedule of Previous
}

// Placer places the groups of one job, one after another: what is placed first
// takes its room from what comes later, and keeps it apart where conditions
// say so.
type Placer struct {
	snap   *state.Snapshot
	job    *berth.Job
	config berth.SchedulerConfig // of the job's node pool
	seed   uint64
	starts map[uint32]uint // by node number: placed there, if there is a cap
	*scratch

	leaving     map[berth.AllocID]bool // what the plan stops
	preemptible *preemptible           // what the job could evict; nil until that is asked
}

// peer is an instance of the job: one that runs and stays, or one that was
// placed just now.
type peer struct {
	group *berth.TaskGroup // of the version that it runs
	index uint32
	node  *berth.Node
	now   bool     // placed just now
	ports []uint16 // if placed just now: its dynamic ports
}

// New returns a placer of a job on a snapshot. What leaving stops keeps nobody
// apart any more and repels nobody, though it holds its room until its end is
// confirmed. Ties between nodes are broken by the seed.
func New(snap *state.Snapshot, job *berth.Job, leaving []berth.AllocStop, seed uint64) *Placer {
	p := &Placer{
		snap: snap, job: job, config: snap.SchedulerConfigFor(job.NodePool), seed: seed, scratch: scratchPool.Get().(*scratch),
	}
	if p.config.MaxStartsPerNode > 0 {
		p.starts = map[uint32]uint{}
	}
	stops := make(map[berth.AllocID]bool, len(leaving))
	for _, s := range leaving {
		stops[s.ID] = s.FollowupEval.IsZero() // with one it stays
	}
	p.leaving = stops
	for a := range snap.AllocsOf(job.Key()) {
		if !a.Live() || a.Job.UID != job.UID || stops[a.ID] {
			continue
		}
		if n := snap.Node(a.NodeID); n != nil {
			p.peers = append(p.peers, peer{group: a.Group, index: a.Index, node: n})
		}
	}
	return p
}

// Outcome is what became of a group.
type Outcome struct {
	Placed []berth.Placement
	Failed int // instances without a place
	// Why explains: with Failed what was missing where, else how the nodes of
	// the first instance scored. Never nil.
	Why *berth.AllocMetric
	// Chosen explains the first that was placed, though others failed; nil if
	// none was.
	Chosen *berth.AllocMetric
	// Missed says what would help, if any instance failed.
	Missed *berth.Missed
}

// Group places instances of the group with that number.
func (p *Placer) Group(number int, instances []Instance) Outcome {
	if perAlloc(p.job.TaskGroups[number]) {
		return p.oneByOne(number, instances)
	}
	return p.round(number).place(instances)
}

// One places one instance of the group with that number, on a node that nothing
// bars. bars returns why a node may not be used, "" if it may; it is asked of
// nodes that meet the group's own conditions. nil bars none.
func (p *Placer) One(number int, in Instance, bars func(*berth.Node) string) Outcome {
	r := p.round(number)
	r.filter.index, r.filter.excludes = in.Index, bars
	return r.place([]Instance{in})
}

// oneByOne places instances that want different nodes.
func (p *Placer) oneByOne(number int, instances []Instance) (all Outcome) {
	for i := range instances {
		r := p.round(number)
		r.filter.index = instances[i].Index
		out := r.place(instances[i : i+1])
		all.Placed = append(all.Placed, out.Placed...)
		if all.Chosen == nil {
			all.Chosen = out.Chosen
		}
		switch {
		case out.Failed > 0 && all.Failed > 0:
			all.Why.CoalescedFailures++
			addMissed(all.Missed, out.Missed)
		case out.Failed > 0 || all.Why == nil:
			all.Why, all.Missed = out.Why, out.Missed
		}
		all.Failed += out.Failed
	}
	if all.Why == nil {
		all.Why = &berth.AllocMetric{}
	}
	return all
}

// usage returns the usage of a node with what was placed so far.
func (p *Placer) usage(number uint32) *fit.Usage {
	if d := p.taken[number]; d != nil {
		return &d.Usage
	}
	return p.snap.Usage(number)
}

// draft returns the usage of a node to be changed.
func (p *Placer) draft(number uint32) *fit.Draft {
	d := p.taken[number]
	if d == nil {
		d = p.newDraft()
		d.Begin(p.snap.Usage(number))
		p.taken[number] = d
	}
	return d
}
