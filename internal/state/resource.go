package state

import (
	"iter"

	"berth"
)

// find returns an object and its slot, or nil.
func (t *resourceTable) find(uid berth.UID) (slot uint32, r *berth.Object) {
	if t.count == 0 {
		return 0, nil
	}
	return find(&t.rows, &t.byUID, uid.Index, func(r *berth.Object) bool { return r.UID == uid })
}

// Resource returns the resource with a UID, or nil.
func (s *Snapshot) Resource(uid berth.UID) *berth.Object {
	_, r := s.resources.find(uid)
	return r
}

// ResourceNamed returns the resource of a kind and name that an incarnation of
// a job owns, or nil.
func (s *Snapshot) ResourceNamed(owner berth.UID, kind, name string) *berth.Object {
	if s.resources.count == 0 || owner.IsZero() {
		return nil
	}
	if slot, ok := s.resources.byOwner.First(ownerKey(owner, kind, name)); ok {
		return s.resources.vec.Get(slot)
	}
	return nil
}

// ResourcesOf returns the resources of a kind that an incarnation of a job
// owns, in order of name; if kind is "", all of them, kind by kind.
func (s *Snapshot) ResourcesOf(owner berth.UID, kind string) iter.Seq[*berth.Object] {
	if s.resources.count == 0 || owner.IsZero() {
		return func(func(*berth.Object) bool) {}
	}
	prefix := ownerKey(owner, kind, "")
	if kind == "" {
		prefix = prefix[:len(prefix)-1]
	}
	return startingWith(&s.resources.rows, &s.resources.byOwner, prefix)
}

// owns reports whether an incarnation still owns anything.
func (s *Snapshot) owns(owner berth.UID) bool {
	for range s.ResourcesOf(owner, "") {
		return true
	}
	return false
}

// Dependents returns how many resources hold an incarnation of a stream job
// that is deleted in the foreground: all that it owns.
func (s *Snapshot) Dependents(owner berth.UID) (n int) {
	for range s.ResourcesOf(owner, "") {
		n++
	}
	return n
}

// Resources returns all resources, oldest first.
func (s *Snapshot) Resources() iter.Seq[*berth.Object] {
	return settled(rowsOf(&s.resources.rows, s.resources.byUID.All()),
		func(r *berth.Object) uint64 { return r.UID.Index }, func(a, b *berth.Object) int { return compareUIDs(a.UID, b.UID) })
}

// OrphanedResources returns the resources that their job orphaned, kind by
// kind, oldest first.
func (s *Snapshot) OrphanedResources() iter.Seq[*berth.Object] {
	return startingWith(&s.resources.rows, &s.resources.byOwner, string(make([]byte, 12)))
}

// AllocsOfPE returns the allocations of a processing element, of all its
// launches, in no particular order.
func (s *Snapshot) AllocsOfPE(pe *berth.Object) iter.Seq[*berth.Alloc] {
	return func(yield func(*berth.Alloc) bool) {
		for a := range s.AllocsOf(pe.Job) {
			if ref := a.Rest().PE; ref != nil && ref.UID == pe.UID && !yield(a) {
				return
			}
		}
	}
}

// Zombie reports whether an allocation is kept for inspection because it
// failed: its group's policy asks for that, and its processing element exists
// and was launched again since. It counts for nothing.
func (s *Snapshot) Zombie(a *berth.Alloc) bool {
	ref := a.Rest().PE
	if ref == nil || a.Client != berth.ClientFailed || a.Group.Stream == nil || a.Group.Stream.Policy.DeleteFailed {
		return false
	}
	pe := s.Resource(ref.UID)
	return pe != nil && ref.Launch < pe.PE.Launch
}

// MaxZombies is how many zombies of a processing element are kept, the newest;
// older ones are collected by age like other failed allocations.
const MaxZombies = 5

// occupies reports whether an allocation of a processing element of this job
// holds capacity on a node. The processing element itself may be gone.
func (s *Snapshot) occupies(k berth.JobKey, pe berth.UID) bool {
	if pe.IsZero() {
		return false
	}
	for a := range s.AllocsOf(k) {
		if ref := a.Rest().PE; ref != nil && ref.UID == pe && a.Occupies() {
			return true
		}
	}
	return false
}

// Managed reports whether the servers look after a resource: whether it is
// launched, routed and recreated. Orphans, and resources about to be removed,
// are not.
func (s *Snapshot) Managed(r *berth.Object) bool {
	if r.Owner.IsZero() {
		return false
	}
	_, _, err := s.alive(r.Job, r.Owner)
	return err == nil
}

// Holder returns the exclusive pool that has a node, or nil.
func (s *Snapshot) Holder(id berth.NodeID) *berth.Object {
	if s.resources.held.Len() == 0 {
		return nil
	}
	hi, _ := id.Words()
	_, r := find(&s.resources.rows, &s.resources.held, hi, func(r *berth.Object) bool { return hasNode(r, id) })
	return r
}

// GivenTo returns a shared host pool of an incarnation other than owner that
// has a node, or nil. No exclusive pool may take the node from it. An orphaned
// pool does not count: nothing is launched for it any more.
func (s *Snapshot) GivenTo(id berth.NodeID, owner berth.UID) *berth.Object {
	if s.resources.given.Len() == 0 {
		return nil
	}
	hi, _ := id.Words()
	_, r := find(&s.resources.rows, &s.resources.given, hi, func(r *berth.Object) bool {
		return !r.Owner.IsZero() && r.Owner != owner && hasNode(r, id)
	})
	return r
}

// exclusive reports whether an object is a host pool that shares its nodes with
// no other.
func exclusive(r *berth.Object) bool {
	return r.Object.Pool != nil && r.Object.Pool.Mode == berth.PoolExclusive
}

// putResource stores a resource. old is the row it replaces, or nil.
func (tx *Tx) putResource(old, r *berth.Object) {
	t := &tx.resources
	r.ModifyIndex = tx.Index
	if old == nil {
		r.CreateIndex = tx.Index
		t.link(tx, r)
	} else {
		// The nodes and the owner may have changed, so the indexes must follow.
		slot, _ := t.find(r.UID)
		t.hold(tx, old, slot, false)
		t.set(tx, slot, r)
		t.hold(tx, r, slot, true)
		if was, is := keyOf(old), keyOf(r); was != is {
			t.byOwner.Remove(tx.edit, was, slot)
			t.byOwner.Add(tx.edit, is, slot)
		}
	}
	tx.note(Resources, anyOrNil(old), r)
	tx.changed(r)
}

// changed notes a change of a resource with its job, so that those who look at
// many jobs find the ones that changed.
func (tx *Tx) changed(r *berth.Object) {
	tx.trace(r.Job)
	tx.count(r.Job, r.Owner, func(*Summary) {})
}

// link stores a new row and adds it to the indexes.
func (t *resourceTable) link(tx *Tx, r *berth.Object) uint32 {
	slot := t.insert(tx, r)
	t.byUID.Add(tx.edit, r.UID.Index, slot)
	t.byOwner.Add(tx.edit, keyOf(r), slot)
	t.hold(tx, r, slot, true)
	return slot
}

// hold adds the nodes of a pool to the indexes, or removes them.
func (t *resourceTable) hold(tx *Tx, r *berth.Object, slot uint32, on bool) {
	by := &t.given
	if exclusive(r) {
		by = &t.held
	}
	for _, n := range r.Nodes {
		hi, _ := n.Words()
		if on {
			by.Add(tx.edit, hi, slot)
		} else {
			by.Remove(tx.edit, hi, slot)
		}
	}
}

// removeResource removes a resource. After the last resource of a job that is
// gone, it removes the job's submission too; if the job is stopped or given up,
// its plan.
func (tx *Tx) removeResource(r *berth.Object) {
	t := &tx.resources
	slot, _ := t.find(r.UID)
	t.byUID.Remove(tx.edit, r.UID.Index, slot)
	t.byOwner.Remove(tx.edit, keyOf(r), slot)
	t.hold(tx, r, slot, false)
	t.remove(tx, slot)
	tx.note(Resources, r, nil)
	tx.changed(r)
	if row := tx.StreamJob(r.Owner); row != nil && !tx.owns(r.Owner) {
		tx.emptied(row)
	}
}

// leaveStream removes the submission of a job that is being removed, unless
// something is left of what it owned.
func (tx *Tx) leaveStream(j *berth.Job) {
	slot, row := tx.streams.find(j.UID)
	switch {
	case row == nil:
	case tx.owns(row.UID):
		tx.streams.touch(tx, slot, gone)
	default:
		tx.removeStream(row)
	}
}

// givenUp stores the submission of a job that was stopped or given up.
func (tx *Tx) givenUp(j *berth.Job, n, row *berth.StreamJob) {
	tx.putStream(row, n)
	tx.count(j.Key(), j.UID, func(s *Summary) { s.GivenUp = true })
	if !tx.owns(n.UID) {
		tx.emptied(n)
	}
}
