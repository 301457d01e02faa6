package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/op"
)

// whatIfDecisions bounds the work of trying a failure: as much as this many
// decisions of the most demanding job may take.
const whatIfDecisions = 64

// failure is a failure of nodes that is tried in a copy of the state.
type failure struct {
	sandbox
	before *state.Snapshot
	tried  map[berth.JobKey]bool
	why    map[berth.JobKey]map[string]*berth.AllocMetric // why instances found no place, by group
	left   int64                                          // steps that may still be taken
}

// WhatIf tells what would become of the allocations of nodes if all of these went
// down at once: the nodes go down in a copy of the state, and each job that is
// concerned is scheduled there, the most urgent first, and then those that it
// preempts. visible reports whether a namespace may be shown.
func WhatIf(snap *state.Snapshot, nodes []*berth.Node, visible func(namespace string) bool, now time.Time) (*op.WhatIf, error) {
	f := &failure{sandbox: sandbox{snap: snap, now: now}, before: snap, tried: map[berth.JobKey]bool{}, why: map[berth.JobKey]map[string]*berth.AllocMetric{}}
	out := &op.WhatIf{Index: snap.Index, Names: []string{}, Groups: []op.WhatIfGroup{}}
	lost, jobs := map[berth.AllocID]bool{}, map[berth.JobKey]*berth.Job{}
	var down []state.Command
	for _, n := range nodes {
		if n.Status == berth.NodeDown {
			continue
		}
		if out.Nodes++; len(out.Names) < op.MaxWhatIfNames {
			out.Names = append(out.Names, n.Name)
		}
		for a := range snap.AllocsOn(n.ID) {
			if !a.Live() || a.Orphaned {
				continue
			}
			out.Allocs++
			j := snap.Job(a.Key())
			switch {
			case j == nil || j.UID != a.Job.UID:
			case j.PerNode():
				out.Bound++
			default:
				lost[a.ID], jobs[j.Key()] = true, j
			}
		}
		down = append(down, &state.SetNodeStatus{ID: n.ID, Status: berth.NodeDown, Seed: [16]byte(n.ID), Now: now.UnixNano()})
	}
	w, ok := f.with(down...)
	if !ok {
		return nil, berth.Errorf(berth.Unavailable, "the nodes cannot be taken down in a copy of the state at index %d", snap.Index)
	}
	f.sandbox = w
	f.decideAll()
	f.sum(out, jobs, lost, visible)
	return out, nil
}

// decideAll decides what the failure raised, and what these decisions raise, until
// nothing is due or the work is used up.
func (f *failure) decideAll() {
	for len(f.tried) < op.MaxWhatIfJobs {
		e := f.next()
		if e == nil {
			return
		}
		job := f.snap.Job(e.Key())
		allowed := schedule.Allowance(f.snap, job)
		if len(f.tried) == 0 {
			f.left = whatIfDecisions * allowed
		}
		f.tried[e.Key()] = true
		budget := schedule.Budget{Most: min(allowed, f.left)}
		d, err := schedule.DecideWithin(&budget, f.snap, e, 0, f.now)
		if f.left -= budget.Spent(); err != nil {
			delete(f.tried, e.Key())
			if f.left <= 0 {
				return
			}
			f.tried[e.Key()] = false // it is not tried again
			continue
		}
		if w, ok := f.with(d.Plan); ok {
			f.sandbox = w
			f.why[e.Key()] = d.Plan.End.Failed
		} else {
			f.tried[e.Key()] = false
		}
	}
}

// next returns the most urgent evaluation that the failure raised of a job that
// was not looked at, nil if there is none.
func (f *failure) next() (best *berth.Eval) {
	for e := range f.snap.OpenEvals(berth.EvalPending) {
		_, known := f.tried[e.Key()]
		if known || e.CreateIndex <= f.before.Index || e.WaitUntil > f.now.UnixNano() || e.Type == berth.TypeCore || e.Type == berth.TypeStream {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(best.Priority, e.Priority), cmp.Compare(e.CreateIndex, best.CreateIndex), slices.Compare(e.ID[:], best.ID[:])) < 0 {
			best = e
		}
	}
	return best
}

// instances counts the live allocations of a job, by group: those that are to run
// on, on nodes that are not down.
func instances(snap *state.Snapshot, key berth.JobKey) map[string]int {
	out := map[string]int{}
	for a := range snap.AllocsOf(key) {
		if n := snap.Node(a.NodeID); a.Live() && !a.Orphaned && n != nil && n.Status != berth.NodeDown {
			out[a.Group.Name]++
		}
	}
	return out
}

// sum compares the state before with the one after. jobs are those that have
// allocations on the nodes.
func (f *failure) sum(out *op.WhatIf, jobs map[berth.JobKey]*berth.Job, lost map[berth.AllocID]bool, visible func(string) bool) {
	for key := range jobs {
		if !f.tried[key] {
			out.NotTried++
		}
	}
	for key, ok := range f.tried { // also those that were preempted
		j := f.before.Job(key)
		if !ok || j == nil || j.PerNode() {
			continue
		}
		was, is := instances(f.before, key), instances(f.snap, key)
		for _, g := range j.TaskGroups {
			n := was[g.Name] - is[g.Name]
			if n <= 0 {
				continue
			}
			if out.Lost += n; !visible(key.Namespace) {
				out.Hidden += n
				continue
			}
			out.Groups = append(out.Groups, op.WhatIfGroup{Namespace: key.Namespace, JobID: key.ID, Group: g.Name, Lost: n, Of: g.Count, Why: lack(f.why[key][g.Name])})
		}
	}
	for id := range lost {
		if f.tried[f.before.Alloc(id).Key()] {
			out.Moved++
		}
	}
	out.Moved = max(0, out.Moved-out.Lost)
	slices.SortFunc(out.Groups, func(a, b op.WhatIfGroup) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Group, b.Group))
	})
	if more := len(out.Groups) - op.MaxWhatIfGroups; more > 0 {
		out.Groups, out.More = out.Groups[:op.MaxWhatIfGroups], more
	}
}

// lack returns in a few words what a group did not find.
func lack(m *berth.AllocMetric) string {
	if m == nil {
		return "it is placed again later, or preempted"
	}
	if len(m.Shortages) > 0 {
		s := m.Shortages[0]
		return strings.Join(strings.Fields(fmt.Sprintf("%s: %d %s asked, at most %d free", s.Dimension, s.Wanted, s.Unit, s.Free)), " ")
	}
	best := ""
	for c := range m.ConstraintFiltered {
		if best == "" || m.ConstraintFiltered[c] > m.ConstraintFiltered[best] || m.ConstraintFiltered[c] == m.ConstraintFiltered[best] && c < best {
			best = c
		}
	}
	switch {
	case best != "":
		return "no node is left that meets " + best
	case len(m.QuotaExhausted) > 0:
		return "the namespace's quota has no room"
	}
	return "no node is left that is ready"
}
