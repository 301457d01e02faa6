package schedule

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/limit"
	"berth/internal/state"
)

// Ages holds how long ended objects are kept for people to look at. Names and
// defaults are those of Nomad's configuration.
type Ages struct {
	Evals       time.Duration // and the allocations of services
	BatchEvals  time.Duration // and the allocations of batch jobs
	Jobs        time.Duration // dead, with all that belongs to them
	Nodes       time.Duration // down
	Deployments time.Duration
}

// DefaultAges are a server's defaults.
var DefaultAges = Ages{Evals: time.Hour, BatchEvals: 24 * time.Hour, Jobs: 4 * time.Hour, Nodes: 24 * time.Hour, Deployments: time.Hour}

// EvalsPerJob is how many ended evaluations of a job are kept: of more, the
// oldest are deleted before they reach their age. A job that is registered again
// and again would otherwise fill the memory of the servers.
const EvalsPerJob = 1000

var _ = limit.Declare(limit.Info{
	Name: "evaluations_per_job", Of: "Ended evaluations of a job that are kept for people to look at", Unit: limit.Count, Default: EvalsPerJob,
	Beyond: "the oldest that nothing needs are collected before they reach their age",
})

// Collected is the decision of a core evaluation.
type Collected struct {
	// Delete lists the rows to delete, in this order: rows in a later command
	// can keep rows in an earlier one alive.
	Delete []*state.DeleteRows
	// Orphans are the deletions of objects that deleted stream jobs left to
	// themselves. They follow the rows.
	Orphans []*state.DeleteResource
	// More reports that there was more to delete than the limit allows.
	More bool
}

// Collect decides what a core evaluation deletes: what ended longer ago than
// its age and is no longer needed, or, if forced, everything that is no longer
// needed. Core evaluations themselves always keep their age, so that people can
// look at them. Collect scans all rows once and chooses about most rows at
// most; a job and what belongs to it is never split.
func Collect(snap *state.Snapshot, ages Ages, force bool, now time.Time, most int) Collected {
	c := newCollector(snap, ages, force, now, most)
	for _, step := range c.steps() {
		if !step() {
			return Collected{c.cut(), c.left, true}
		}
	}
	return Collected{Delete: c.cut(), Orphans: c.left}
}

// Collectable reports whether a core evaluation would delete anything besides
// older core evaluations. Those alone are no reason to create another.
func Collectable(snap *state.Snapshot, ages Ages, now time.Time) bool {
	c := newCollector(snap, ages, false, now, 1)
	c.skipCore = true
	for _, step := range c.steps() {
		if !step() || c.chosen > 0 {
			return true
		}
	}
	return false
}

// collector is one run of Collect: it chooses rows in bundles and cuts them
// into commands at the end.
type collector struct {
	sweep    *state.Sweep
	ages     Ages
	force    bool     // age does not matter, except of core evaluations
	skipCore bool     // core evaluations are not considered
	now      int64    // Unix nanoseconds
	limit    int      // rows after which to stop
	chosen   int      // rows so far
	bundles  []bundle // in the order in which they were found
	left     []*state.DeleteResource
}

// bundle is a set of rows that go into the same command if it can hold them.
type bundle []func(*state.DeleteRows)

// newCollector returns a collector that stops soon after it has chosen most
// rows.
func newCollector(snap *state.Snapshot, ages Ages, force bool, now time.Time, most int) *collector {
	return &collector{sweep: state.NewSweep(snap), ages: ages, force: force, now: now.UnixNano(), limit: most}
}

// steps returns the choices in their order. Each reports whether it looked at all
// rows.
func (c *collector) steps() []func() bool {
	return []func() bool{c.jobs, c.allocs, c.evals, c.deployments, c.nodes, c.orphans}
}

// oldEnough reports whether an object that ended at that time has reached its
// age.
func (c *collector) oldEnough(ended int64, age time.Duration) bool {
	return c.force || ended <= c.now-int64(age)
}

// add chooses the rows of a bundle, which may exceed the limit.
func (c *collector) add(p bundle) {
	c.chosen += len(p)
	c.bundles = append(c.bundles, p)
}

// full reports whether enough rows are chosen for one run.
func (c *collector) full() bool { return c.chosen >= c.limit }

// age returns how long evaluations and allocations of a job type are kept.
func (c *collector) age(typ string) time.Duration {
	if typ == berth.TypeBatch || typ == berth.TypeSysbatch {
		return c.ages.BatchEvals
	}
	return c.ages.Evals
}

// jobs chooses dead jobs with all that belongs to them. Like the four methods
// below it reports whether it looked at all rows.
func (c *collector) jobs() bool {
	for j := range c.sweep.Jobs(berth.AllNamespaces, "") {
		// Cheap checks first: most jobs are not dead.
		if !c.oldEnough(j.SubmitTime, c.ages.Jobs) || c.sweep.Summary(j.Key()).Live > 0 || !c.oldEnough(c.diedAt(j), c.ages.Jobs) || c.sweep.Job(j) != "" {
			continue
		}
		c.add(c.jobBundle(j))
		if c.full() {
			return false
		}
	}
	return true
}

// diedAt returns the time of the last change of a dead job, in Unix
// nanoseconds.
func (c *collector) diedAt(j *berth.Job) int64 {
	at := j.SubmitTime
	for a := range c.sweep.AllocsOf(j.Key()) {
		at = max(at, a.ModifyTime)
	}
	for e := range c.sweep.EvalsOf(j.Key()) {
		at = max(at, e.ModifyTime)
	}
	return at
}

// jobBundle returns a job with everything that belongs to it.
func (c *collector) jobBundle(j *berth.Job) bundle {
	p := bundle{func(d *state.DeleteRows) { d.Jobs = append(d.Jobs, state.JobRef{Key: j.Key(), UID: j.UID}) }}
	for _, a := range slices.SortedFunc(c.sweep.AllocsOf(j.Key()), func(a, b *berth.Alloc) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
	}) {
		if a.Job.UID == j.UID && c.sweep.Alloc(a) == "" {
			p = append(p, c.alloc(a))
		}
	}
	for _, e := range slices.SortedFunc(c.sweep.EvalsOf(j.Key()), olderEval) {
		if e.JobUID == j.UID && c.sweep.Eval(e) == "" {
			p = append(p, c.eval(e))
		}
	}
	for d := range c.sweep.DeploymentsOf(j.Key()) {
		if d.JobUID == j.UID && c.sweep.Deployment(d) == "" {
			p = append(p, c.deployment(d))
		}
	}
	return p
}

// olderEval compares by age. Evaluations of one index are in order of ID, so
// that equal states delete in equal order.
func olderEval(a, b *berth.Eval) int {
	return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), strings.Compare(string(a.ID[:]), string(b.ID[:])))
}

// alloc returns what adds the allocation to a command.
func (c *collector) alloc(a *berth.Alloc) func(*state.DeleteRows) {
	return func(d *state.DeleteRows) { d.Allocs = append(d.Allocs, a.ID) }
}

// eval returns what adds the evaluation to a command.
func (c *collector) eval(e *berth.Eval) func(*state.DeleteRows) {
	return func(d *state.DeleteRows) { d.Evals = append(d.Evals, e.ID) }
}

// deployment returns what adds the deployment to a command.
func (c *collector) deployment(x *berth.Deployment) func(*state.DeleteRows) {
	return func(d *state.DeleteRows) { d.Deployments = append(d.Deployments, x.ID) }
}

// choose adds rows that are old enough and free, one by one, until the limit is
// reached. It reports whether all rows were looked at.
func choose[T any](c *collector, rows iter.Seq[*T], old func(*T) bool, free func(*T) string, row func(*T) func(*state.DeleteRows)) bool {
	for r := range rows {
		if !old(r) || free(r) != "" {
			continue
		}
		c.add(bundle{row(r)})
		if c.full() {
			return false
		}
	}
	return true
}

// allocs chooses allocations that have ended, of jobs that stay.
func (c *collector) allocs() bool {
	return choose(c, c.sweep.Allocs(), func(a *berth.Alloc) bool {
		return a.Ended() && c.oldEnough(a.ModifyTime, c.age(a.Job.Type)) && !c.sweep.Took(a.ID) && !awaitsData(c.sweep.Snapshot.Alloc(a.Rest().Next))
	}, c.sweep.Alloc, c.alloc)
}

// awaitsData reports whether a replacement, nil for none, has yet to take over the
// data of the disk. The agent removes the data with the allocation that has it.
func awaitsData(next *berth.Alloc) bool {
	if next == nil || !next.Wanted() || next.Client != berth.ClientPending {
		return false
	}
	d := next.Group.EphemeralDisk
	return d != nil && d.Sticky
}

// evals chooses evaluations that are done. Core evaluations must be old enough
// even in a forced run.
func (c *collector) evals() bool {
	crowded := c.crowded()
	return choose(c, c.sweep.Evals(), func(e *berth.Eval) bool {
		switch {
		case !e.Terminal() || c.sweep.TookEval(e.ID):
			return false
		case crowded[e.Key()] != nil && olderEval(e, crowded[e.Key()]) < 0:
			return true
		case e.Type == berth.TypeCore:
			return !c.skipCore && e.ModifyTime <= c.now-int64(c.ages.Evals)
		}
		return c.oldEnough(e.ModifyTime, c.age(e.Type))
	}, c.sweep.Eval, c.eval)
}

// crowded returns, for each job with more than EvalsPerJob ended evaluations,
// the oldest one to keep.
func (c *collector) crowded() map[berth.JobKey]*berth.Eval {
	ended := map[berth.JobKey]int{}
	for e := range c.sweep.Evals() {
		if e.Terminal() && e.Type != berth.TypeCore {
			ended[e.Key()]++
		}
	}
	oldest := map[berth.JobKey]*berth.Eval{}
	for key, n := range ended {
		if n <= EvalsPerJob {
			continue
		}
		list := make([]*berth.Eval, 0, n)
		for e := range c.sweep.EvalsOf(key) {
			if e.Terminal() && e.Type != berth.TypeCore {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, olderEval)
		oldest[key] = list[len(list)-EvalsPerJob]
	}
	return oldest
}

// deployments chooses deployments that are over.
func (c *collector) deployments() bool {
	return choose(c, c.sweep.Deployments(), func(d *berth.Deployment) bool {
		return !d.Active() && c.oldEnough(d.ModifyTime, c.ages.Deployments) && !c.sweep.TookDeployment(d.ID)
	}, c.sweep.Deployment, c.deployment)
}

// nodes chooses nodes that are down and free of allocations. StatusUpdatedAt is
// in seconds, the other times are in nanoseconds.
func (c *collector) nodes() bool {
	return choose(c, c.sweep.Nodes(), func(n *berth.Node) bool {
		return n.Status == berth.NodeDown && c.oldEnough(n.StatusUpdatedAt*int64(time.Second), c.ages.Nodes)
	}, c.sweep.Node, func(n *berth.Node) func(*state.DeleteRows) {
		return func(d *state.DeleteRows) { d.Nodes = append(d.Nodes, n.ID) }
	})
}

// orphans chooses objects that deleted stream jobs left to themselves and that
// nothing uses any more. They have no age: they go when the last allocation that
// they belonged to is deleted, which has one.
func (c *collector) orphans() bool {
	for r := range c.sweep.OrphanedResources() {
		if c.sweep.Orphan(r) != "" {
			continue
		}
		c.left = append(c.left, &state.DeleteResource{UID: r.UID, Propagation: berth.Background, Now: c.now})
		if c.chosen++; c.full() {
			return false
		}
	}
	return true
}

// cut packs the chosen rows into commands that stay within [state.MaxDeletes].
func (c *collector) cut() (out []*state.DeleteRows) {
	var d *state.DeleteRows
	for _, p := range c.bundles {
		for i, row := range p {
			// A bundle that fits into one command, but not into the rest of
			// this one, starts the next.
			whole := i == 0 && len(p) <= state.MaxDeletes && d != nil && d.Len()+len(p) > state.MaxDeletes
			if d == nil || whole || d.Len() == state.MaxDeletes {
				d = &state.DeleteRows{}
				out = append(out, d)
			}
			row(d)
		}
	}
	return out
}

// Tally counts deleted rows.
type Tally struct{ Jobs, Allocs, Evals, Deployments, Nodes, Objects int }

// Add counts the rows of a command.
func (t *Tally) Add(d *state.DeleteRows) {
	t.Jobs += len(d.Jobs)
	t.Allocs += len(d.Allocs)
	t.Evals += len(d.Evals)
	t.Deployments += len(d.Deployments)
	t.Nodes += len(d.Nodes)
}

// String returns what was deleted, as the description of a core evaluation.
func (t Tally) String() string {
	var parts []string
	for _, x := range []struct {
		n         int
		one, many string
	}{
		{t.Jobs, "job", "jobs"}, {t.Allocs, "allocation", "allocations"}, {t.Evals, "evaluation", "evaluations"},
		{t.Deployments, "deployment", "deployments"}, {t.Nodes, "node", "nodes"}, {t.Objects, "orphaned object", "orphaned objects"},
	} {
		switch {
		case x.n == 1:
			parts = append(parts, "1 "+x.one)
		case x.n > 1:
			parts = append(parts, fmt.Sprint(x.n, " ", x.many))
		}
	}
	if parts == nil {
		return "found nothing to delete"
	}
	return "deleted " + strings.Join(parts, ", ")
}
