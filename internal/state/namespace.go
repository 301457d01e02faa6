package state

import (
	"iter"

	"berth"
)

// Namespace returns the namespace, or nil.
func (s *Snapshot) Namespace(name string) *berth.Namespace {
	t := &s.namespaces
	slot, ok := t.byName.First(name)
	if !ok {
		return nil
	}
	return t.vec.Get(slot)
}

// Namespaces returns all namespaces in order of name.
func (s *Snapshot) Namespaces() iter.Seq[*berth.Namespace] {
	t := &s.namespaces
	return rowsOf(&t.rows, t.byName.All())
}

// putNamespace stores a namespace. old is the row it replaces, or nil.
func (tx *Tx) putNamespace(old, n *berth.Namespace) {
	t := &tx.namespaces
	if old == nil {
		t.byName.Add(tx.edit, n.Name, t.insert(tx, n))
	} else {
		slot, _ := t.byName.First(n.Name)
		t.set(tx, slot, n)
	}
	tx.note(Namespaces, anyOrNil(old), n)
}
