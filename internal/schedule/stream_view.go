package schedule

import (
	"cmp"
	"slices"

	"berth"
	"berth/internal/state"
)

// streamView is what a decision about a stream job goes by.
type streamView struct {
	snap    *state.Snapshot
	job     *berth.Job       // the version that is placed; nil if the incarnation is gone
	row     *berth.StreamJob // nil if it has none
	alive   bool             // it may run something
	all     []*berth.Resource
	byUID   map[berth.UID]*berth.Resource
	planned map[string]bool // processing elements, by name
	names   map[seat]*tenure
	live    []*berth.Alloc // that stay
}

// seat is the name of an instance.
type seat struct {
	group string
	index uint32
}

// tenure is what is known of the allocations of one processing element's name.
type tenure struct {
	busy   bool // one occupies a node
	placed map[berth.PERef]bool
	ended  uint64       // index at which the last of them ended
	last   *berth.Alloc // the newest that ended and that nothing follows
}

// viewStream looks at one incarnation of a stream job.
func viewStream(snap *state.Snapshot, uid berth.UID) *streamView {
	v := &streamView{snap: snap, row: snap.StreamJob(uid), byUID: map[berth.UID]*berth.Resource{}, planned: map[string]bool{}}
	if v.row == nil {
		return v
	}
	v.job, v.alive = snap.PlannedJob(v.row), snap.AliveStream(v.row)
	for r := range snap.ResourcesOf(uid, berth.KindPE) {
		v.all = append(v.all, r)
		v.byUID[r.UID] = r
	}
	if p := v.row.Plan; p != nil {
		for i := range p.Objects {
			if o := &p.Objects[i]; o.Kind == berth.KindPE {
				v.planned[o.Name] = true
			}
		}
	}
	return v
}

// stays notes an allocation that the plan leaves as it is.
func (v *streamView) stays(a *berth.Alloc) { v.live = append(v.live, a) }

// tenures looks at the job's allocations, once.
func (v *streamView) tenures() {
	v.names = map[seat]*tenure{}
	for a := range v.snap.AllocsOf(v.row.Key) {
		if a.Job.UID != v.row.UID || a.Orphaned {
			continue
		}
		at := seat{a.Group.Name, a.Index}
		t := v.names[at]
		if t == nil {
			t = &tenure{placed: map[berth.PERef]bool{}}
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

func older(a, b *berth.Alloc) bool {
	return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal)) < 0
}

// waiting is a processing element that wants a place.
type waiting struct {
	pe       *berth.Resource
	group    *berth.TaskGroup
	number   int           // of the group in the job
	previous berth.AllocID // what it follows on
	since    uint64        // the index since which it can be placed
}

// unplaced returns the processing elements that were launched and have no
// allocation of that launch, once all of their name have ended: those with most
// conditions first.
func (v *streamView) unplaced() (out []waiting) {
	v.tenures()
	for _, pe := range v.all {
		if !v.planned[pe.Name] || pe.PE.LaunchIndex == 0 {
			continue
		}
		number := slices.IndexFunc(v.job.TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == pe.Object.PE.Group })
		if number < 0 || int64(pe.Object.PE.Index) >= int64(v.job.TaskGroups[number].Count) {
			continue
		}
		w := waiting{pe: pe, group: v.job.TaskGroups[number], number: number, since: pe.PE.LaunchIndex}
		if t := v.names[seat{pe.Object.PE.Group, pe.Object.PE.Index}]; t != nil {
			if t.busy || t.placed[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}] {
				continue
			}
			w.since = max(w.since, t.ended)
			if t.last != nil {
				w.previous = t.last.ID
			}
		}
		if v.equip(&w) {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b waiting) int { return MostConstrained(a.pe, a.group, b.pe, b.group) })
	return out
}

// equip says whether what a processing element needs beside a node is there: its
// pool, and the configuration that it was launched with. A user may have deleted
// them, or the job be on its way to another generation; then they are about to
// be made, or it is about to be launched.
func (v *streamView) equip(w *waiting) bool {
	c := v.snap.ResourceNamed(v.row.UID, berth.KindConfig, w.pe.Name)
	if c == nil || c.Object.Config.ContentID != w.pe.PE.ContentID {
		return false
	}
	w.since = max(w.since, c.CreateIndex)
	if name := w.placement().Pool; name != "" {
		pool := v.snap.ResourceNamed(v.row.UID, berth.KindHostPool, name)
		if pool == nil {
			return false
		}
		w.since = max(w.since, pool.CreateIndex)
	}
	return true
}

// placement returns the conditions on its node.
func (w *waiting) placement() *berth.PEPlacement {
	if w.group.Stream == nil {
		return &berth.PEPlacement{}
	}
	return &w.group.Stream.Placement
}

// MostConstrained orders processing elements: those that want a node alone, then
// those that are to be apart from most others, then by ID.
func MostConstrained(a *berth.Resource, of *berth.TaskGroup, b *berth.Resource, ofB *berth.TaskGroup) int {
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

// Unplaced is a processing element for which an evaluation is to find a place.
type Unplaced struct {
	PE    *berth.Resource
	Since uint64 // the state index since which it can be placed
}

// UnplacedPEs returns the processing elements of a stream job that the scheduler
// would look for a place for: of a job that may not run anything, none.
func UnplacedPEs(snap *state.Snapshot, uid berth.UID) (out []Unplaced) {
	v := viewStream(snap, uid)
	if !v.alive {
		return nil
	}
	for _, w := range v.unplaced() {
		out = append(out, Unplaced{w.pe, w.since})
	}
	return out
}
