package state

import (
	"iter"
	"slices"

	"berth/internal/cow"
)

// insert stores a new row in a free slot, which it returns. The caller adds it
// to the indexes.
func (r *rows[T]) insert(tx *Tx, v *T) uint32 {
	slot := r.next
	if r.free != nil {
		slot, r.free = r.free.slot, r.free.rest
	} else {
		r.next++
	}
	r.count++
	r.set(tx, slot, v)
	return slot
}

// set replaces the row in a slot. From then on v is shared with snapshots and
// must not change.
func (r *rows[T]) set(tx *Tx, slot uint32, v *T) {
	freeze(v)
	r.vec.Set(tx.edit, slot, v)
	r.changed = tx.Index
}

// remove empties a slot for reuse. The caller removes it from the indexes
// first, or they would lead to another row.
func (r *rows[T]) remove(tx *Tx, slot uint32) {
	r.vec.Set(tx.edit, slot, nil)
	r.free = &freeSlot{slot, r.free}
	r.count--
	r.changed = tx.Index
}

// find returns the row with a key that match accepts. The keys of an index are
// halves of IDs or hashes, which two rows may share.
func find[T any](r *rows[T], ix *cow.Tree[uint64], key uint64, match func(*T) bool) (slot uint32, v *T) {
	for s := range ix.Of(key) {
		if v := r.vec.Get(s); match(v) {
			return s, v
		}
	}
	return 0, nil
}

// of returns the rows with a key that match accepts, in order of slot.
func of[T any](r *rows[T], ix *cow.Tree[uint64], key uint64, match func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for s := range ix.Of(key) {
			if v := r.vec.Get(s); match(v) && !yield(v) {
				return
			}
		}
	}
}

// rowsOf returns the rows that pairs refer to.
func rowsOf[T any, K any](r *rows[T], pairs iter.Seq2[K, uint32]) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, s := range pairs {
			if !yield(r.vec.Get(s)) {
				return
			}
		}
	}
}

// slotsOf yields the slots of an index's entries, without the keys.
func slotsOf[K any](pairs iter.Seq2[K, uint32]) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, s := range pairs {
			if !yield(s) {
				return
			}
		}
	}
}

// settled returns rows that come in the order of an index in an order that does
// not depend on slots: rows with equal index values are sorted.
func settled[T any](in iter.Seq[*T], index func(*T) uint64, compare func(a, b *T) int) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		var group []*T
		// Rows of one index are gathered, sorted and yielded together.
		flush := func() bool {
			slices.SortFunc(group, compare)
			for _, v := range group {
				if !yield(v) {
					return false
				}
			}
			group = group[:0]
			return true
		}
		for v := range in {
			if len(group) > 0 && index(group[0]) != index(v) && !flush() {
				return
			}
			group = append(group, v)
		}
		flush()
	}
}
