package cow

// Add adds a pair to the set and reports whether it was missing.
func (t *Tree[K]) Add(edit uint64, k K, s uint32) bool {
	if t.root == nil {
		t.root = &block[K]{edit: edit}
	}
	t.root = t.root.own(edit)
	right, added := t.root.add(edit, k, s)
	if right != nil {
		top := &block[K]{edit: edit, n: 2, kids: new([fan]*block[K])}
		top.setKid(0, t.root)
		top.setKid(1, right)
		t.root = top
	}
	if added {
		t.len++
	}
	return added
}

// Remove removes a pair from the set and reports whether it was there.
func (t *Tree[K]) Remove(edit uint64, k K, s uint32) bool {
	if t.root == nil || !t.Has(k, s) { // so that a miss copies nothing
		return false
	}
	t.root = t.root.own(edit)
	t.root.remove(edit, k, s)
	t.len--
	for t.root.kids != nil && t.root.n == 1 {
		t.root = t.root.kids[0]
	}
	if t.root.n == 0 {
		t.root = nil
	}
	return true
}

// own returns a version of b that this edit may change.
func (b *block[K]) own(edit uint64) *block[K] {
	if b.edit == edit {
		return b
	}
	c := *b
	c.edit = edit
	if b.kids != nil {
		kids := *b.kids
		c.kids = &kids
	}
	return &c
}

// setKid makes c the i-th child, with its smallest pair.
func (b *block[K]) setKid(i int, c *block[K]) {
	b.kids[i], b.keys[i], b.slots[i] = c, c.keys[0], c.slots[0]
}

// add adds a pair below b, which the edit owns. If b had to be split, its upper
// part is returned.
func (b *block[K]) add(edit uint64, k K, s uint32) (right *block[K], added bool) {
	if b.kids == nil {
		i := b.seek(k, s)
		if i < int(b.n) && b.keys[i] == k && b.slots[i] == s {
			return nil, false
		}
		return b.put(edit, i, k, s, nil), true
	}
	i := b.child(k, s)
	// The path to the pair is copied, unless this edit owns it already.
	kid := b.kids[i].own(edit)
	b.kids[i] = kid
	up, added := kid.add(edit, k, s)
	// The smallest pair below the child may be the new one.
	if i > 0 || less(k, s, b.keys[0], b.slots[0]) {
		b.keys[i], b.slots[i] = kid.keys[0], kid.slots[0]
	}
	if up == nil {
		return nil, added
	}
	// The child was split: its right half becomes a child too.
	return b.put(edit, i+1, up.keys[0], up.slots[0], up), added
}

// put inserts a pair at position i. If b is full it is split first, and its
// upper part is returned.
func (b *block[K]) put(edit uint64, i int, k K, s uint32, kid *block[K]) (right *block[K]) {
	if b.n < fan {
		b.insert(i, k, s, kid)
		return nil
	}
	at := fan / 2
	if i == fan || i == int(b.last)+1 {
		// Runs of growing keys are frequent (one job's slots, say): split at
		// the insertion point, which leaves full blocks behind instead of
		// half-full ones.
		at = i
	}
	right = b.split(edit, at)
	if i > at || at == fan {
		right.insert(i-at, k, s, kid)
	} else {
		b.insert(i, k, s, kid)
	}
	return right
}

// split moves the pairs from at on to a new block.
func (b *block[K]) split(edit uint64, at int) *block[K] {
	r := &block[K]{edit: edit, n: int32(fan - at)}
	copy(r.keys[:], b.keys[at:])
	copy(r.slots[:], b.slots[at:])
	if b.kids != nil {
		r.kids = new([fan]*block[K])
		copy(r.kids[:], b.kids[at:])
	}
	b.cut(at)
	return r
}

// cut drops the pairs from n on, and their references.
func (b *block[K]) cut(n int) {
	clear(b.keys[n:b.n])
	if b.kids != nil {
		clear(b.kids[n:b.n])
	}
	b.n = int32(n)
}

// insert puts an entry at position i. The block must be owned by the caller's
// edit and must not be full; kid is ignored in a leaf.
func (b *block[K]) insert(i int, k K, s uint32, kid *block[K]) {
	copy(b.keys[i+1:b.n+1], b.keys[i:b.n])
	copy(b.slots[i+1:b.n+1], b.slots[i:b.n])
	b.keys[i], b.slots[i] = k, s
	if b.kids != nil {
		copy(b.kids[i+1:b.n+1], b.kids[i:b.n])
		b.kids[i] = kid
	}
	b.n++
	b.last = int32(i)
}

// delete removes the entry at position i of a block that the caller's edit
// owns.
func (b *block[K]) delete(i int) {
	copy(b.keys[i:], b.keys[i+1:b.n])
	copy(b.slots[i:], b.slots[i+1:b.n])
	if b.kids != nil {
		copy(b.kids[i:], b.kids[i+1:b.n])
	}
	b.cut(int(b.n) - 1)
}

// remove removes an existing pair below b, which the edit owns.
func (b *block[K]) remove(edit uint64, k K, s uint32) {
	if b.kids == nil {
		b.delete(b.seek(k, s))
		return
	}
	i := b.child(k, s)
	kid := b.kids[i].own(edit)
	b.kids[i] = kid
	kid.remove(edit, k, s)
	if kid.n > 0 {
		b.keys[i], b.slots[i] = kid.keys[0], kid.slots[0]
	}
	if kid.n < low {
		b.mend(edit, i)
	}
}

// mend merges a child that has become small with a neighbour, or balances the
// two.
func (b *block[K]) mend(edit uint64, i int) {
	// A single child has no sibling to share with.
	if b.n == 1 {
		if b.kids[0].n == 0 {
			b.delete(0)
		}
		return
	}
	if i == int(b.n)-1 {
		i--
	}
	l, r := b.kids[i].own(edit), b.kids[i+1].own(edit)
	// Join the two if they fit one block, or else share evenly.
	if total := int(l.n + r.n); total <= fan {
		l.take(r, int(r.n))
		b.setKid(i, l)
		b.delete(i + 1)
		return
	} else if l.n < r.n {
		l.take(r, total/2-int(l.n))
	} else {
		l.give(r, int(l.n)-total/2)
	}
	b.setKid(i, l)
	b.setKid(i+1, r)
}

// take moves the first n pairs of r to the end of l.
func (l *block[K]) take(r *block[K], n int) {
	copy(l.keys[l.n:], r.keys[:n])
	copy(l.slots[l.n:], r.slots[:n])
	copy(r.keys[:], r.keys[n:r.n])
	copy(r.slots[:], r.slots[n:r.n])
	if l.kids != nil {
		copy(l.kids[l.n:], r.kids[:n])
		copy(r.kids[:], r.kids[n:r.n])
	}
	l.n += int32(n)
	r.cut(int(r.n) - n)
}

// give moves the last n pairs of l to the front of r.
func (l *block[K]) give(r *block[K], n int) {
	copy(r.keys[n:], r.keys[:r.n])
	copy(r.slots[n:], r.slots[:r.n])
	from := int(l.n) - n
	copy(r.keys[:], l.keys[from:l.n])
	copy(r.slots[:], l.slots[from:l.n])
	if l.kids != nil {
		copy(r.kids[n:], r.kids[:r.n])
		copy(r.kids[:], l.kids[from:l.n])
	}
	r.n += int32(n)
	l.cut(from)
}
