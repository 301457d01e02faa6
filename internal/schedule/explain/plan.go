package explain

import (
	"slices"
	"time"

	"berth"
	"berth/internal/diff"
	"berth/internal/schedule"
	"berth/internal/schedule/reconcile"
	"berth/internal/state"
	"berth/op"
)

// DryRun is what would happen to a job if it were registered now.
type DryRun struct {
	Old, New  *berth.Job                    // the current job, nil if it does not exist, and the new one
	Failed    map[string]*berth.AllocMetric // why instances found no place, by group
	Desired   map[string]*op.DesiredUpdates // what the decision counts, by group
	Changes   map[string]op.GroupChanges    // what happens to allocations, by group
	Preempted []*berth.Alloc                // allocations of other jobs, in their current state
	Evals     []*berth.Eval                 // created by the first decision
	Algorithm string                        // that another algorithm would place more; "": none would
}

// Plan applies a registration to a copy of the state and schedules the job
// there. The result is what the registration would do first in this state, if
// ties between nodes are broken the same way. Plan fails where the registration
// would fail. The evaluation gets an ID that depends on the state alone, so two
// plans on one state break ties the same way.
func Plan(snap *state.Snapshot, c *state.RegisterJob, now time.Time) (*DryRun, error) {
	again := *c
	if !again.Eval.ID.IsZero() {
		again.Eval.ID = probe(snap.Index)
	}
	return plan(snap, &again, now)
}

// plan registers the job in a copy of the state, lets the scheduler decide and
// applies its plan there. snap itself does not change. The error is the one
// that registering would give.
func plan(snap *state.Snapshot, c *state.RegisterJob, now time.Time) (*DryRun, error) {
	tx := state.Begin(snap)
	if r := tx.Apply(c); r.Err != nil {
		return nil, r.Err
	}
	j, id, key := c.Job, c.Eval.ID, c.Job.Key()
	d := &DryRun{Old: snap.Job(key), New: tx.Job(key), Desired: map[string]*op.DesiredUpdates{}, Changes: map[string]op.GroupChanges{}}
	switch {
	case j.Stream != nil:
		return d, d.elements(snap, j)
	case id.IsZero(): // it runs nothing itself
		return d, nil
	}
	before := tx.Seal()
	decision, err := schedule.DecideWithin(&schedule.Budget{Most: schedule.Allowance(before, j)}, before, tx.Eval(id), 0, now)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "job %q takes too much work to schedule, and would be quarantined: %w", key, err)
	}
	p := decision.Plan
	if r := tx.Apply(p); r.Err != nil {
		return nil, r.Err
	}
	if len(p.Refused) > 0 {
		return nil, berth.Errorf(berth.Unavailable, "the plan was refused by the state it was made for: %s", p.Refused[0].Reason)
	}
	d.Failed = p.End.Failed
	after := tx.Seal()
	d.Algorithm = algorithmHint(before, j, &decision, sandbox{now: now})
	d.changes(snap, after, key)
	for group, c := range decision.Counts {
		d.Desired[group] = desired(c)
		ch := d.Changes[group]
		ch.Migrated, ch.Queued = min(c.Migrate, ch.Destroyed), p.End.Queued[group]
		d.Changes[group] = ch
	}
	d.notePreempted(snap, p)
	for e := range after.EvalsOf(key) {
		if e.PreviousEval == id {
			d.Evals = append(d.Evals, e)
		}
	}
	slices.SortFunc(d.Evals, func(a, b *berth.Eval) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return d, nil
}

// desired converts the scheduler's counts, in which a replacement is a stop and
// a placement, to those of the API, in which it is one change.
func desired(c *reconcile.Counts) *op.DesiredUpdates {
	less := func(n, part int) uint64 { return uint64(max(0, n-part)) }
	return &op.DesiredUpdates{
		Ignore: uint64(c.Ignore), Place: less(c.Place, c.Replace+c.Migrate+c.Canary), Stop: less(c.Stop, c.Replace+c.Migrate),
		Migrate: uint64(c.Migrate), Canary: uint64(c.Canary), InPlaceUpdate: uint64(c.Update), DestructiveUpdate: uint64(c.Replace),
		RescheduleLater: uint64(c.Later),
	}
}

// changes counts what happened to the job's allocations. Groups of the job
// without any are listed, too.
func (d *DryRun) changes(before, after *state.Snapshot, key berth.JobKey) {
	for _, g := range d.New.TaskGroups {
		d.Changes[g.Name] = op.GroupChanges{}
	}
	for a := range after.AllocsOf(key) {
		ch, was := d.Changes[a.Group.Name], before.Alloc(a.ID)
		switch {
		case was == nil:
			ch.Created++
		case was.Live() && !a.Live():
			ch.Destroyed++
		case !a.Live():
			continue
		case was.Job != a.Job:
			ch.Updated++
		default:
			ch.Kept++
		}
		d.Changes[a.Group.Name] = ch
	}
}

// notePreempted records the preempted allocations and counts them for the
// groups that preempt them.
func (d *DryRun) notePreempted(before *state.Snapshot, p *state.ApplyPlan) {
	for _, place := range p.Place {
		if len(place.Evict) == 0 {
			continue
		}
		group := d.New.TaskGroups[place.Group].Name
		ch := d.Changes[group]
		ch.Evicted += len(place.Evict)
		d.Changes[group] = ch
		if u := d.Desired[group]; u != nil {
			u.Preemptions += uint64(len(place.Evict))
		}
		for _, id := range place.Evict {
			if a := before.Alloc(id); a != nil {
				d.Preempted = append(d.Preempted, a)
			}
		}
	}
}

// Diff returns the difference between the current and the new job, with its
// consequences.
func (d *DryRun) Diff() *diff.JobDiff {
	out := diff.Jobs(d.Old, d.New)
	for _, g := range out.TaskGroups {
		if u := d.Desired[g.Name]; u != nil {
			g.Updates = updates(u)
		}
		for _, f := range g.Fields {
			if f.Name == "Count" {
				f.Annotations = countForces(f)
			}
		}
		for _, t := range g.Tasks {
			if why := d.taskForces(g, t); why != "" {
				t.Annotations = []string{why}
			}
		}
	}
	return out
}

// The consequences of a difference.
const (
	forcesCreate  = "forces create"
	forcesDestroy = "forces destroy"
	forcesReplace = "forces create/destroy update"
	forcesInPlace = "forces in-place update"
)

// countForces returns the consequences of a changed count.
func countForces(f *diff.FieldDiff) []string {
	old, new := number(f.Old), number(f.New)
	switch {
	case new > old:
		return []string{forcesCreate}
	case new < old:
		return []string{forcesDestroy}
	}
	return nil
}

// number reads a count in a diff.
func number(s string) (n int) {
	for _, c := range s {
		n = 10*n + int(c-'0') // counts are written by us, and are not below 0
	}
	return n
}

// taskForces returns what the change of a task does to its allocations, in the
// words of Nomad's plan; "" if the task does not change.
func (d *DryRun) taskForces(g *diff.GroupDiff, t *diff.TaskDiff) string {
	switch {
	case t.Type == diff.None:
		return ""
	case g.Type == diff.Added:
		return forcesCreate
	case g.Type == diff.Deleted:
		return forcesDestroy
	case t.Type != diff.Edited:
		return forcesReplace
	case reconcile.Replaces(d.Old.Group(g.Name).Task(t.Name), d.New.Group(g.Name).Task(t.Name)):
		return forcesReplace
	}
	return forcesInPlace
}

// updates returns the counts of a group by the names that people read.
func updates(u *op.DesiredUpdates) map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range map[string]uint64{
		"ignore": u.Ignore, "create": u.Place, "destroy": u.Stop, "migrate": u.Migrate, "canary": u.Canary,
		"in-place update": u.InPlaceUpdate, "create/destroy update": u.DestructiveUpdate, "preempt": u.Preemptions,
	} {
		if n > 0 {
			out[name] = n
		}
	}
	return out
}
