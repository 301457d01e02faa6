// Package cow has two containers with cheap snapshots: an ordered set of (key,
// slot) pairs and a growing array. A snapshot is a copy of the small struct.
// Later edits copy the blocks that they change, so the snapshot never changes.
//
// An edit is a number that owns the blocks it made and changes them in place.
// After taking a snapshot, the writer must continue with an unused number.
// There is one writer at a time; readers need no lock.
package cow

import (
	"cmp"
	"iter"
)

// fan is the largest number of pairs in a block: with keys of 8 bytes a leaf
// then exactly fills an allocation of 768 bytes.
const fan = 62

// low is the smallest number of pairs in a block before it is merged with a
// neighbour.
const low = fan / 4

// Tree is an ordered set of (key, slot) pairs. One key may have many slots.
// The zero Tree is empty.
type Tree[K cmp.Ordered] struct {
	root *block[K]
	len  int // number of pairs
}

// block is a leaf if kids is nil. In an inner block, pair i is the smallest
// pair below kids[i]; pair 0 is ignored.
type block[K cmp.Ordered] struct {
	edit  uint64 // that owns the block
	n     int32  // pairs in use
	last  int32  // where the last pair was inserted
	kids  *[fan]*block[K]
	keys  [fan]K
	slots [fan]uint32
}

// Len returns the number of pairs.
func (t *Tree[K]) Len() int { return t.len }

// less orders pairs.
func less[K cmp.Ordered](k1 K, s1 uint32, k2 K, s2 uint32) bool {
	return k1 < k2 || k1 == k2 && s1 < s2
}

// seek returns the position of the first pair that is not below (k, s).
func (b *block[K]) seek(k K, s uint32) int {
	lo, hi := 0, int(b.n)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if less(b.keys[m], b.slots[m], k, s) {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// child returns the position of the child whose range contains (k, s).
func (b *block[K]) child(k K, s uint32) int {
	lo, hi := 1, int(b.n) // the first child has everything below the second's pair
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if less(k, s, b.keys[m], b.slots[m]) {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo - 1
}

// Has reports whether the pair is in the set.
func (t *Tree[K]) Has(k K, s uint32) bool {
	b := t.root
	if b == nil {
		return false
	}
	for b.kids != nil {
		b = b.kids[b.child(k, s)]
	}
	i := b.seek(k, s)
	return i < int(b.n) && b.keys[i] == k && b.slots[i] == s
}

// First returns the smallest slot of a key.
func (t *Tree[K]) First(k K) (slot uint32, ok bool) {
	for s := range t.Of(k) {
		return s, true
	}
	return 0, false
}

// Of returns the slots of one key, in order.
func (t *Tree[K]) Of(k K) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for key, s := range t.From(k, 0) {
			if key != k || !yield(s) {
				return
			}
		}
	}
}

// All returns every pair in order.
func (t *Tree[K]) All() iter.Seq2[K, uint32] {
	return func(yield func(K, uint32) bool) {
		if t.root != nil {
			t.root.all(yield)
		}
	}
}

// From returns the pairs at or after (k, s), in order.
func (t *Tree[K]) From(k K, s uint32) iter.Seq2[K, uint32] {
	return func(yield func(K, uint32) bool) {
		if t.root != nil {
			t.root.from(k, s, yield)
		}
	}
}

// Back returns every pair in descending order.
func (t *Tree[K]) Back() iter.Seq2[K, uint32] {
	return func(yield func(K, uint32) bool) {
		if t.root != nil {
			t.root.back(yield)
		}
	}
}

// BackFrom returns the pairs at or before (k, s), in descending order.
func (t *Tree[K]) BackFrom(k K, s uint32) iter.Seq2[K, uint32] {
	return func(yield func(K, uint32) bool) {
		if t.root != nil {
			t.root.backFrom(k, s, yield)
		}
	}
}

// all yields the pairs below b in order, and returns false once yield did.
func (b *block[K]) all(yield func(K, uint32) bool) bool {
	for i := range b.n {
		if b.kids != nil {
			if !b.kids[i].all(yield) {
				return false
			}
		} else if !yield(b.keys[i], b.slots[i]) {
			return false
		}
	}
	return true
}

// from yields the pairs below b from (k, s) on, in order, and returns false
// once yield did.
func (b *block[K]) from(k K, s uint32, yield func(K, uint32) bool) bool {
	if b.kids == nil {
		for i := b.seek(k, s); i < int(b.n); i++ {
			if !yield(b.keys[i], b.slots[i]) {
				return false
			}
		}
		return true
	}
	// Only the first child has pairs before the start.
	i := b.child(k, s)
	if !b.kids[i].from(k, s, yield) {
		return false
	}
	for i++; i < int(b.n); i++ {
		if !b.kids[i].all(yield) {
			return false
		}
	}
	return true
}

// back yields the pairs below b in reverse order, and returns false once yield
// did.
func (b *block[K]) back(yield func(K, uint32) bool) bool {
	for i := int(b.n) - 1; i >= 0; i-- {
		if b.kids != nil {
			if !b.kids[i].back(yield) {
				return false
			}
		} else if !yield(b.keys[i], b.slots[i]) {
			return false
		}
	}
	return true
}

// backFrom yields the pairs below b in reverse order, beginning with (k, s)
// itself if it is there. It returns false once yield did.
func (b *block[K]) backFrom(k K, s uint32, yield func(K, uint32) bool) bool {
	if b.kids == nil {
		i := b.seek(k, s)
		// seek finds the first pair that is not before it: step back unless it
		// is the pair itself.
		if i == int(b.n) || b.keys[i] != k || b.slots[i] != s {
			i--
		}
		for ; i >= 0; i-- {
			if !yield(b.keys[i], b.slots[i]) {
				return false
			}
		}
		return true
	}
	// Only this child has pairs after the start.
	i := b.child(k, s)
	if !b.kids[i].backFrom(k, s, yield) {
		return false
	}
	for i--; i >= 0; i-- {
		if !b.kids[i].back(yield) {
			return false
		}
	}
	return true
}
