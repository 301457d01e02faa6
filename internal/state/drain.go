package state

import (
	"maps"
	"time"

	"berth"
)

// UpdateDrain begins to empty a node, changes how, or ends that. A node that is
// drained takes no new work; whether it does afterwards is for the operator to
// say.
type UpdateDrain struct {
	ID           berth.NodeID
	Spec         *berth.DrainSpec // nil: the node is not to be drained any more
	MarkEligible bool             // without Spec: it takes new work again
	Meta         map[string]string
	Seed         [16]byte // of the evaluations that it raises
	Now          int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: what it raised
}

// Apply implements Command. Ending a drain that is not there changes nothing
// but eligibility.
func (c *UpdateDrain) Apply(tx *Tx) error {
	c.Evals = nil
	old := tx.Node(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	}
	n := *old
	n.ModifyIndex = tx.Index
	if c.Spec != nil {
		c.begin(tx, old, &n)
		return nil
	}
	eligible := c.MarkEligible && old.SchedulingEligibility != berth.NodeEligible
	if !old.Draining() && !eligible {
		return nil
	}
	if eligible {
		n.SchedulingEligibility = berth.NodeEligible
		addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node marked as eligible for scheduling", c.Now))
	}
	var marked []*berth.Job
	if old.Draining() {
		n.DrainStrategy = nil
		n.LastDrain = drainOver(old, berth.DrainCanceled, c.Meta, c.Now)
		addEvents(&n, tx.Index, newEvent(berth.NodeEventDrain, "Node drain strategy unset", c.Now))
		marked = tx.keepOn(old.ID, c.Now)
	}
	tx.putNode(old, &n)
	if eligible {
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	} else {
		c.Evals = tx.raiseOn(&n, marked, berth.TriggerNodeDrain, c.Seed, c.Now)
	}
	return nil
}

// begin stores the node with a strategy. One that is drained already began when
// it did, and its deadline counts from now.
func (c *UpdateDrain) begin(tx *Tx, old, n *berth.Node) {
	now := time.Unix(0, c.Now).UTC()
	d := berth.DrainStrategy{DrainSpec: *c.Spec, StartedAt: now}
	if d.Deadline > 0 {
		d.ForceDeadline = now.Add(d.Deadline)
	}
	last := berth.DrainMetadata{StartedAt: now, UpdatedAt: now, Status: berth.DrainUnderWay, Meta: c.Meta}
	message := "Node drain strategy set"
	if old.Draining() {
		d.StartedAt, last.StartedAt = old.DrainStrategy.StartedAt, old.DrainStrategy.StartedAt
		message = "Node drain strategy updated"
		if c.Meta == nil && old.LastDrain != nil {
			last.Meta = old.LastDrain.Meta
		}
	}
	n.DrainStrategy, n.LastDrain, n.SchedulingEligibility = &d, &last, berth.NodeIneligible
	event := newEvent(berth.NodeEventDrain, message, c.Now)
	if len(c.Meta) > 0 {
		event.Details = maps.Clone(c.Meta)
	}
	addEvents(n, tx.Index, event)
	tx.putNode(old, n)
	if old.Ready() {
		c.Evals = tx.raiseForDeployed(n, c.Seed, c.Now)
	}
}

// drainOver returns what is remembered of a node's drain that is over.
func drainOver(n *berth.Node, status string, meta map[string]string, now int64) *berth.DrainMetadata {
	d := berth.DrainMetadata{StartedAt: n.DrainStrategy.StartedAt}
	if n.LastDrain != nil {
		d = *n.LastDrain
	}
	d.Status, d.UpdatedAt = status, time.Unix(0, now).UTC()
	if meta != nil {
		d.Meta = meta
	}
	return &d
}

// keepOn lets what was told to leave a node, and does not yet, stay there: the
// next drain begins anew. It returns the jobs of which something stays.
func (tx *Tx) keepOn(id berth.NodeID, now int64) (jobs []*berth.Job) {
	var stay []*berth.Alloc
	for a := range tx.AllocsOn(id) {
		if a.Live() && a.Rest().Migrate {
			stay = append(stay, a)
		}
	}
	seen := map[berth.UID]bool{}
	for _, old := range stay {
		a, more := old.With()
		a.ModifyTime, more.Migrate = now, false
		tx.changeAlloc(old, a)
		if j := tx.newestOf(a); j != nil && !seen[j.UID] {
			seen[j.UID] = true
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// newestOf returns the newest version of an allocation's job, nil if the job is
// gone.
func (tx *Tx) newestOf(a *berth.Alloc) *berth.Job {
	if j := tx.Job(a.Key()); j != nil && j.UID == a.Job.UID {
		return j
	}
	return nil
}

// MigrateAllocs tells allocations to leave their node, which is drained, and
// raises an evaluation for each of their jobs, which finds new places. What has
// no job that could do that is stopped by the command itself, as is what waited
// for its replacement.
type MigrateAllocs struct {
	ByLeader
	Node   berth.NodeID
	Allocs []berth.AllocID
	// Stop says that the allocations are not to wait for their replacement: it
	// is healthy, or there is no time left.
	Stop bool
	Seed [16]byte // of the evaluations that it raises
	Now  int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: what it raised
}

// Apply implements Command. What has ended, should stop, or is gone is passed
// over.
func (c *MigrateAllocs) Apply(tx *Tx) error {
	c.Evals = nil
	n := tx.Node(c.Node)
	switch {
	case n == nil:
		return berth.Errorf(berth.NotFound, "node not found: %s", c.Node)
	case !n.Draining():
		return berth.Errorf(berth.Conflict, "superseded: node %s is not drained any more", c.Node)
	}
	for _, id := range c.Allocs {
		if a := tx.Alloc(id); a != nil && a.NodeID != c.Node {
			return berth.Errorf(berth.Invalid, "migrate: allocation %s is not on node %s", id, c.Node)
		}
	}
	var jobs []*berth.Job
	seen := map[berth.UID]bool{}
	for _, id := range c.Allocs {
		old := tx.Alloc(id)
		if old == nil || !old.Live() {
			continue
		}
		j := tx.newestOf(old)
		a, more := old.With()
		a.ModifyTime, more.Migrate = c.Now, true
		if c.Stop || old.Orphaned || j == nil {
			a.AllocModifyIndex = tx.Index
			a.Desired, more.DesiredDescription = berth.DesiredStop, berth.StopMigrated
		}
		tx.changeAlloc(old, a)
		if j != nil && !old.Orphaned && !seen[j.UID] {
			seen[j.UID] = true
			jobs = append(jobs, j)
		}
	}
	c.Evals = tx.raiseOn(n, jobs, berth.TriggerNodeDrain, c.Seed, c.Now)
	return nil
}

// FinishDrain says that a node is empty. It takes no new work until an operator
// lets it.
type FinishDrain struct {
	ByLeader
	ID  berth.NodeID
	Now int64
}

// Apply implements Command. A node that is not empty after all is still
// drained.
func (c *FinishDrain) Apply(tx *Tx) error {
	old := tx.Node(c.ID)
	switch {
	case old == nil:
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	case !old.Draining():
		return berth.Errorf(berth.Conflict, "superseded: node %s is not drained any more", c.ID)
	}
	for a := range tx.AllocsOn(c.ID) {
		if old.DrainStrategy.Holds(a) {
			return berth.Errorf(berth.Conflict, "superseded: allocation %s on node %s is %s", a.ID, c.ID, a.Client)
		}
	}
	n := *old
	n.ModifyIndex, n.DrainStrategy = tx.Index, nil
	n.LastDrain = drainOver(old, berth.DrainComplete, nil, c.Now)
	addEvents(&n, tx.Index, newEvent(berth.NodeEventDrain, "Node drain complete", c.Now))
	tx.putNode(old, &n)
	return nil
}
