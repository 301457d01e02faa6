package state

import (
	"maps"
	"time"

	"berth"
)

// UpdateDrain starts the drain of a node, changes it, or ends it. A node that
// is drained takes no new work; the operator decides whether it does
// afterwards.
type UpdateDrain struct {
	ID           berth.NodeID
	Spec         *berth.DrainSpec // nil: end the drain
	MarkEligible bool             // without Spec: it takes new work again
	Meta         map[string]string
	Seed         [16]byte // of the evaluations that it creates
	Now          int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: the created evaluations
}

// Apply implements Command. Ending a drain that does not exist changes nothing
// but the eligibility.
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
	// Without a spec the command ends a drain, makes the node eligible, or
	// both.
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
		marked = tx.cancelMigrations(old.ID, c.Now)
	}
	// An eligible node concerns all jobs that may use it; otherwise only those
	// whose allocations need not move any more.
	tx.putNode(old, &n)
	if eligible {
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	} else {
		c.Evals = tx.raiseOn(&n, marked, berth.TriggerNodeDrain, c.Seed, c.Now)
	}
	return nil
}

// begin stores the node with a drain strategy. If a drain is in progress, it
// keeps its start time, and its deadline counts from now.
func (c *UpdateDrain) begin(tx *Tx, old, n *berth.Node) {
	now := time.Unix(0, c.Now).UTC()
	d := berth.DrainStrategy{DrainSpec: *c.Spec, StartedAt: now}
	if d.Deadline > 0 {
		d.ForceDeadline = now.Add(d.Deadline)
	}
	last := berth.DrainMetadata{StartedAt: now, UpdatedAt: now, Status: berth.DrainUnderWay, Meta: c.Meta}
	message := "Node drain strategy set"
	// An update keeps the time of the start, but counts the deadline from now.
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
	// Schedulers move what runs here.
	if old.Ready() {
		c.Evals = tx.raiseForDeployed(n, c.Seed, c.Now)
	}
}

// drainOver returns the record of a drain that is over.
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

// cancelMigrations lets allocations stay that were told to leave a node and
// have not left yet: the next drain starts over. It returns the jobs that have
// such allocations.
func (tx *Tx) cancelMigrations(id berth.NodeID, now int64) (jobs []*berth.Job) {
	// Collect before changing: the index must not change while it is read.
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

// newestOf returns the newest version of an allocation's job, or nil if the job
// is gone.
func (tx *Tx) newestOf(a *berth.Alloc) *berth.Job {
	if j := tx.Job(a.Key()); j != nil && j.UID == a.Job.UID {
		return j
	}
	return nil
}

// MigrateAllocs tells allocations to leave their node, which is drained, and
// creates an evaluation for each of their jobs to place them elsewhere.
// Allocations without such a job, and those that only waited for their
// replacement, are stopped by the command itself.
type MigrateAllocs struct {
	ByLeader
	Node   berth.NodeID
	Allocs []berth.AllocID
	// Stop means that the allocations do not wait for their replacements: those
	// are healthy, or there is no time left.
	Stop bool
	Seed [16]byte // of the evaluations that it creates
	Now  int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: the created evaluations
}

// Apply implements Command. Allocations that have ended, are to stop, or are
// gone are skipped.
func (c *MigrateAllocs) Apply(tx *Tx) error {
	c.Evals = nil
	n := tx.Node(c.Node)
	switch {
	case n == nil:
		return berth.Errorf(berth.NotFound, "node not found: %s", c.Node)
	case !n.Draining():
		return berth.Errorf(berth.Conflict, "superseded: node %s is not drained any more", c.Node)
	}
	// Check all before the first change.
	for _, id := range c.Allocs {
		if a := tx.Alloc(id); a != nil && a.NodeID != c.Node {
			return berth.Errorf(berth.Invalid, "migrate: allocation %s is not on node %s", id, c.Node)
		}
	}
	// Allocations that ended meanwhile are skipped.
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
		// Nothing replaces it first: stop it at once.
		if c.Stop || old.Orphaned || j == nil {
			a.AllocModifyIndex = tx.Index
			a.Desired, more.StopReason, more.DesiredDescription = berth.DesiredStop, berth.StopMigrated, berth.StopMigrated.String()
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

// FinishDrain ends the drain of an empty node. It takes no new work until an
// operator allows it.
type FinishDrain struct {
	ByLeader
	ID  berth.NodeID
	Now int64
}

// Apply implements Command. A node that is not empty is still drained, so the
// command is refused.
func (c *FinishDrain) Apply(tx *Tx) error {
	old := tx.Node(c.ID)
	switch {
	case old == nil:
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	case !old.Draining():
		return berth.Errorf(berth.Conflict, "superseded: node %s is not drained any more", c.ID)
	}
	// An allocation may have come since the command was proposed.
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
