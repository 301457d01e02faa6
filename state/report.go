package state

import (
	"slices"

	"berth"
)

// ReportAllocs is what a node's agent says of its allocations. An allocation
// that failed raises an evaluation of its job in the same command.
type ReportAllocs struct {
	Node    berth.NodeID
	Updates []AllocUpdate
	Now     int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: what it raised

	number  uint32 // of the node, plus one; set by Apply, or read from the log
	fromLog bool   // number says which, not Node
}

// AllocUpdate is what is said of one allocation.
type AllocUpdate struct {
	ID          berth.AllocID
	Client      berth.ClientStatus
	Description string
	Tasks       berth.TaskStatesPack
	Deployment  *berth.AllocDeploymentStatus
	Network     *berth.AllocNetworkStatus
}

// Apply implements Command. Allocations that are gone, or have ended, are
// passed over: a late report changes nothing. One of another node refuses the
// whole report.
func (c *ReportAllocs) Apply(tx *Tx) error {
	n := tx.Node(c.Node)
	if c.fromLog {
		n = tx.NodeByNumber(c.number - 1)
	}
	if n == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.Node)
	}
	for i := range c.Updates {
		if a := tx.Alloc(c.Updates[i].ID); a != nil && a.NodeID != n.ID {
			return berth.Errorf(berth.Denied, "Permission denied: allocation %s is not on node %s", a.ID, n.ID)
		}
		if _, err := c.Updates[i].Tasks.Unpack(); err != nil {
			return err
		}
	}
	c.number, c.Evals = n.Number+1, nil
	var failed []*berth.Alloc
	for i := range c.Updates {
		if a := tx.report(&c.Updates[i], c.Now); a != nil {
			failed = append(failed, a)
		}
	}
	c.raise(tx, failed)
	return nil
}

// report stores what is said of an allocation; it returns it if it ended just
// now and should not have.
func (tx *Tx) report(u *AllocUpdate, now int64) *berth.Alloc {
	old := tx.Alloc(u.ID)
	if old == nil || old.Ended() {
		return nil
	}
	a := *old
	a.ModifyTime = now
	a.Client, a.Tasks = u.Client, u.Tasks
	if m := old.Rest(); u.Description != m.ClientDescription || u.Deployment != nil || u.Network != nil {
		b, more := old.With()
		b.ModifyTime, b.Client, b.Tasks = a.ModifyTime, a.Client, a.Tasks
		more.ClientDescription = u.Description
		if u.Deployment != nil {
			more.DeploymentStatus = u.Deployment
		}
		if u.Network != nil {
			more.Network = u.Network
		}
		a = *b
	}
	tx.changeAlloc(old, &a)
	if a.Wanted() && !a.Orphaned && missed(&a) {
		return &a
	}
	return nil
}

// missed says whether an instance that should run does not any more. Agents
// say failed of it; another end is none of a service either.
func missed(a *berth.Alloc) bool {
	switch a.Client {
	case berth.ClientComplete:
		return a.Job.Type == berth.TypeService
	case berth.ClientFailed, berth.ClientLost:
		return true
	}
	return false
}

// raise raises one evaluation for each job of which something failed.
func (c *ReportAllocs) raise(tx *Tx, failed []*berth.Alloc) {
	var done []*berth.Job
	for _, a := range failed {
		j := tx.Job(a.Key())
		if j == nil || j.UID != a.Job.UID || j.Stop || slices.Contains(done, j) {
			continue
		}
		done = append(done, j)
		e := tx.raise(j, EvalSeed{
			ID: tx.newID(a.ID), TriggeredBy: berth.TriggerAllocFailure,
			Cause: berth.Cause{Kind: berth.CauseAlloc, ID: a.ID.String()},
		}, c.Now)
		c.Evals = append(c.Evals, e.ID)
	}
}
