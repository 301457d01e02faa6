package invariant

import (
	"berth"
	"berth/internal/state"
)

// streams checks stream jobs and what they own: I-44 (owners exist), I-45
// (nothing is created for what is deleted), I-47 (nothing is older than its
// owner), I-48 (one allocation per processing element), I-49 (launches are
// counted) and I-53 (a node is in one exclusive pool, and in no pool of another
// job that was given nodes).
func (c *checker) streams() {
	// Numbers of stream jobs are unique and never reused.
	ids := map[uint64]berth.UID{}
	for row := range c.StreamJobs() {
		c.submission(row)
		if other, ok := ids[row.StreamID]; ok && row.StreamID > 0 || row.StreamID > c.LastStreamID() {
			c.addf("I-44", "job %s has the number %d (the last is %d), also the number of %s", row.Key, row.StreamID, c.LastStreamID(), other.Text('j'))
		}
		ids[row.StreamID] = row.UID
	}
	for j := range c.Jobs(berth.AllNamespaces, "") {
		if (j.Type == berth.TypeStream) != (c.StreamJob(j.UID) != nil) {
			c.addf("I-44", "job %s has the type %s, but wrongly has or lacks a submission", j.Key(), j.Type)
		}
	}
	// Each object is in the list of its owner or among the orphans.
	held, given := map[berth.NodeID]*berth.Object{}, map[berth.NodeID][]*berth.Object{}
	listed := map[*berth.Object]bool{}
	for row := range c.StreamJobs() {
		for r := range c.ResourcesOf(row.UID, "") {
			listed[r] = true
		}
	}
	for r := range c.OrphanedResources() {
		listed[r] = true
	}
	for r := range c.Resources() {
		if !listed[r] {
			c.addf("I-44", "%s %q, %s, is not in the list of its owner", r.Kind, r.Name, r.Owner.Text('j'))
		}
		c.resource(r)
		for _, n := range r.Nodes {
			if p := r.Object.Pool; p == nil || p.Mode != berth.PoolExclusive {
				given[n] = append(given[n], r)
				continue
			}
			if other := held[n]; other != nil {
				c.addf("I-53", "node %s is in the exclusive pools %s of job %s and %s of job %s", n, other.Name, other.Job, r.Name, r.Job)
			}
			held[n] = r
			if c.Holder(n) != r {
				c.addf("I-53", "node %s is in the exclusive pool %s of job %s, but not listed as such", n, r.Name, r.Job)
			}
		}
	}
	// An exclusive node serves one job.
	for n, r := range held {
		for _, other := range given[n] {
			if other.Owner != r.Owner && !other.Owner.IsZero() {
				c.addf("I-53", "node %s is in the exclusive pool %s of job %s, but was also given to pool %s of job %s", n, r.Name, r.Job, other.Name, other.Job)
			}
		}
	}
	c.elements(held)
}

// submission checks the row of a submission by itself.
func (c *checker) submission(row *berth.StreamJob) {
	j := c.Job(row.Key)
	lives := j != nil && j.UID == row.UID
	d := c.Deletion(row.Key)
	switch {
	case !lives && !c.owns(row.UID):
		c.addf("I-44", "job %s, %s, was removed with everything that it owned, but its submission exists", row.Key, row.UID.Text('j'))
	case lives && j.Stop != (d != nil || row.Phase == berth.PhaseStopped):
		c.addf("I-44", "whether job %s is stopped does not match its submission, which is %s", row.Key, row.Phase)
	case row.Plan == nil && row.Phase == berth.PhaseSubmitted:
		c.addf("I-50", "job %s is %s but has no plan", row.Key, row.Phase)
	case row.Plan != nil && (row.Plan.Generation != row.Generation || row.Plan.Version != row.Version || row.StreamID == 0 || row.PlanIndex == 0):
		c.addf("I-44", "job %s is at generation %d of version %d, but its plan at %d of %d", row.Key, row.Generation, row.Version, row.Plan.Generation, row.Plan.Version)
	case row.CreateIndex != row.UID.Index:
		c.addf("I-44", "the submission of job %s, %s, was created at index %d", row.Key, row.UID.Text('j'), row.CreateIndex)
	}
}

// owns reports whether uid owns any object.
func (c *checker) owns(uid berth.UID) bool {
	for range c.ResourcesOf(uid, "") {
		return true
	}
	return false
}

// resource checks an object of a stream job.
func (c *checker) resource(r *berth.Object) {
	name := r.UID.Text(berth.KindLetter(r.Kind))
	if (r.PE != nil) != (r.Kind == berth.KindPE) || r.Object.Kind != r.Kind || r.Object.Name != r.Name || r.CreateIndex != r.UID.Index {
		c.addf("I-44", "%s %q, %s, contradicts itself", r.Kind, r.Name, name)
		return
	}
	if p := r.PE; p != nil && (p.LaunchIndex > 0 && p.Launch == 0 || p.Launch > 0 && p.LaunchIndex == 0 && p.Before.IsZero()) {
		c.addf("I-49", "%s has %d launches, the last at index %d", r.Name, r.PE.Launch, r.PE.LaunchIndex)
	}
	// An orphan has nothing to be compared with.
	if r.Owner.IsZero() {
		return
	}
	row := c.StreamJob(r.Owner)
	switch {
	case row == nil || row.Key != r.Job:
		c.addf("I-44", "%s %q, %s, is owned by job %s, %s, which does not exist", r.Kind, r.Name, name, r.Job, r.Owner.Text('j'))
	case r.CreateIndex <= r.Owner.Index:
		c.addf("I-47", "%s %q, %s, is not younger than its owner, %s", r.Kind, r.Name, name, r.Owner.Text('j'))
	case row.Plan != nil && r.Generation > row.Generation:
		c.addf("I-44", "%s %q, %s, has generation %d, but its job %d", r.Kind, r.Name, name, r.Generation, row.Generation)
	case c.ResourceNamed(r.Owner, r.Kind, r.Name) != r:
		c.addf("I-44", "%s %q of job %s cannot be found by its name", r.Kind, r.Name, r.Job)
	}
	if d := c.Deletion(r.Job); d != nil && d.UID == r.Owner && (r.CreateIndex >= d.Deletion.RequestIndex || r.PE != nil && r.PE.LaunchIndex >= d.Deletion.RequestIndex) {
		c.addf("I-45", "%s %q, %s, was created or launched after its job was marked at index %d", r.Kind, r.Name, name, d.Deletion.RequestIndex)
	}
}

// elements checks the allocations of processing elements.
func (c *checker) elements(held map[berth.NodeID]*berth.Object) {
	occupied := map[berth.UID]*berth.Alloc{}
	for a := range c.Allocs() {
		ref := a.Rest().PE
		if (ref != nil) != (a.Job.Type == berth.TypeStream) {
			c.addf("I-44", "allocation %s of a job of type %s wrongly has or lacks a processing element", a.ID, a.Job.Type)
		}
		if ref == nil {
			continue
		}
		pe := c.Resource(ref.UID)
		switch {
		case pe == nil && a.Live() && !a.Orphaned && c.lives(a.Key(), a.Job.UID):
			c.addf("I-44", "allocation %s must run, but its processing element %s does not exist", a.ID, ref.UID.Text('p'))
		case pe != nil && (pe.PE == nil || ref.Launch > pe.PE.Launch || ref.Launch == 0 || pe.Job != a.Key() || pe.Name != a.Name()):
			c.addf("I-49", "allocation %s has an impossible launch, %d of %s", a.ID, ref.Launch, pe.Name)
		case a.CreateIndex <= ref.UID.Index:
			c.addf("I-47", "allocation %s is not younger than its processing element %s", a.ID, ref.UID.Text('p'))
		}
		// Only one may use a node's capacity at a time, also while the other is
		// being stopped.
		if !a.Occupies() {
			continue
		}
		if other := occupied[ref.UID]; other != nil {
			c.addf("I-48", "allocations %s and %s of %s both occupy a node", other.ID, a.ID, a.Name())
		}
		occupied[ref.UID] = a
		if h := held[a.NodeID]; h != nil && h.Owner != a.Job.UID && !h.Owner.IsZero() && !a.Orphaned && a.Live() {
			c.addf("I-53", "allocation %s is on node %s, which is in the exclusive pool %s of job %s", a.ID, a.NodeID, h.Name, h.Job)
		}
	}
	// The same holds for an element and the one that it replaces.
	for pe := range c.Resources() {
		if pe.PE == nil || pe.PE.Before.IsZero() {
			continue
		}
		if a, b := occupied[pe.UID], occupied[pe.PE.Before]; a != nil && b != nil {
			c.addf("I-48", "allocations %s and %s of %s, and of the element that it replaces, both occupy a node", a.ID, b.ID, pe.Name)
		}
	}
}

// streams checks I-49 (launches are only counted up) and I-44 (a resource keeps
// its identity, and a submission only moves forward).
func (p *pair) streams() {
	for r := range p.old.Resources() {
		n := p.new.Resource(r.UID)
		if n == nil || n == r {
			continue
		}
		switch {
		case n.Kind != r.Kind || n.Name != r.Name || n.Job != r.Job || n.Owner != r.Owner && !n.Owner.IsZero() || n.Generation < r.Generation:
			p.addf("I-44", "%s %q of %s at generation %d became %s %q of %s at %d", r.Kind, r.Name, r.Owner.Text('j'), r.Generation, n.Kind, n.Name, n.Owner.Text('j'), n.Generation)
		case r.PE != nil && (n.PE == nil || n.PE.Launch < r.PE.Launch || n.PE.Launch == r.PE.Launch && n.PE.ContentID != r.PE.ContentID):
			p.addf("I-49", "%s went from %d launches to %d", r.Name, r.PE.Launch, n.PE.Launch)
		}
	}
	for row := range p.old.StreamJobs() {
		n := p.new.StreamJob(row.UID)
		if n == nil || n == row {
			continue
		}
		if n.Generation < row.Generation || n.Version < row.Version || row.StreamID > 0 && n.StreamID != row.StreamID || n.Retries != row.Retries || n.Recovery.Count != row.Recovery.Count {
			p.addf("I-44", "the submission of job %s went from %d of generation %d to %d of %d", row.Key, row.StreamID, row.Generation, n.StreamID, n.Generation)
		}
		if row.Phase == berth.PhaseStopped && n.Phase != row.Phase || row.Phase == berth.PhaseFailed && n.Phase != row.Phase && n.Phase != berth.PhaseStopped {
			p.addf("I-44", "the submission of job %s was %s and is %s", row.Key, row.Phase, n.Phase)
		}
	}
	if p.new.LastStreamID() < p.old.LastStreamID() {
		p.addf("I-44", "the last number of a stream job fell from %d to %d", p.old.LastStreamID(), p.new.LastStreamID())
	}
}

// submitted checks I-50: when a submission is complete, everything in its plan
// exists, and nothing else.
func submitted(old, new *state.Snapshot, addf func(id, format string, args ...any)) {
	for row := range new.StreamJobs() {
		was := old.StreamJob(row.UID)
		// Only the command that completes a submission is judged.
		if row.Phase != berth.PhaseSubmitted || was != nil && was.Phase == row.Phase || row.Plan == nil {
			continue
		}
		type key struct{ kind, name string }
		there := map[key]*berth.Object{}
		for r := range new.ResourcesOf(row.UID, "") {
			there[key{r.Kind, r.Name}] = r
		}
		for _, o := range row.Plan.Objects {
			k := key{o.Kind, o.Name}
			r := there[k]
			delete(there, k)
			if r == nil || r.Generation != row.Generation || r.Hash != o.Hash {
				addf("I-50", "job %s is submitted, but %s %q does not exist as planned", row.Key, o.Kind, o.Name)
				continue
			}
			if r.PE == nil {
				continue
			}
			runs := false
			for a := range new.AllocsOfPE(r) {
				runs = runs || a.Live() && a.Rest().PE.Launch == r.PE.Launch
			}
			if !runs || r.PE.ContentID != o.PE.ContentID {
				addf("I-50", "job %s is submitted, but %s has no allocation of its launch %d", row.Key, o.Name, r.PE.Launch)
			}
		}
		// What is left was not planned.
		for k := range there {
			addf("I-50", "job %s is submitted, but %s %q is not in its plan", row.Key, k.kind, k.name)
		}
	}
}
