// Package drain empties nodes that an operator wants to free. It decides which
// allocations leave next and when a node is done. The scheduler finds their new
// nodes; the agents start and stop them.
//
// Services leave by their group's migrate block: at most max_parallel at a time
// over all nodes, and the next ones when the replacements are healthy. Batch
// allocations run on until the drain's deadline, and system jobs leave when all
// others have left. At the deadline everything leaves. A node is done when its
// agent has confirmed the end of every allocation.
package drain

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/leader/since"
	"berth/internal/state"
)

// Controller drives the drains of one term. All decisions follow from the
// snapshot. It keeps only what it found last, so that the cost of a step grows
// with what changed.
type Controller struct {
	chance *rand.ChaCha8
	nodes  map[berth.NodeID]*node
	order  []*node // the nodes of the last step, in the snapshot's order
	jobs   map[incarnation]*job
	all    []*job // the same jobs, in any order

	created, changed since.Memory[berth.AllocID]
}

// New returns the controller of a term. IDs come from the seed.
func New(seed [32]byte) *Controller {
	return &Controller{chance: rand.NewChaCha8(seed), nodes: map[berth.NodeID]*node{}, jobs: map[incarnation]*job{}}
}

// Watched returns the keys whose changes a step looks at.
func Watched() []state.WatchKey {
	return []state.WatchKey{state.OnTable(state.Nodes), state.OnTable(state.Allocs), state.OnTable(state.Jobs)}
}

// incarnation names a job, and not a later job of the same name.
type incarnation struct {
	key berth.JobKey
	uid berth.UID
}

// node is what was found on a draining node.
type node struct {
	*berth.Node
	touched uint64 // index of the last change of an allocation on it
	forced  bool
	by      deadline // when everything must have left
	// moves are the allocations of services on the node, which leave by their
	// migrate block.
	moves  map[incarnation][]*berth.Alloc
	system []*berth.Alloc // of system jobs
	left   int            // number of other allocations that keep it from being done
}

// deadline is when everything must have left a node. It is due at the stored
// time, or, if the clock was put back so that it is further away than it was when
// the drain began, as long from then on as it was meant to be.
type deadline struct{ stored, due time.Time }

// of returns the deadline of a drain; d is what was found for the node before.
func (d deadline) of(s *berth.DrainStrategy, now time.Time) deadline {
	stored := s.ForceDeadline
	if d.stored.Equal(stored) && d.due.Sub(now) <= s.Deadline {
		return d
	}
	d = deadline{stored: stored}
	if !stored.IsZero() {
		d.due = now.Add(min(stored.Sub(now), max(s.Deadline, 0)))
	}
	return d
}

// passed reports whether a deadline that there is has passed.
func (d deadline) passed(now time.Time) bool { return !d.due.IsZero() && !d.due.After(now) }

// job is what was found for a job that has allocations on draining nodes.
type job struct {
	incarnation
	nodes map[berth.NodeID]*node // nodes that have allocations of it
	slot  state.JobSlot          // where the job was in the state, if it exists

	allocs, modified uint64    // indexes of the last change of an allocation of it, and of the job itself
	again            time.Time // when it must be judged again without a change
	changed          bool      // something on a draining node changed
}

// now returns the current job and its counts, nil if it was deleted.
func (j *job) now(snap *state.Snapshot) (*berth.Job, *state.Summary) {
	row, sum := snap.JobAt(j.slot)
	if row != nil && sum != nil && row.UID == j.uid && row.ID == j.key.ID && row.Namespace == j.key.Namespace {
		return row, sum
	}
	at, ok := snap.JobSlot(j.key)
	if !ok {
		return nil, nil
	}
	j.slot = at
	if row, sum = snap.JobAt(at); row.UID != j.uid {
		return nil, nil
	}
	return row, sum
}

// Step implements leader.Controller.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	s := step{c: c, snap: snap, now: now}
	draining := make([]*node, 0, len(c.order))
	for n := range snap.Draining() {
		draining = append(draining, s.look(n, len(draining)))
	}
	if len(draining) < len(c.nodes) {
		s.forget(draining)
	}
	if c.order = draining; len(draining) == 0 {
		c.created, c.changed = since.Memory[berth.AllocID]{}, since.Memory[berth.AllocID]{}
	}
	for _, j := range s.pending() {
		s.judge(j)
	}
	s.emit(draining)
	return s.do, s.again
}

// step is the current step.
type step struct {
	c     *Controller
	snap  *state.Snapshot
	now   time.Time
	do    []state.Command
	again time.Time

	// leave collects what leaves each node in this step; nil until something
	// does.
	leave map[berth.NodeID]*leaving
}

// leaving holds the allocations that must leave a node now.
type leaving struct {
	mark, stop []berth.AllocID
	freed      int // number of stopped allocations that are not waited for
	done       bool
}

// leaveFrom returns what leaves the node in this step, and creates it if
// needed.
func (s *step) leaveFrom(id berth.NodeID) *leaving {
	if s.leave == nil {
		s.leave = map[berth.NodeID]*leaving{}
	}
	l := s.leave[id]
	if l == nil {
		l = &leaving{}
		s.leave[id] = l
	}
	return l
}

// wake asks for a step at a time, unless an earlier one is planned.
func (s *step) wake(at time.Time) {
	if at.After(s.now) && (s.again.IsZero() || at.Before(s.again)) {
		s.again = at
	}
}

// forget drops nodes that are no longer draining. The jobs that had allocations
// there are judged again.
func (s *step) forget(draining []*node) {
	there := make(map[*node]bool, len(draining))
	for _, d := range draining {
		there[d] = true
	}
	for id, n := range s.c.nodes {
		if there[n] {
			continue
		}
		for in := range n.moves {
			j := s.c.jobs[in]
			j.changed = true
			delete(j.nodes, id)
		}
		delete(s.c.nodes, id)
	}
}

// look finds out what is on a draining node, the nth, unless nothing happened
// there since the last look.
func (s *step) look(n *berth.Node, nth int) *node {
	var old *node
	if nth < len(s.c.order) && s.c.order[nth].ID == n.ID { // nearly always
		old = s.c.order[nth]
	} else {
		old = s.c.nodes[n.ID]
	}
	var by deadline
	if old != nil {
		by = old.by
	}
	by = by.of(n.DrainStrategy, s.now)
	touched, forced := s.snap.Usage(n.Number).Touched, n.DrainStrategy.Forced(s.now) || by.passed(s.now)
	if !forced {
		s.wake(by.due)
	}
	if old != nil && old.touched == touched && old.ModifyIndex == n.ModifyIndex && old.forced == forced && old.by == by {
		return old
	}
	// Something changed: find its allocations again and mark the jobs whose
	// part changed.
	d := &node{Node: n, touched: touched, forced: forced, by: by, moves: map[incarnation][]*berth.Alloc{}}
	s.c.nodes[n.ID] = d
	s.visit(d)
	if old == nil {
		old = &node{}
	}
	// Jobs that have nothing left here.
	for in := range old.moves {
		if d.moves[in] == nil {
			j := s.c.jobs[in]
			j.changed = true
			delete(j.nodes, n.ID)
		}
	}
	// Jobs that have something here. Forcing changes what they may do even if
	// the list is the same.
	for in, list := range d.moves {
		j := s.c.job(in)
		j.nodes[n.ID] = d
		if old.forced != forced || !slices.Equal(old.moves[in], list) {
			j.changed = true
		}
	}
	return d
}

// job returns what was found for a job, an empty record if it is new.
func (c *Controller) job(in incarnation) *job {
	j := c.jobs[in]
	if j == nil {
		j = &job{incarnation: in, nodes: map[berth.NodeID]*node{}, changed: true}
		c.jobs[in] = j
		c.all = append(c.all, j)
	}
	return j
}

// visit looks at each allocation that keeps a node from being done.
func (s *step) visit(d *node) {
	var all []*berth.Alloc
	for a := range s.snap.AllocsOn(d.ID) {
		if d.DrainStrategy.Holds(a) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, byAge)
	for _, a := range all {
		if a.Job.Type == berth.TypeSystem {
			d.system = append(d.system, a)
			continue
		}
		d.left++
		if a.Live() { // otherwise it is already stopping
			s.visitOne(d, a)
		}
	}
}

// visitOne decides about one allocation that is not of a system job, or leaves
// the decision to judge.
func (s *step) visitOne(d *node, a *berth.Alloc) {
	in := incarnation{a.Key(), a.Job.UID}
	known := s.c.jobs[in]
	if known == nil {
		known = &job{incarnation: in}
	}
	row, _ := known.now(s.snap)
	gone := a.Orphaned || row == nil
	service := a.Job.Type == berth.TypeService || a.Job.Type == berth.TypeStream
	switch {
	case gone && (d.forced || service && a.Orphaned):
		s.send(d, a, true)
	case gone: // an orphan that ends by itself, or the scheduler stops it
	case service:
		d.moves[in] = append(d.moves[in], a)
	case d.forced && !a.Rest().Migrate:
		s.send(d, a, false)
	}
}

// settle lets system jobs leave a node once everything else has left, and marks
// a node without allocations as done.
func (s *step) settle(d *node) {
	left := d.left
	if l := s.leave[d.ID]; l != nil {
		left -= l.freed
	}
	if left == 0 && len(d.system) == 0 {
		s.leaveFrom(d.ID).done = true
	}
	if left > 0 && !d.forced {
		return
	}
	for _, a := range d.system {
		if a.Live() && !a.Rest().Migrate {
			s.send(d, a, a.Orphaned)
		}
	}
}

// send makes an allocation leave: the scheduler stops it, or it is stopped at
// once.
func (s *step) send(d *node, a *berth.Alloc, stop bool) {
	l := s.leaveFrom(d.ID)
	if !stop {
		l.mark = append(l.mark, a.ID)
		return
	}
	l.stop = append(l.stop, a.ID)
	if a.Client == berth.ClientUnknown && a.Job.Type != berth.TypeSystem {
		l.freed++
	}
}

// byAge orders allocations from the oldest to the newest, and those of one plan
// by their place in it.
func byAge(a, b *berth.Alloc) int {
	return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
}

// pending returns the jobs to judge now, in order: those that changed, and
// those whose time has come.
func (s *step) pending() (out []*job) {
	left := s.c.all[:0]
	for _, j := range s.c.all {
		if len(j.nodes) == 0 {
			delete(s.c.jobs, j.incarnation)
			continue
		}
		left = append(left, j)
		allocs, modified := uint64(0), uint64(0)
		if row, sum := j.now(s.snap); row != nil {
			modified, allocs = row.ModifyIndex, sum.Allocs
		}
		due := !j.again.IsZero() && !s.now.Before(j.again)
		if !j.changed && !due && j.allocs == allocs && j.modified == modified {
			s.wake(j.again)
			continue
		}
		j.allocs, j.modified, j.again, j.changed = allocs, modified, time.Time{}, false
		out = append(out, j)
	}
	// Let go of the jobs that left the list.
	clear(s.c.all[len(left):])
	s.c.all = left
	slices.SortFunc(out, func(a, b *job) int {
		return cmp.Or(strings.Compare(a.key.Namespace, b.key.Namespace), strings.Compare(string(a.key.ID), string(b.key.ID)),
			cmp.Compare(a.uid.Index, b.uid.Index), cmp.Compare(a.uid.Ordinal, b.uid.Ordinal))
	})
	return out
}

// neverTouched is an index that no change has.
const neverTouched = 1<<64 - 1

// mostAllocs bounds the allocations of one command.
const mostAllocs = 1000

// emit turns the decisions into commands.
func (s *step) emit(draining []*node) {
	for _, d := range draining {
		if s.leave == nil && d.left > 0 && !d.forced {
			continue // nearly always
		}
		s.settle(d)
		l := s.leave[d.ID]
		if l == nil {
			continue
		}
		d.touched = neverTouched // if this is refused, it is decided again
		for part := range slices.Chunk(l.stop, mostAllocs) {
			s.migrate(d, part, true)
		}
		for part := range slices.Chunk(l.mark, mostAllocs) {
			s.migrate(d, part, false)
		}
		if l.done {
			s.do = append(s.do, &state.FinishDrain{ID: d.ID, Now: s.now.UnixNano()})
		}
	}
}

// migrate proposes to move allocations off d. The seed makes the IDs of the
// evaluations the same on every server.
func (s *step) migrate(d *node, ids []berth.AllocID, stop bool) {
	c := &state.MigrateAllocs{Node: d.ID, Allocs: ids, Stop: stop, Now: s.now.UnixNano()}
	s.c.chance.Read(c.Seed[:])
	s.do = append(s.do, c)
}
