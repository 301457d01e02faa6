// Package invariant says what must hold of any state, whatever happened to it.
// It reads one snapshot and recounts from the rows what the state keeps by
// delta. Tests, the simulator, the fault runner and the offline check of a
// saved snapshot ask this one list. The names I-… are those of the project's
// list of invariants.
package invariant

import (
	"fmt"

	"berth"
	"berth/state"
)

// Violation is an invariant that does not hold.
type Violation struct {
	ID   string // I-08
	Text string
}

func (v Violation) String() string { return v.ID + ": " + v.Text }

// checker collects violations of one snapshot.
type checker struct {
	*state.Snapshot
	found []Violation
}

func (c *checker) addf(id, format string, args ...any) {
	c.found = append(c.found, Violation{id, fmt.Sprintf(format, args...)})
}

// Check returns what does not hold of the snapshot; nil if all is well.
func Check(s *state.Snapshot) []Violation {
	c := &checker{Snapshot: s}
	c.evals()
	c.capacity()
	c.allocs()
	c.jobs()
	c.nodes()
	c.pools()
	c.services()
	c.evictions()
	c.children()
	c.deployments()
	return c.found
}

// evals checks I-01 (legal statuses), I-04 (one blocked evaluation a job, with
// a reason), I-06 (causes, and pointers between evaluations in both
// directions) and I-07 (one follow-up).
func (c *checker) evals() {
	blocked := map[string]berth.EvalID{}
	followed := map[berth.EvalID]berth.EvalID{}
	for e := range c.Evals() {
		switch e.Status {
		case berth.EvalPending, berth.EvalComplete, berth.EvalFailed, berth.EvalCanceled:
		case berth.EvalBlocked:
			k := e.Key().String() + e.JobUID.Text('j')
			if berth.PerNode(e.Type) { // what lacks room waits node by node
				k += e.NodeID.String()
			}
			if other, ok := blocked[k]; ok {
				c.addf("I-04", "job %s has the blocked evaluations %s and %s", e.Key(), other, e.ID)
			}
			blocked[k] = e.ID
			if len(e.FailedTGAllocs) == 0 && e.TriggeredBy != berth.TriggerMaxPlanAttempts {
				c.addf("I-04", "blocked evaluation %s has no reason", e.ID)
			}
			if j := c.Job(e.Key()); j == nil || j.UID != e.JobUID || j.Stop {
				c.addf("I-04", "evaluation %s is blocked, and job %s does not want anything", e.ID, e.Key())
			}
		default:
			c.addf("I-01", "evaluation %s has the status %q", e.ID, e.Status)
		}
		if e.Cause.Kind == "" {
			c.addf("I-06", "evaluation %s has no cause", e.ID)
		}
		c.follows(e, e.NextEval, "NextEval")
		c.follows(e, e.BlockedEval, "BlockedEval")
		c.descent(e)
		if e.TriggeredBy == berth.TriggerFailedFollowUp && !e.PreviousEval.IsZero() {
			if other, ok := followed[e.PreviousEval]; ok {
				c.addf("I-07", "evaluation %s has the follow-ups %s and %s", e.PreviousEval, other, e.ID)
			}
			followed[e.PreviousEval] = e.ID
		}
		if d := e.DeploymentID; !d.IsZero() && c.Deployment(d) == nil && c.lives(e.Key(), e.JobUID) {
			c.addf("I-11", "evaluation %s is about deployment %s, which is not there", e.ID, d)
		}
	}
}

// descent checks that the story of an evaluation can be walked back: to the
// one that it came of, as long as that is there, and never in a circle.
func (c *checker) descent(e *berth.Eval) {
	if descends(e) && e.PreviousEval.IsZero() {
		c.addf("I-06", "evaluation %s was raised by %s and comes of none", e.ID, e.TriggeredBy)
	}
	if e.Cause.Kind == berth.CauseEval && e.Cause.ID != e.PreviousEval.String() {
		c.addf("I-06", "evaluation %s is caused by %s and comes of %s", e.ID, e.Cause.ID, e.PreviousEval)
	}
	p := c.Eval(e.PreviousEval)
	switch {
	case p == nil:
	case p.CreateIndex >= e.CreateIndex:
		c.addf("I-06", "evaluation %s comes of %s, which is younger", e.ID, p.ID)
	case p.Key() != e.Key():
		c.addf("I-06", "evaluation %s of job %s comes of %s of job %s", e.ID, e.Key(), p.ID, p.Key())
	case descends(e) && berth.PerNode(e.Type) && !e.NodeID.IsZero() && e.TriggeredBy == berth.TriggerQueuedAllocs:
		if p.BlockedEval.IsZero() { // it points to one of those that came of it with this one
			c.addf("I-06", "evaluation %s comes of %s, which does not point to anything that waits for a node", e.ID, p.ID)
		}
	case descends(e) && p.NextEval != e.ID && p.BlockedEval != e.ID:
		c.addf("I-06", "evaluation %s comes of %s, which does not point to it", e.ID, p.ID)
	}
}

func (c *checker) follows(e *berth.Eval, to berth.EvalID, pointer string) {
	if to.IsZero() {
		return
	}
	next := c.Eval(to)
	switch {
	case next == nil:
		c.addf("I-06", "%s of evaluation %s points to %s, which is not there", pointer, e.ID, to)
	case next.PreviousEval != e.ID:
		c.addf("I-06", "%s of evaluation %s points to %s, which follows %s", pointer, e.ID, to, next.PreviousEval)
	case next.Key() != e.Key():
		c.addf("I-06", "%s of evaluation %s leads from job %s to %s", pointer, e.ID, e.Key(), next.Key())
	}
}

// capacity checks I-08 (no node over its room) and I-09 (no port, core or device
// given out twice), and that the usage columns are what a recount finds.
func (c *checker) capacity() {
	for n := range c.Nodes() {
		var used berth.Ask
		var allocs uint32
		holder := map[thing]berth.AllocID{}
		for a := range c.AllocsOn(n.ID) {
			if !a.Occupies() {
				continue
			}
			allocs++
			used = used.Add(takes(n, a))
			for _, x := range held(n, a) {
				if other, ok := holder[x]; ok && !c.handsOver(other, a.ID) {
					c.addf("I-09", "%s of node %s is held by %s and %s", x, n.ID, other, a.ID)
				}
				holder[x] = a.ID
			}
		}
		used = used.Sub(c.heldOnce(n))
		u := c.Usage(n.Number)
		if used != u.Used || allocs != u.Allocs {
			c.addf("I-08", "the columns say node %s has %d allocations using %+v; they are %d using %+v", n.ID, u.Allocs, u.Used, allocs, used)
		}
		if why := u.Overcommitted(); why != "" {
			c.addf("I-08", "node %s is overcommitted: %s", n.ID, why)
		}
		c.columns(n, u, holder)
	}
}

// allocs checks I-05 (nothing is placed twice), I-11 and I-12 (references),
// I-15 (names), I-17 (chains) and I-19 (one a node).
func (c *checker) allocs() {
	type name struct {
		uid   berth.UID
		group string
		index uint32
		node  berth.NodeID // of a job that runs on every node
		// A canary shares the name with what it is to replace, until a plan
		// after its promotion stops that.
		canary   bool
		promoted berth.DeploymentID
	}
	nameOf := func(a *berth.Alloc) name {
		k := name{uid: a.Job.UID, group: a.Group.Name, index: a.Index, canary: canary(a), promoted: c.promoted(a)}
		if a.Job.PerNode() {
			k.node = a.NodeID
		}
		return k
	}
	live := map[name]berth.AllocID{}
	type placing struct {
		eval  berth.EvalID
		index uint64
		name
	}
	made := map[placing]berth.AllocID{}
	for a := range c.Allocs() {
		if a.Job == nil || a.Group == nil || a.Job.Group(a.Group.Name) != a.Group {
			c.addf("I-12", "allocation %s is not of a group of its job", a.ID)
			continue
		}
		c.unknown(a)
		// One that was replaced while it was unknown left the name to its
		// replacement, and when it comes back one of the two has to go.
		if a.Live() && !a.Orphaned && (a.Rest().Next.IsZero() || a.Job.PerNode()) {
			k := nameOf(a)
			if other, ok := live[k]; ok && a.Job.PerNode() {
				c.addf("I-19", "node %s runs %s twice: %s and %s", a.NodeID, a.Name(), other, a.ID)
			} else if ok {
				c.addf("I-15", "%s is the name of %s and %s", a.Name(), other, a.ID)
			}
			live[k] = a.ID
			if int(a.Index) >= a.Group.Count {
				c.addf("I-15", "%s has an index that its group's count, %d, does not reach", a.Name(), a.Group.Count)
			}
		}
		once := placing{a.EvalID, a.CreateIndex, nameOf(a)}
		if other, ok := made[once]; ok {
			c.addf("I-05", "evaluation %s placed %s twice: %s and %s", a.EvalID, a.Name(), other, a.ID)
		}
		made[once] = a.ID
		if d := a.Rest().DeploymentID; !d.IsZero() && c.Deployment(d) == nil && c.lives(a.Key(), a.Job.UID) {
			c.addf("I-11", "allocation %s is of deployment %s, which is not there", a.ID, d)
		}
		if prev := a.Rest().Previous; !prev.IsZero() {
			if p := c.Alloc(prev); p != nil && p.Rest().Next != a.ID {
				c.addf("I-17", "allocation %s replaces %s, which points to %s", a.ID, prev, p.Rest().Next)
			}
		}
		if c.Eval(a.EvalID) == nil {
			c.addf("I-12", "allocation %s is of evaluation %s, which is not there", a.ID, a.EvalID)
		}
		if f := a.Rest().FollowupEval; !f.IsZero() && c.Eval(f) == nil {
			c.addf("I-12", "allocation %s waits for evaluation %s, which is not there", a.ID, f)
		}
		if next := a.Rest().Next; !next.IsZero() {
			if n := c.Alloc(next); n != nil && n.Rest().Previous != a.ID {
				c.addf("I-17", "allocation %s is replaced by %s, which replaces %s", a.ID, next, n.Rest().Previous)
			}
		}
	}
}

// unknown checks the rest of I-18: what is unknown is so since some time, and
// nothing else is.
func (c *checker) unknown(a *berth.Alloc) {
	if since := a.Rest().UnknownSince; (since != 0) != (a.Client == berth.ClientUnknown) {
		c.addf("I-18", "allocation %s is %s, and unknown since %d", a.ID, a.Client, since)
	}
}

// jobs checks I-20 and I-21 (versions), I-22 (no job without its history, and
// nothing that belonged to what is gone) and I-24 (counts are what a recount
// finds).
func (c *checker) jobs() {
	c.orphans()
	for j := range c.Jobs(berth.AllNamespaces, "") {
		if c.Namespace(j.Namespace) == nil {
			c.addf("I-22", "job %s is in a namespace that is not there", j.Key())
		}
		plain, last := 0, uint64(0)
		for v := range c.JobVersions(j.Key()) {
			if v.UID != j.UID {
				c.addf("I-21", "the history of job %s holds version %d of another job", j.Key(), v.Version)
			}
			if v.VersionTag == nil {
				plain++
			}
			last = v.Version
		}
		if last != j.Version {
			c.addf("I-20", "job %s is at version %d, its history at %d", j.Key(), j.Version, last)
		}
		if plain > state.VersionsKept {
			c.addf("I-21", "job %s keeps %d versions", j.Key(), plain)
		}
		c.counts(j)
	}
}

// orphans looks for what goes with an evaluation or a job and did not.
func (c *checker) orphans() {
	for x := range c.Explanations() {
		if c.Eval(x.Eval) == nil {
			c.addf("I-22", "there is an explanation of evaluation %s, which is not there", x.Eval)
		}
	}
	for r := range c.AllReschedules() {
		if j := c.Job(r.Job); j == nil || j.UID != r.UID {
			c.addf("I-22", "there are reschedules of job %s, %s, which is not there", r.Job, r.UID.Text('j'))
		}
	}
}

func (c *checker) counts(j *berth.Job) {
	s := c.Summary(j.Key())
	if s == nil || s.UID != j.UID {
		c.addf("I-24", "job %s has no counts of its own", j.Key())
		return
	}
	counts := map[string]*state.GroupCount{}
	live, open := 0, 0
	for a := range c.AllocsOf(j.Key()) {
		if a.Job.UID != j.UID {
			continue
		}
		g := counts[a.Group.Name]
		if g == nil {
			g = &state.GroupCount{Group: a.Group.Name}
			counts[a.Group.Name] = g
		}
		*g.Of(a.Client)++
		if a.Live() {
			live++
		}
	}
	for e := range c.EvalsOf(j.Key()) {
		if e.JobUID == j.UID && !e.Terminal() {
			open++
		}
	}
	if live != s.Live || open != s.Open {
		c.addf("I-24", "job %s counts %d live and %d open; they are %d and %d", j.Key(), s.Live, s.Open, live, open)
	}
	for _, g := range s.Groups {
		want := counts[g.Group]
		if want == nil {
			want = &state.GroupCount{Group: g.Group}
		}
		delete(counts, g.Group)
		want.Queued = g.Queued // follows from the last evaluation, not from rows
		if *want != g || g.Queued < 0 {
			c.addf("I-24", "job %s counts %+v; they are %+v", j.Key(), g, *want)
		}
	}
	for g := range counts {
		c.addf("I-24", "job %s does not count its group %q", j.Key(), g)
	}
}

// nodes checks I-28 (legal statuses).
func (c *checker) nodes() {
	numbers := map[uint32]berth.NodeID{}
	for n := range c.Nodes() {
		switch n.Status {
		case berth.NodeInit, berth.NodeReady, berth.NodeDown, berth.NodeDisconnected:
		default:
			c.addf("I-28", "node %s has the status %q", n.ID, n.Status)
		}
		if other, ok := numbers[n.Number]; ok {
			c.addf("I-28", "nodes %s and %s have the number %d", other, n.ID, n.Number)
		}
		numbers[n.Number] = n.ID
		if u := c.Usage(n.Number); u.Ready != n.Ready() || u.Room != n.Room() {
			c.addf("I-28", "the columns do not say of node %s what its row says", n.ID)
		}
	}
}

// Between returns what must not have happened between two states of which one
// follows the other: I-01, I-18, I-20 and I-28 are about time.
func Between(old, new *state.Snapshot) (found []Violation) {
	addf := func(id, format string, args ...any) {
		found = append(found, Violation{id, fmt.Sprintf(format, args...)})
	}
	if new.Index < old.Index {
		addf("I-37", "the index fell from %d to %d", old.Index, new.Index)
	}
	for e := range old.Evals() {
		n := new.Eval(e.ID)
		if n == nil || n.Status == e.Status {
			continue
		}
		if e.Status == berth.EvalComplete || e.Status == berth.EvalCanceled || e.Status == berth.EvalBlocked && n.Status == berth.EvalPending {
			addf("I-01", "evaluation %s went from %s to %s", e.ID, e.Status, n.Status)
		}
	}
	for a := range old.Allocs() {
		n := new.Alloc(a.ID)
		switch {
		case n == nil: // see Step
		case a.Desired != berth.DesiredRun && n.Desired == berth.DesiredRun:
			addf("I-18", "allocation %s should run again", a.ID)
		case a.Ended() && n.Client != a.Client:
			addf("I-18", "allocation %s went from %s to %s", a.ID, a.Client, n.Client)
		}
	}
	for j := range old.Jobs(berth.AllNamespaces, "") {
		if n := new.Job(j.Key()); n != nil && n.UID == j.UID && n.Version < j.Version {
			addf("I-20", "job %s went from version %d to %d", j.Key(), j.Version, n.Version)
		}
	}
	return found
}

// Step returns what one command must not have done: I-31 (what is needed or
// runs is not deleted).
func Step(old, new *state.Snapshot) (found []Violation) {
	addf := func(format string, args ...any) {
		found = append(found, Violation{"I-31", fmt.Sprintf(format, args...)})
	}
	for a := range old.Allocs() {
		if new.Alloc(a.ID) == nil && !a.Ended() {
			addf("allocation %s was deleted while it was %s", a.ID, a.Client)
		}
	}
	for e := range old.Evals() {
		if new.Eval(e.ID) == nil && !e.Terminal() {
			addf("evaluation %s was deleted while it was %s", e.ID, e.Status)
		}
	}
	for e := range new.Evals() {
		if p := e.PreviousEval; !e.Terminal() && old.Eval(p) != nil && new.Eval(p) == nil {
			addf("evaluation %s was deleted, of which %s came, which is %s", p, e.ID, e.Status)
		}
	}
	for n := range old.Nodes() {
		if new.Node(n.ID) == nil && n.Status != berth.NodeDown {
			addf("node %s was deleted while it was %s", n.ID, n.Status)
		}
	}
	for a := range new.Allocs() {
		if old.Node(a.NodeID) != nil && new.Node(a.NodeID) == nil {
			addf("node %s was deleted, where allocation %s is", a.NodeID, a.ID)
		}
	}
	return found
}
