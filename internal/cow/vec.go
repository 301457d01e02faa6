package cow

import "iter"

// width is the number of values in a leaf of a Vec, and of children in an inner
// block.
const (
	bits  = 5
	width = 1 << bits
)

// Vec is an array that grows as it is set. The zero Vec is empty.
type Vec[T any] struct {
	root  *branch[T]
	depth int // levels of branches above the leaves
}

// branch is an inner block. It has kids or leaves, by its level; a missing one
// holds zero values only.
type branch[T any] struct {
	edit   uint64
	kids   *[width]*branch[T] // above the lowest level
	leaves *[width]*leaf[T]   // on the lowest level
}

// leaf is a block of values. Only the edit that made it may change it.
type leaf[T any] struct {
	edit uint64
	vals [width]T
}

// Get returns the i-th value, zero if it was never set.
func (v *Vec[T]) Get(i uint32) (zero T) {
	if p := v.At(i); p != nil {
		return *p
	}
	return zero
}

// At returns a pointer to the i-th value for reading, or nil if no value of its
// leaf was set.
func (v *Vec[T]) At(i uint32) *T {
	b := v.root
	if b == nil || uint64(i)>>(bits*(v.depth+1)) != 0 {
		return nil
	}
	for d := v.depth; d > 1; d-- {
		if b = b.kids[i>>(bits*d)%width]; b == nil {
			return nil
		}
	}
	l := b.leaves[i>>bits%width]
	if l == nil {
		return nil
	}
	return &l.vals[i%width]
}

// Set sets the i-th value.
func (v *Vec[T]) Set(edit uint64, i uint32, x T) { *v.Edit(edit, i) = x }

// Edit returns a pointer to the i-th value, which this edit may change.
func (v *Vec[T]) Edit(edit uint64, i uint32) *T {
	if v.root == nil {
		v.root, v.depth = &branch[T]{edit: edit, leaves: new([width]*leaf[T])}, 1
	}
	for uint64(i)>>(bits*(v.depth+1)) != 0 {
		top := &branch[T]{edit: edit, kids: new([width]*branch[T])}
		top.kids[0] = v.root
		v.root = top
		v.depth++
	}
	v.root = v.root.own(edit)
	b := v.root
	for d := v.depth; d > 1; d-- {
		kid := &b.kids[i>>(bits*d)%width]
		switch {
		case *kid != nil:
			*kid = (*kid).own(edit)
		case d == 2:
			*kid = &branch[T]{edit: edit, leaves: new([width]*leaf[T])}
		default:
			*kid = &branch[T]{edit: edit, kids: new([width]*branch[T])}
		}
		b = *kid
	}
	l := &b.leaves[i>>bits%width]
	switch {
	case *l == nil:
		*l = &leaf[T]{edit: edit}
	case (*l).edit != edit:
		c := **l
		c.edit = edit
		*l = &c
	}
	return &(*l).vals[i%width]
}

// own returns b if it belongs to edit, or else a copy that does. The copy
// shares its children with b until they are owned too.
func (b *branch[T]) own(edit uint64) *branch[T] {
	if b.edit == edit {
		return b
	}
	c := &branch[T]{edit: edit}
	if b.kids != nil {
		kids := *b.kids
		c.kids = &kids
	}
	if b.leaves != nil {
		leaves := *b.leaves
		c.leaves = &leaves
	}
	return c
}

// Runs returns the values below n in contiguous runs, each with the index of
// its first value, so that a scan needs no look-up per value. Runs that were
// never set are left out.
func (v *Vec[T]) Runs(n uint32) iter.Seq2[uint32, []T] {
	return func(yield func(uint32, []T) bool) {
		if v.root != nil {
			v.root.runs(v.depth, 0, n, yield)
		}
	}
}

// runs yields the leaves below b that exist, each with the index of its first
// value, cut at n. It returns false once yield did.
func (b *branch[T]) runs(depth int, base, n uint32, yield func(uint32, []T) bool) bool {
	for i := range uint32(width) {
		at := base + i<<(bits*depth)
		if at >= n || at < base { // at < base: overflow past the largest index
			return true
		}
		if depth > 1 {
			if k := b.kids[i]; k != nil && !k.runs(depth-1, at, n, yield) {
				return false
			}
		} else if l := b.leaves[i]; l != nil && !yield(at, l.vals[:min(width, n-at)]) {
			return false
		}
	}
	return true
}
