package state

import (
	"slices"
	"strconv"

	"berth"
)

// utoa returns n in decimal.
func utoa(n uint64) string { return strconv.FormatUint(n, 10) }

// MaxResources is the largest number of resources that one command creates or
// removes.
const MaxResources = 512

// EnsureResources creates objects of a stream job's plan, or brings existing
// ones to its generation. The command only has their names; their content is in
// the plan.
type EnsureResources struct {
	ByLeader
	Key        berth.JobKey
	UID        berth.UID // of the job
	Generation uint64    // of the plan that its proposer saw
	Kind       string
	Names      []string
	Nodes      [][]berth.NodeID // of host pools: the nodes of each, in order; as many as Names, or empty
	Now        int64
}

// ensured is the result for one name.
type ensured struct {
	old, new *berth.Object
	restored bool // it replaces a processing element that a user deleted
}

// Apply implements Command. What exists as planned stays unchanged; if that is
// all of it, the command was applied before.
func (c *EnsureResources) Apply(tx *Tx) error {
	_, row, err := tx.alive(c.Key, c.UID)
	if err != nil {
		return err
	}
	if err := c.check(row); err != nil {
		return err
	}
	// Decide on all objects before the first change: one that is refused
	// refuses the command.
	var do []ensured
	for i, name := range c.Names {
		o := row.Plan.Object(c.Kind, name)
		if o == nil {
			return berth.Errorf(berth.Invalid, "Names: no %s %.150q is planned for job %q in generation %d", c.Kind, name, c.Key, c.Generation)
		}
		e := c.ensure(tx, row, o, i)
		if e.new == nil {
			continue
		}
		if err := c.free(tx, e, do); err != nil {
			return err
		}
		do = append(do, e)
	}
	if do == nil {
		return berth.Refusef(berth.CodeAlreadyDone, "job %q, %s, has all %d objects of kind %s", c.Key, c.UID.Text('j'), len(c.Names), c.Kind)
	}
	// A PE that exists again is no longer among the deleted ones.
	n := *row
	for _, e := range do {
		tx.putResource(e.old, e.new)
		if e.restored {
			n.Deleted = slices.DeleteFunc(slices.Clone(n.Deleted), func(d berth.DeletedPE) bool { return d.Name == e.new.Name })
		}
	}
	if len(n.Deleted) != len(row.Deleted) {
		tx.putStream(row, &n)
	}
	return nil
}

// check refuses a command of another generation of the plan, and returns an
// Invalid error for fields that do not fit together.
func (c *EnsureResources) check(row *berth.StreamJob) error {
	switch n := len(c.Names); {
	case row.Plan == nil || row.Generation != c.Generation:
		return berth.Refusef(berth.CodeStaleGeneration, "job %q, %s, is at generation %d, not %d, or not planned", c.Key, c.UID.Text('j'), row.Generation, c.Generation)
	case n == 0 || n > MaxResources:
		return berth.Errorf(berth.Invalid, "Names: must be 1 to %d, got %d", MaxResources, n)
	case len(c.Nodes) > 0 && (len(c.Nodes) != n || c.Kind != berth.KindHostPool):
		return berth.Errorf(berth.Invalid, "Nodes: got %d entries of kind %.64q for %d names; only host pools have nodes, one entry for each name", len(c.Nodes), c.Kind, n)
	case !slices.Contains(berth.StreamKinds, c.Kind):
		return berth.Errorf(berth.Invalid, "Kind: unknown kind %.64q: want one of %v", c.Kind, berth.StreamKinds)
	}
	for i, name := range c.Names {
		if slices.Contains(c.Names[:i], name) {
			return berth.Errorf(berth.Invalid, "Names: %.150q is named twice", name)
		}
	}
	return nil
}

// ensure returns the result for a planned object, which is number i of the
// command.
func (c *EnsureResources) ensure(tx *Tx, row *berth.StreamJob, o *berth.StreamObject, i int) (e ensured) {
	e.old = tx.ResourceNamed(c.UID, c.Kind, o.Name)
	var nodes []berth.NodeID
	if len(c.Nodes) > 0 {
		nodes = c.Nodes[i]
	}
	// An existing object keeps its UID. Its nodes stay unless it changes.
	if e.old != nil {
		if e.old.Generation == c.Generation && e.old.Hash == o.Hash {
			return e
		}
		n := *e.old
		n.Generation = c.Generation
		if n.Hash != o.Hash {
			n.Hash, n.Object, n.Nodes = o.Hash, *o, nodes
		}
		e.new = &n
		return e
	}
	e.new = &berth.Object{
		Kind: c.Kind, Name: o.Name, UID: berth.UID{Index: tx.Index, Ordinal: uint32(i)}, Job: c.Key, Owner: c.UID,
		Generation: c.Generation, Hash: o.Hash, Object: *o, Nodes: nodes,
	}
	// A PE that a user deleted continues its count of launches.
	if c.Kind == berth.KindPE {
		e.new.PE = &berth.PEState{Connectivity: berth.ConnectivityNone}
		for _, d := range row.Deleted {
			if d.Name == o.Name {
				e.new.PE.Launch, e.new.PE.Before, e.restored = d.Launch, d.UID, true
			}
		}
	}
	return e
}

// free refuses a host pool with a node that another pool owns. A node of an
// exclusive pool may not be in a host pool of any other job, whichever pool was
// first. The nodes that a pool has already stay its own.
func (c *EnsureResources) free(tx *Tx, e ensured, before []ensured) error {
	r, alone := e.new, exclusive(e.new)
	for i, id := range r.Nodes {
		if slices.Contains(r.Nodes[:i], id) {
			return berth.Errorf(berth.Invalid, "Nodes: pool %.150q has node %s twice", r.Name, id)
		}
		// It has the node already, under rules that are at least as strict.
		if e.old != nil && hasNode(e.old, id) && (exclusive(e.old) || !alone) {
			continue
		}
		// No pool may use a node in the exclusive pool of another job, and no
		// two exclusive pools share one.
		if h := tx.Holder(id); h != nil && h.UID != r.UID && (alone || h.Owner != c.UID) {
			return berth.Refusef(berth.CodeNodeHeld, "node %s is in the exclusive pool %q of job %q", id, h.Name, h.Job)
		}
		if !alone {
			continue
		}
		// An exclusive pool needs a node that nothing else uses.
		if err := c.untouched(tx, id, before); err != nil {
			return err
		}
	}
	return nil
}

// untouched refuses a node for an exclusive pool if another pool or job uses
// it.
func (c *EnsureResources) untouched(tx *Tx, id berth.NodeID, before []ensured) error {
	if p := tx.GivenTo(id, c.UID); p != nil {
		return berth.Refusef(berth.CodeNodeHeld, "node %s is in the pool %q of job %q", id, p.Name, p.Job)
	}
	for _, e := range before {
		if exclusive(e.new) && hasNode(e.new, id) {
			return berth.Refusef(berth.CodeNodeHeld, "node %s is in the exclusive pool %q of the same job", id, e.new.Name)
		}
	}
	for a := range tx.AllocsOn(id) {
		if a.Rest().PE != nil && a.Occupies() && a.Job.UID != c.UID {
			return berth.Refusef(berth.CodeNodeHeld, "node %s runs %s of another job", id, a.Name())
		}
	}
	return nil
}

// DeleteResource removes a resource of a stream job at a user's request. If the
// job's plan has it, it is created again.
type DeleteResource struct {
	UID         berth.UID
	Propagation berth.Propagation
	Now         int64
}

// Apply implements Command. It stops the allocations of a processing element
// itself. One that is created again continues the count of launches, and waits
// until those allocations have ended.
func (c *DeleteResource) Apply(tx *Tx) error {
	r := tx.Resource(c.UID)
	if r == nil {
		return berth.Errorf(berth.NotFound, "resource %s not found", c.UID.Text('o'))
	}
	if !slices.Contains(berth.Propagations, c.Propagation) {
		return berth.Errorf(berth.Invalid, "unknown propagation %.64q: want one of %v", string(c.Propagation), berth.Propagations)
	}
	if r.PE != nil && c.Propagation != berth.Background && tx.occupies(r.Job, r.UID) {
		return berth.Errorf(berth.Invalid, "propagation %q: %s is a running processing element; want %s", c.Propagation, r.Name, berth.Background)
	}
	if row := tx.StreamJob(r.Owner); r.PE != nil && row != nil && tx.Managed(r) && row.Plan.Object(r.Kind, r.Name) != nil {
		n := *row
		d := berth.DeletedPE{Name: r.Name, UID: r.UID, Launch: r.PE.Launch}
		if tx.occupies(r.Job, r.PE.Before) { // then it has no allocation of its own yet
			d.UID = r.PE.Before
		}
		n.Deleted = append(slices.Clone(n.Deleted), d)
		tx.putStream(row, &n)
	}
	if r.PE != nil {
		tx.stopPE(r, berth.StopPEGone, c.Now)
	}
	tx.removeResource(r)
	return nil
}

// stopPE stops the live allocations of a processing element.
func (tx *Tx) stopPE(pe *berth.Object, why berth.StopReason, now int64) {
	for _, old := range tx.liveOf(tx.AllocsOfPE(pe), func(a *berth.Alloc) bool { return a.Wanted() }) {
		a, more := old.With()
		a.ModifyTime, a.AllocModifyIndex = now, tx.Index
		a.Desired, more.StopReason, more.DesiredDescription = berth.DesiredStop, why, why.String()
		tx.changeAlloc(old, a)
	}
}

// CollectResources removes resources that are no longer planned.
type CollectResources struct {
	ByLeader
	UIDs []berth.UID
}

// Apply implements Command. Missing resources are skipped; if all are missing,
// the command was applied before. A planned resource, or a processing element
// that holds a node, refuses the whole command.
func (c *CollectResources) Apply(tx *Tx) error {
	if n := len(c.UIDs); n == 0 || n > MaxResources {
		return berth.Errorf(berth.Invalid, "collect: must name 1 to %d resources, got %d", MaxResources, n)
	}
	// Check all before the first change. One that is gone is no error.
	var gone []*berth.Object
	for i, uid := range c.UIDs {
		r := tx.Resource(uid)
		if r == nil || slices.Contains(c.UIDs[:i], uid) {
			continue
		}
		if err := tx.collectable(r); err != nil {
			return err
		}
		gone = append(gone, r)
	}
	if gone == nil {
		return berth.Refusef(berth.CodeAlreadyDone, "none of the %d resources is there", len(c.UIDs))
	}
	for _, r := range gone {
		tx.removeResource(r)
	}
	return nil
}

// collectable refuses to collect a resource that must stay.
func (tx *Tx) collectable(r *berth.Object) error {
	uid := r.UID.Text(berth.KindLetter(r.Kind))
	if r.Owner.IsZero() {
		return berth.Refusef(berth.CodeOwnerMissing, "%s %q, %s, was left to itself; only a user deletes it", r.Kind, r.Name, uid)
	}
	if row := tx.StreamJob(r.Owner); tx.Managed(r) && !Swept(row, r) {
		return berth.Refusef(berth.CodeStaleGeneration, "%s %q, %s, is of generation %d, and its job at %d: it is to stay", r.Kind, r.Name, uid, r.Generation, row.Generation)
	}
	if r.PE != nil && tx.occupies(r.Job, r.UID) {
		return berth.Refusef(berth.CodeNotEmpty, "%s, %s, has an allocation that has not ended", r.Name, uid)
	}
	return nil
}

// Swept reports whether a resource of a live job must be removed: it belongs to
// an older generation, and the current plan does not have it.
func Swept(row *berth.StreamJob, r *berth.Object) bool {
	return r.Generation < row.Generation && row.Plan.Object(r.Kind, r.Name) == nil
}
