package state

import (
	"iter"

	"berth/internal/cow"
)

// rows holds the rows of one table in slots. Indexes point to slots, so to
// change a row touches one block however many indexes there are. A slot is
// used again after its row is gone; nothing but this server's memory knows of
// slots.
type rows[T any] struct {
	vec     cow.Vec[*T]
	free    *freeSlot
	next    uint32 // slots from here on were never used
	count   int
	changed uint64 // index of the last change of any row
}

// freeSlot is a list of slots to use again.
type freeSlot struct {
	slot uint32
	rest *freeSlot
}

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

func (r *rows[T]) set(tx *Tx, slot uint32, v *T) {
	freeze(v)
	r.vec.Set(tx.edit, slot, v)
	r.changed = tx.Index
}

func (r *rows[T]) remove(tx *Tx, slot uint32) {
	r.vec.Set(tx.edit, slot, nil)
	r.free = &freeSlot{slot, r.free}
	r.count--
	r.changed = tx.Index
}

// find returns the row of a key that match accepts: keys of an index are
// halves of IDs or hashes, which two rows may share.
func find[T any](r *rows[T], ix *cow.Tree[uint64], key uint64, match func(*T) bool) (slot uint32, v *T) {
	for s := range ix.Of(key) {
		if v := r.vec.Get(s); match(v) {
			return s, v
		}
	}
	return 0, nil
}

// of returns the rows of a key that match accepts, in order of slot.
func of[T any](r *rows[T], ix *cow.Tree[uint64], key uint64, match func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for s := range ix.Of(key) {
			if v := r.vec.Get(s); match(v) && !yield(v) {
				return
			}
		}
	}
}

// rowsOf returns the rows of pairs.
func rowsOf[T any, K any](r *rows[T], pairs iter.Seq2[K, uint32]) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, s := range pairs {
			if !yield(r.vec.Get(s)) {
				return
			}
		}
	}
}

// hash spreads text over 64 bits: FNV-1a.
func hash(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // so that ("ab","c") is not ("a","bc")
	}
	return h
}
