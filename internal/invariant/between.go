package invariant

import (
	"fmt"

	"berth"
	"berth/internal/diff"
	"berth/internal/state"
)

// Between returns what must not have happened between two states of one
// history. The second may follow the first at once or much later, even after a
// crash. The table in the package comment lists the rules. A row that is the
// same in both states costs one lookup.
func Between(old, new *state.Snapshot) []Violation {
	p := &pair{old: old, new: new}
	if new.Index < old.Index {
		p.addf("I-37", "the index fell from %d to %d", old.Index, new.Index)
	}
	p.evals()
	p.allocs()
	p.jobs()
	p.deployments()
	p.deletions()
	p.streams()
	for n := range old.Nodes() {
		if m := new.Node(n.ID); m != nil && m.CreateIndex == n.CreateIndex && m.Number != n.Number {
			p.addf("I-28", "node %s changed its number from %d to %d", n.ID, n.Number, m.Number)
		}
	}
	return p.found
}

// pair collects violations between two snapshots.
type pair struct {
	old, new *state.Snapshot
	found    []Violation
}

// addf adds a violation of the rule id.
func (p *pair) addf(id, format string, args ...any) {
	p.found = append(p.found, Violation{id, fmt.Sprintf(format, args...)})
}

// evals checks I-01: ended evaluations do not change status.
func (p *pair) evals() {
	for e := range p.old.Evals() {
		n := p.new.Eval(e.ID)
		if n == nil || n.Status == e.Status {
			continue
		}
		if e.Status == berth.EvalComplete || e.Status == berth.EvalCanceled || e.Status == berth.EvalBlocked && n.Status == berth.EvalPending {
			p.addf("I-01", "evaluation %s went from %s to %s", e.ID, e.Status, n.Status)
		}
	}
}

// allocs checks I-18 (stopped and ended allocations stay so), I-15 (an
// allocation stays the same instance on the same node) and I-17 (no link is
// broken).
func (p *pair) allocs() {
	for a := range p.old.Allocs() {
		n := p.new.Alloc(a.ID)
		if n == nil || n == a { // Step checks deleted ones
			continue
		}
		switch {
		case a.Desired != berth.DesiredRun && n.Desired == berth.DesiredRun:
			p.addf("I-18", "allocation %s must run again after it was to stop", a.ID)
		case a.Ended() && n.Client != a.Client:
			p.addf("I-18", "allocation %s went from %s to %s", a.ID, a.Client, n.Client)
		}
		if n.NodeID != a.NodeID || n.Job.UID != a.Job.UID || n.Name() != a.Name() || n.UID() != a.UID() || n.Job.Version < a.Job.Version {
			p.addf("I-15", "allocation %s was %s of version %d on node %s, and is now %s of version %d on node %s",
				a.ID, a.Name(), a.Job.Version, a.NodeID, n.Name(), n.Job.Version, n.NodeID)
		}
		was, is := a.Rest(), n.Rest()
		if was.Previous != is.Previous || !was.Next.IsZero() && was.Next != is.Next {
			p.addf("I-17", "allocation %s was between %s and %s, and is now between %s and %s", a.ID, was.Previous, was.Next, is.Previous, is.Next)
		}
	}
}

// jobs checks I-20 (versions only grow, and what a version asks for does not
// change) and I-23 (launches are not forgotten).
func (p *pair) jobs() {
	for j := range p.old.Jobs(berth.AllNamespaces, "") {
		n := p.new.Job(j.Key())
		if n == nil || n.UID != j.UID {
			continue
		}
		if was, is := p.old.Summary(j.Key()), p.new.Summary(j.Key()); was != is && was != nil && is != nil {
			p.launches(j.Key(), was.Launch, is.Launch)
		}
		switch {
		case n == j:
		case n.Version < j.Version || n.JobModifyIndex < j.JobModifyIndex:
			p.addf("I-20", "job %s went from version %d to %d, from index %d to %d", j.Key(), j.Version, n.Version, j.JobModifyIndex, n.JobModifyIndex)
		case n.Version == j.Version && !diff.Equal(userPart(j), userPart(n)):
			p.addf("I-20", "version %d of job %s changed what it asks for", j.Version, j.Key())
		}
	}
}

// launches checks that the record of a periodic job's launches never goes back.
func (p *pair) launches(k berth.JobKey, was, is *state.Launch) {
	// A record that is deleted goes with its job.
	if was != nil && is != nil && (is.Index < was.Index || is.Skips < was.Skips) {
		p.addf("I-23", "job %s forgot launches: %+v became %+v", k, *was, *is)
	}
}

// deployments checks I-25.
func (p *pair) deployments() {
	for d := range p.old.Deployments() {
		if n := p.new.Deployment(d.ID); n != nil && n != d {
			deploymentMoved(d, n, p.addf)
		}
	}
}

// Step returns what one command must not have done: I-21 (the newest stable
// version before a job's newest is kept), I-31 (nothing that is needed or running
// is deleted) and I-50 (a complete submission has all of its objects).
func Step(old, new *state.Snapshot) (found []Violation) {
	addf := func(format string, args ...any) {
		found = append(found, Violation{"I-31", fmt.Sprintf(format, args...)})
	}
	addAs := func(id, format string, args ...any) {
		found = append(found, Violation{id, fmt.Sprintf(format, args...)})
	}
	submitted(old, new, addAs)
	stableKept(old, new, addAs)
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
	// An open evaluation must find the one that it follows.
	for e := range new.Evals() {
		if p := e.PreviousEval; !e.Terminal() && old.Eval(p) != nil && new.Eval(p) == nil {
			addf("evaluation %s was deleted, but its successor %s is %s", p, e.ID, e.Status)
		}
	}
	// A deployment may go with its job.
	for d := range old.Deployments() {
		if j := new.Job(d.Key()); d.Active() && new.Deployment(d.ID) == nil && j != nil && j.UID == d.JobUID {
			addf("deployment %s was deleted while it was %s", d.ID, d.Status)
		}
	}
	for n := range old.Nodes() {
		if new.Node(n.ID) == nil && n.Status != berth.NodeDown {
			addf("node %s was deleted while it was %s", n.ID, n.Status)
		}
	}
	for a := range new.Allocs() {
		if old.Node(a.NodeID) != nil && new.Node(a.NodeID) == nil {
			addf("node %s was deleted, but allocation %s is on it", a.NodeID, a.ID)
		}
	}
	return found
}

// stableKept checks that each job still has the newest stable version before its
// newest.
func stableKept(old, new *state.Snapshot, addf func(id, format string, args ...any)) {
	if !old.KeepsStable() {
		return
	}
	for j := range new.Jobs("*", "") {
		was := old.Job(j.Key())
		if was == nil || was.UID != j.UID {
			continue
		}
		var stable *berth.Job
		for v := range old.JobVersions(j.Key()) {
			if v.Stable && !v.Stop && v.Version < j.Version {
				stable = v
			}
		}
		if stable != nil && new.JobVersion(j.Key(), stable.Version) == nil {
			addf("I-21", "job %s forgot version %d, the newest stable one before version %d", j.Key(), stable.Version, j.Version)
		}
	}
}
