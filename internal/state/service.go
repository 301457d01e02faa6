package state

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"berth"
)

// Service returns the registration with that ID, or nil.
func (s *Snapshot) Service(id string) *berth.ServiceRegistration {
	slot, ok := s.services.byID.First(id)
	if !ok {
		return nil
	}
	return s.services.vec.Get(slot)
}

// Services returns all registrations in order of namespace, name and ID.
func (s *Snapshot) Services() iter.Seq[*berth.ServiceRegistration] {
	return rowsOf(&s.services.rows, s.services.byName.All())
}

// ServicesNamed returns the registrations of a service in order of ID.
func (s *Snapshot) ServicesNamed(k berth.ServiceKey) iter.Seq[*berth.ServiceRegistration] {
	prefix := serviceKey(k)
	return func(yield func(*berth.ServiceRegistration) bool) {
		for key, slot := range s.services.byName.From(prefix, 0) {
			if !strings.HasPrefix(key, prefix) || !yield(s.services.vec.Get(slot)) {
				return
			}
		}
	}
}

// ServicesOf returns the registrations of an allocation, in no particular
// order.
func (s *Snapshot) ServicesOf(id berth.AllocID) iter.Seq[*berth.ServiceRegistration] {
	hi, _ := id.Words()
	return of(&s.services.rows, &s.services.byAlloc, hi, func(r *berth.ServiceRegistration) bool { return r.AllocID == id })
}

// ServicesOn returns the registrations of a node, in no particular order.
func (s *Snapshot) ServicesOn(id berth.NodeID) iter.Seq[*berth.ServiceRegistration] {
	hi, _ := id.Words()
	return of(&s.services.rows, &s.services.byNode, hi, func(r *berth.ServiceRegistration) bool { return r.NodeID == id })
}

// index adds a row to the indexes or removes it.
func (t *serviceTable) index(tx *Tx, r *berth.ServiceRegistration, slot uint32, there bool) {
	on, _ := r.NodeID.Words()
	of, _ := r.AllocID.Words()
	name := serviceKey(r.Key()) + r.ID
	if there {
		t.byID.Add(tx.edit, r.ID, slot)
		t.byName.Add(tx.edit, name, slot)
		t.byNode.Add(tx.edit, on, slot)
		t.byAlloc.Add(tx.edit, of, slot)
		return
	}
	t.byID.Remove(tx.edit, r.ID, slot)
	t.byName.Remove(tx.edit, name, slot)
	t.byNode.Remove(tx.edit, on, slot)
	t.byAlloc.Remove(tx.edit, of, slot)
}

// putService stores a registration, replacing the one with its ID if it exists.
func (tx *Tx) putService(r *berth.ServiceRegistration) {
	t := &tx.services
	slot, ok := t.byID.First(r.ID)
	if !ok {
		t.index(tx, r, t.insert(tx, r), true)
		tx.note(Services, nil, r)
		return
	}
	old := t.vec.Get(slot)
	t.index(tx, old, slot, false)
	t.set(tx, slot, r)
	t.index(tx, r, slot, true)
	tx.note(Services, old, r)
}

// removeService deletes a service registration, if it is still there.
func (tx *Tx) removeService(r *berth.ServiceRegistration) {
	t := &tx.services
	slot, ok := t.byID.First(r.ID)
	if !ok {
		return
	}
	t.index(tx, r, slot, false)
	t.remove(tx, slot)
	tx.note(Services, r, nil)
}

// endServices removes registrations of an allocation or node that is gone.
func (tx *Tx) endServices(rows iter.Seq[*berth.ServiceRegistration]) {
	if tx.services.count == 0 {
		return
	}
	gone := slices.Collect(rows)
	slices.SortFunc(gone, func(a, b *berth.ServiceRegistration) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range gone {
		tx.removeService(r)
	}
}
