package state

import (
	"math"
	"slices"

	"berth"
	"berth/internal/state/codec"
)

// ReportAllocs is an agent's report on the allocations of its node. If an
// allocation failed, was unknown and is reported again, or was the last that
// another group waits for, the same command creates an evaluation of its job.
type ReportAllocs struct {
	Node    berth.NodeID
	Updates []AllocUpdate
	Now     int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: the created evaluations

	number  uint32 // of the node, plus one; set by Apply, or read from the log
	fromLog bool   // number has the node, Node does not
}

// Apply implements Command. Allocations that are gone or have ended are
// skipped: a late report changes nothing. An allocation of another node refuses
// the whole report.
func (c *ReportAllocs) Apply(tx *Tx) error {
	n := tx.Node(c.Node)
	if c.fromLog {
		n = tx.NodeByNumber(c.number - 1)
	}
	if n == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.Node)
	}
	// Check all before the first change: an agent reports about its own node
	// only.
	for i := range c.Updates {
		if a := tx.Alloc(c.Updates[i].ID); a != nil && a.NodeID != n.ID {
			return berth.Errorf(berth.Denied, "Permission denied: allocation %s is not on node %s", a.ID, n.ID)
		}
		if _, err := UnpackTaskStates(c.Updates[i].Tasks); err != nil {
			return err
		}
	}
	// The log entry has the number, which is shorter than the ID.
	c.number, c.Evals = n.Number+1, nil
	// Sort out what a scheduler must look at.
	var back, failed, opened []*berth.Alloc
	var told healths
	for i := range c.Updates {
		a, was := tx.report(&c.Updates[i], &told, c.Now)
		if a != nil && tx.opens(a, was) {
			opened = append(opened, a)
		}
		switch {
		case a == nil || !a.Wanted() || a.Orphaned:
		case was == berth.ClientUnknown:
			back = append(back, a)
		case missed(a):
			failed = append(failed, a)
			told.noteFailedFirst(tx, a)
		}
	}
	c.raise(tx, n, back, failed, opened, told)
	told.store(tx, c.Now)
	return nil
}

// report stores an update of an allocation and returns its new row and its
// previous status, or nil if nothing changes. An agent cannot report an
// allocation as unknown.
func (tx *Tx) report(u *AllocUpdate, told *healths, now int64) (*berth.Alloc, berth.ClientStatus) {
	old := tx.Alloc(u.ID)
	if old == nil || old.Ended() || u.Client == berth.ClientUnknown {
		return nil, 0
	}
	a := *old
	a.ModifyTime = now
	a.Client, a.Tasks = u.Client, u.Tasks
	if m := old.Rest(); u.Description != m.ClientDescription || firstHealth(old, u) || u.Network != nil || old.Client == berth.ClientUnknown {
		b, more := old.With()
		b.ModifyTime, b.Client, b.Tasks = a.ModifyTime, a.Client, a.Tasks
		more.ClientDescription = u.Description
		if firstHealth(old, u) {
			told.reported(tx, old, more, u, now)
		}
		if u.Network != nil {
			more.Network = u.Network
		}
		if old.Client == berth.ClientUnknown { // its agent is back, so it no longer expires
			more.UnknownSince, more.FollowupEval = 0, berth.EvalID{}
		}
		a = *b
	}
	tx.changeAlloc(old, &a)
	return &a, old.Client
}

// missed reports whether an instance that should run has ended. Agents report
// failed in that case; a service must not end with another status either.
func missed(a *berth.Alloc) bool {
	if a.Job.Type == berth.TypeStream { // its processing element decides whether it is launched again
		return false
	}
	switch a.Client {
	case berth.ClientComplete:
		return a.Job.Type == berth.TypeService && a.Group.Once == "" || a.Job.Type == berth.TypeSystem
	case berth.ClientFailed:
		return !a.Job.PerNode() // it stays failed: it belongs to its node
	case berth.ClientLost:
		return true
	}
	return false
}

// raise creates one evaluation for each job with an allocation that came back
// or failed, or with a group that need not wait any more.
func (c *ReportAllocs) raise(tx *Tx, n *berth.Node, back, failed, opened []*berth.Alloc, told healths) {
	var done []*berth.Job
	for i, a := range slices.Concat(back, failed, opened) {
		// One evaluation for each job is enough. A stopped job replaces
		// nothing.
		j := tx.Job(a.Key())
		if j == nil || j.UID != a.Job.UID || j.Stop || slices.Contains(done, j) {
			continue
		}
		done = append(done, j)
		told.evaluated(tx, j)
		seed := EvalSeed{
			ID: tx.newID(a.ID), TriggeredBy: berth.TriggerAllocFailure,
			Cause: berth.Cause{Kind: berth.CauseAlloc, ID: a.ID.String()},
		}
		// Those that came back are first in the list, those that others wait
		// for are last.
		switch {
		case i >= len(back)+len(failed):
			seed.TriggeredBy = berth.TriggerGroupOrder
		case i < len(back):
			seed.TriggeredBy, seed.Cause = berth.TriggerReconnect, berth.Cause{Kind: berth.CauseNode, ID: n.ID.String()}
		}
		e := newEval(j, seed, c.Now)
		if i < len(back) {
			e.NodeID, e.NodeModifyIndex = n.ID, n.ModifyIndex
		}
		tx.putEval(nil, e)
		c.Evals = append(c.Evals, e.ID)
	}
}

// Flags of an update.
const (
	updateText = 1 << 4 // the lower bits are the client status
	updateMore = 1 << 5
)

// pack implements packed. A node that is known by number takes no ID, and an
// update with no description, health or network takes only its status, ID and
// task states.
func (c *ReportAllocs) pack(w *codec.Writer) {
	w.Uint(uint64(c.number))
	if c.number == 0 {
		w.ID(c.Node)
	}
	w.Int(c.Now)
	w.Uint(uint64(len(c.Updates)))
	for i := range c.Updates {
		u := &c.Updates[i]
		more := updateRest{u.Deployment, u.Network}
		// The status takes the low four bits, the flags are above it.
		w.Byte(byte(u.Client) | codec.Flag(updateText, u.Description != "") | codec.Flag(updateMore, more != updateRest{}))
		w.ID(u.ID)
		w.Text(string(u.Tasks))
		if u.Description != "" {
			w.Text(u.Description)
		}
		if more != (updateRest{}) {
			w.Value(&more)
		}
	}
}

// updateRest is the part of an update that is rarely there, in msgpack.
type updateRest struct {
	Deployment *berth.AllocDeploymentStatus
	Network    *berth.AllocNetworkStatus
}

// unpack implements packed. Task states stay packed; step checks them.
func (c *ReportAllocs) unpack(r *codec.Reader) {
	c.number = uint32(r.Below(math.MaxUint32, "node"))
	c.fromLog = c.number != 0
	if !c.fromLog {
		c.Node = r.ID()
	}
	c.Now = r.Int()
	// An update takes at least 18 bytes.
	c.Updates = make([]AllocUpdate, r.Length(18))
	for i := range c.Updates {
		u := &c.Updates[i]
		flags := r.Byte()
		u.Client = berth.ClientStatus(flags & 0xf)
		if u.Client > berth.ClientUnknown {
			r.Damaged("client status")
		}
		u.ID = r.ID()
		u.Tasks = berth.TaskStatesPack(r.Text())
		if flags&updateText != 0 {
			u.Description = r.Text()
		}
		if flags&updateMore != 0 {
			var more updateRest
			r.Value(&more)
			u.Deployment, u.Network = more.Deployment, more.Network
		}
	}
}
