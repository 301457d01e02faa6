package placement

import (
	"cmp"
	"slices"

	"berth"
	"berth/internal/state"
)

// View is what the scheduler looks at when it decides about one incarnation of
// a stream job.
type View struct {
	snap    *state.Snapshot
	Job     *berth.Job                  // the planned version; nil if the incarnation is gone
	row     *berth.StreamJob            // nil if it has none
	Alive   bool                        // it may run processing elements
	all     []*berth.Object             // processing elements of the incarnation
	ByUID   map[berth.UID]*berth.Object // processing elements
	Planned map[string]bool             // processing elements, by name
	names   map[instance]*history       // what ran under each name
	live    []*berth.Alloc              // that keep running
}

// instance is the name of an instance.
type instance struct {
	group string
	index uint32
}

// history sums up the allocations of one processing element's name.
type history struct {
	busy   bool // one still occupies its node
	placed map[berth.PERef]bool
	ended  uint64       // index at which the last of them ended
	last   *berth.Alloc // the newest that ended and has no successor
}

// NewView returns the view of one incarnation of a stream job.
func NewView(snap *state.Snapshot, uid berth.UID) *View {
	v := &View{snap: snap, row: snap.StreamJob(uid), ByUID: map[berth.UID]*berth.Object{}, Planned: map[string]bool{}}
	if v.row == nil {
		return v
	}
	v.Job, v.Alive = snap.PlannedJob(v.row), snap.AliveStream(v.row)
	for r := range snap.ResourcesOf(uid, berth.KindPE) {
		v.all = append(v.all, r)
		v.ByUID[r.UID] = r
	}
	// Only what the newest plan has may be placed.
	if p := v.row.Plan; p != nil {
		for i := range p.Objects {
			if o := &p.Objects[i]; o.Kind == berth.KindPE {
				v.Planned[o.Name] = true
			}
		}
	}
	return v
}

// Keep records an allocation that the plan leaves as it is.
func (v *View) Keep(a *berth.Alloc) { v.live = append(v.live, a) }

// loadHistory sums up the job's allocations.
func (v *View) loadHistory() {
	v.names = map[instance]*history{}
	for a := range v.snap.AllocsOf(v.row.Key) {
		if a.Job.UID != v.row.UID || a.Orphaned {
			continue
		}
		// By name: launches of an element follow each other under one.
		at := instance{a.Group.Name, a.Index}
		t := v.names[at]
		if t == nil {
			t = &history{placed: map[berth.PERef]bool{}}
			v.names[at] = t
		}
		if ref := a.Rest().PE; ref != nil {
			t.placed[*ref] = true
		}
		switch {
		case a.Occupies():
			t.busy = true
		default:
			t.ended = max(t.ended, a.ModifyIndex)
			if a.Rest().Next.IsZero() && (t.last == nil || older(t.last, a)) {
				t.last = a
			}
		}
	}
}

// older reports whether a was created before b.
func older(a, b *berth.Alloc) bool {
	return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal)) < 0
}

// Waiting is a processing element that waits for a node.
type Waiting struct {
	PE       *berth.Object
	Group    *berth.TaskGroup
	Number   int           // of the group in the job
	Previous berth.AllocID // the allocation it replaces, if any
	Since    uint64        // the state index from which it could be placed
}

// Unplaced returns the processing elements that were launched, have no
// allocation of that launch, and whose earlier allocations have all ended. The
// most constrained come first.
func (v *View) Unplaced() (out []Waiting) {
	v.loadHistory()
	for _, pe := range v.all {
		if !v.Planned[pe.Name] || pe.PE.LaunchIndex == 0 {
			continue
		}
		number := slices.IndexFunc(v.Job.TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == pe.Object.PE.Group })
		if number < 0 || int64(pe.Object.PE.Index) >= int64(v.Job.TaskGroups[number].Count) {
			continue
		}
		w := Waiting{PE: pe, Group: v.Job.TaskGroups[number], Number: number, Since: pe.PE.LaunchIndex}
		// An earlier launch that still runs keeps its name until it has ended.
		if t := v.names[instance{pe.Object.PE.Group, pe.Object.PE.Index}]; t != nil {
			if t.busy || t.placed[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}] {
				continue
			}
			w.Since = max(w.Since, t.ended)
			if t.last != nil {
				w.Previous = t.last.ID
			}
		}
		if v.hasPrerequisites(&w) {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b Waiting) int { return MostConstrained(a.PE, a.Group, b.PE, b.Group) })
	return out
}

// hasPrerequisites reports whether what a processing element needs besides a
// node exists: its pool, and the configuration of its launch. They can be
// missing because a user deleted them or because the job is moving to another
// generation; then they are about to be created, or the element is about to be
// launched again.
func (v *View) hasPrerequisites(w *Waiting) bool {
	c := v.snap.ResourceNamed(v.row.UID, berth.KindConfig, w.PE.Name)
	if c == nil || c.Object.Config.ContentID != w.PE.PE.ContentID {
		return false
	}
	w.Since = max(w.Since, c.CreateIndex)
	if name := w.placement().Pool; name != "" {
		pool := v.snap.ResourceNamed(v.row.UID, berth.KindHostPool, name)
		if pool == nil {
			return false
		}
		w.Since = max(w.Since, pool.CreateIndex)
	}
	return true
}

// placement returns the placement rules of the element.
func (w *Waiting) placement() *berth.PEPlacement {
	if w.Group.Stream == nil {
		return &berth.PEPlacement{}
	}
	return &w.Group.Stream.Placement
}

// MostConstrained compares processing elements: first those that need a node
// alone, then those with most exlocation tags, then by ID.
func MostConstrained(a *berth.Object, of *berth.TaskGroup, b *berth.Object, ofB *berth.TaskGroup) int {
	alone := func(g *berth.TaskGroup) int {
		if g.Stream != nil && g.Stream.Placement.Isolated {
			return 0
		}
		return 1
	}
	apart := func(g *berth.TaskGroup) int {
		if g.Stream == nil {
			return 0
		}
		return len(g.Stream.Placement.Exlocate)
	}
	return cmp.Or(cmp.Compare(alone(of), alone(ofB)), cmp.Compare(apart(ofB), apart(of)), cmp.Compare(a.Object.PE.ID, b.Object.PE.ID))
}

// UnplacedPEs returns the processing elements of a stream job that the
// scheduler would place; none if the job may not run anything.
func UnplacedPEs(snap *state.Snapshot, uid berth.UID) []Waiting {
	v := NewView(snap, uid)
	if !v.Alive {
		return nil
	}
	return v.Unplaced()
}
