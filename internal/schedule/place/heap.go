package place

import (
	"math"
	"sync"
)

// candidate is a node that could take an instance.
type candidate struct {
	score  float64
	tie    uint32 // breaks ties of the score, lower first
	number uint32 // of the node; breaks ties of tie
}

// before reports whether a is the better candidate. No two are equal, so the
// order in which nodes are looked at does not matter.
func (a candidate) before(b candidate) bool {
	if a.score != b.score {
		return a.score > b.score
	}
	return a.tie < b.tie || a.tie == b.tie && a.number < b.number
}

// worst comes after every candidate.
var worst = candidate{score: math.Inf(-1), tie: math.MaxUint32, number: math.MaxUint32}

// candidates is a heap with the best candidate first.
type candidates []candidate

// init makes a heap of a list in any order.
func (h candidates) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// down moves a candidate that got worse to its place.
func (h candidates) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// pop removes the best candidate. The heap must not be empty.
func (h *candidates) pop() {
	n := len(*h) - 1
	(*h)[0] = (*h)[n]
	*h = (*h)[:n]
	h.down(0)
}

// push adds a candidate to the heap.
func (h *candidates) push(c candidate) {
	*h = append(*h, c)
	for i := len(*h) - 1; i > 0; {
		up := (i - 1) / 2
		if !(*h)[i].before((*h)[up]) {
			return
		}
		(*h)[i], (*h)[up] = (*h)[up], (*h)[i]
		i = up
	}
}

// cut keeps the best n, in no order, by quickselect, which looks at each
// candidate about twice.
func (h *candidates) cut(n int) {
	all := *h
	for lo, hi := 0, len(all); hi-lo > 1; {
		pivot := middle(all[lo], all[(lo+hi)/2], all[hi-1])
		i, j := lo, hi-1
		for i <= j {
			for all[i].before(pivot) {
				i++
			}
			for pivot.before(all[j]) {
				j--
			}
			if i <= j {
				all[i], all[j] = all[j], all[i]
				i++
				j--
			}
		}
		// Only the side that the n-th is in goes on.
		switch {
		case n <= j:
			hi = j + 1
		case n >= i:
			lo = i
		default:
			hi = lo
		}
	}
	*h = all[:n]
}

// middle returns the median, a pivot that sorted lists do not make slow.
func middle(a, b, c candidate) candidate {
	if b.before(a) {
		a, b = b, a
	}
	if c.before(b) {
		b = c
		if b.before(a) {
			b = a
		}
	}
	return b
}

// bucket holds candidates whose scores change together: their relative order
// stays the same whatever is placed elsewhere. Without spread blocks there is
// one bucket. With them, there is one for each combination of attribute values
// and number of other scorers; its scores are sums without the spread score,
// which is the same for the whole bucket.
type bucket struct {
	list  candidates
	floor candidate // while nodes are scored: candidates after it are not among the best

	combo   int32     // index of the combination of values, see spreads
	divisor float64   // number of scorers in the sum, with the spread scorer; 1 if scores are means
	best    candidate // the first of the list, with its full score
	at      int       // place in buckets.order
}

// smallList is the length up to which a list is kept sorted instead of being
// cut.
const smallList = 8

// insert adds a candidate to a sorted list of at most n and drops the last if
// the list is full. In a full list, c must be before the last.
func (h *candidates) insert(c candidate, n int) {
	list := *h
	if len(list) < n {
		list = append(list, c)
		*h = list
	}
	i := len(list) - 1
	for ; i > 0 && c.before(list[i-1]); i-- {
		list[i] = list[i-1]
	}
	list[i] = c
}

// offer adds a candidate unless the bucket has keep better ones.
func (s *bucket) offer(c candidate, keep int) {
	if !c.before(s.floor) {
		return
	}
	if keep <= smallList {
		s.list.insert(c, keep)
		if len(s.list) == keep {
			s.floor = s.list[keep-1]
		}
		return
	}
	s.list = append(s.list, c)
	if len(s.list) >= 2*keep+8 {
		s.list.cut(keep)
		s.floor = s.list[0]
		for _, x := range s.list[1:] {
			if s.floor.before(x) {
				s.floor = x
			}
		}
	}
}

// buckets is a heap of buckets, the one with the best candidate first.
type buckets struct {
	all   []bucket
	order []int32
}

// add returns the number of a new, empty bucket.
func (h *buckets) add(combo int32, voice float64) int32 {
	n := len(h.all)
	if n < cap(h.all) { // reuse its list
		h.all = h.all[:n+1]
	} else {
		h.all = append(h.all, bucket{})
	}
	h.all[n] = bucket{list: h.all[n].list[:0], floor: worst, combo: combo, divisor: voice}
	return int32(n)
}

// start makes heaps of the buckets' lists. term returns the spread score of a
// combination.
func (h *buckets) start(term func(combo int32) float64) {
	h.order = h.order[:0]
	for i := range h.all {
		h.all[i].list.init()
		h.all[i].at = i
		h.order = append(h.order, int32(i))
		h.all[i].setBest(term)
	}
	for i := len(h.order)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// setBest computes the full score of the bucket's first candidate.
func (s *bucket) setBest(term func(combo int32) float64) {
	if len(s.list) == 0 {
		s.best = worst
		return
	}
	s.best = s.list[0]
	if s.divisor != 1 {
		s.best.score = (s.best.score + term(s.combo)) / s.divisor
	}
}

// first returns the bucket with the best candidate, which is empty if there are
// no candidates; nil if there are no buckets.
func (h *buckets) first() *bucket {
	if len(h.order) == 0 {
		return nil
	}
	return &h.all[h.order[0]]
}

// enter adds a new bucket to the heap.
func (h *buckets) enter(n int32) {
	h.all[n].at = len(h.order)
	h.order = append(h.order, n)
}

// fix restores the heap's order after a bucket changed.
func (h *buckets) fix(s *bucket, term func(combo int32) float64) {
	s.setBest(term)
	if len(h.order) > 1 && !h.down(s.at) {
		h.up(s.at)
	}
}

// before compares the best candidates of the buckets at two places of the heap.
func (h *buckets) before(i, j int) bool {
	return h.all[h.order[i]].best.before(h.all[h.order[j]].best)
}

// swap exchanges two places of the heap, and tells both buckets.
func (h *buckets) swap(i, j int) {
	h.order[i], h.order[j] = h.order[j], h.order[i]
	h.all[h.order[i]].at, h.all[h.order[j]].at = i, j
}

// down moves a bucket that got worse to its place, and reports whether it
// moved.
func (h *buckets) down(i int) (moved bool) {
	for {
		c := 2*i + 1
		if c >= len(h.order) {
			return moved
		}
		if c+1 < len(h.order) && h.before(c+1, c) {
			c++
		}
		if !h.before(c, i) {
			return moved
		}
		h.swap(i, c)
		i, moved = c, true
	}
}

// up moves a bucket that got better to its place.
func (h *buckets) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.before(i, p) {
			return
		}
		h.swap(i, p)
		i = p
	}
}

// rankBuffers is the memory for ranking a group's nodes. It is reused: a list
// of all nodes for each group would be most of what a decision allocates.
type rankBuffers struct {
	buckets buckets
	odd     bitmap
}

// rankPool holds the buffers between decisions.
var rankPool = sync.Pool{New: func() any { return new(rankBuffers) }}

// clear empties the buffers and keeps their memory.
func (d *rankBuffers) clear() {
	d.buckets.all = d.buckets.all[:0]
	d.odd = d.odd[:0]
}

// bitmap is a set of node numbers.
type bitmap []uint64

// add adds a number to the set.
func (b *bitmap) add(n uint32) {
	for int(n/64) >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

// has reports whether the number is in the set.
func (b bitmap) has(n uint32) bool {
	i := int(n / 64)
	return i < len(b) && b[i]>>(n%64)&1 != 0
}
