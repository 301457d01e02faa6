package place

import (
	"math"
	"sync"
)

// candidate is a node that could take an instance.
type candidate struct {
	score  float64
	tie    uint32 // decides between equal scores, the lower first
	number uint32 // of the node; decides between equal ties
}

func (a candidate) before(b candidate) bool {
	if a.score != b.score {
		return a.score > b.score
	}
	return a.tie < b.tie || a.tie == b.tie && a.number < b.number
}

// worst comes after every candidate.
var worst = candidate{score: math.Inf(-1), tie: math.MaxUint32, number: math.MaxUint32}

// candidates is a heap, the best first.
type candidates []candidate

func (h candidates) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

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

func (h *candidates) pop() {
	n := len(*h) - 1
	(*h)[0] = (*h)[n]
	*h = (*h)[:n]
	h.down(0)
}

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

// cut brings the best n to the front, in no order, and drops the others:
// quickselect, which looks at each about twice.
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

// bucket holds candidates whose scores change together: their order among one
// another stays, whatever is placed elsewhere. Without spread blocks there is
// one. With them there is one for each combination of values and each number
// of scorers that speak of a node, and scores are sums without the word of the
// spread scorer, which is the same for all on the shelf.
type bucket struct {
	list  candidates
	floor candidate // while nodes are looked at: what is not before it is not among the best

	combo   int32     // the combination of values, see spreads
	divisor float64   // of how many scorers the score is the sum, with the spread's; 1 if it is a mean
	best    candidate // the first of the list, with its whole score
	at      int       // place of the shelf in shelves.order
}

// smallList is how many are rather kept sorted than sorted out.
const smallList = 8

// insert puts a candidate into a sorted list of at most n, from which the last
// falls. With a full list it is one that is before the last.
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

// offer puts a candidate on the shelf unless keep others are better.
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

// buckets is a heap of shelves, the one with the best candidate first.
type buckets struct {
	all   []bucket
	order []int32
}

// add returns the number of a new, empty shelf.
func (h *buckets) add(combo int32, voice float64) int32 {
	n := len(h.all)
	if n < cap(h.all) { // its list is used again
		h.all = h.all[:n+1]
	} else {
		h.all = append(h.all, bucket{})
	}
	h.all[n] = bucket{list: h.all[n].list[:0], floor: worst, combo: combo, divisor: voice}
	return int32(n)
}

// start makes heaps of what lies on the shelves. term is the word of the
// spread scorer for a combination.
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

// setBest works out the whole score of the first on the shelf.
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

// first returns the shelf with the best candidate; nil if there are none, and
// an empty one if there are no candidates.
func (h *buckets) first() *bucket {
	if len(h.order) == 0 {
		return nil
	}
	return &h.all[h.order[0]]
}

// enter puts a new shelf in order.
func (h *buckets) enter(n int32) {
	h.all[n].at = len(h.order)
	h.order = append(h.order, n)
}

// fix restores the order after a shelf changed.
func (h *buckets) fix(s *bucket, term func(combo int32) float64) {
	s.setBest(term)
	if len(h.order) > 1 && !h.down(s.at) {
		h.up(s.at)
	}
}

func (h *buckets) before(i, j int) bool {
	return h.all[h.order[i]].best.before(h.all[h.order[j]].best)
}

func (h *buckets) swap(i, j int) {
	h.order[i], h.order[j] = h.order[j], h.order[i]
	h.all[h.order[i]].at, h.all[h.order[j]].at = i, j
}

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

// rankBuffers is what a group is sorted on. Desks are used again: a list of all nodes
// for each group that is placed would be most of what a decision allocates.
type rankBuffers struct {
	buckets buckets
	odd     bitmap
}

var rankPool = sync.Pool{New: func() any { return new(rankBuffers) }}

func (d *rankBuffers) clear() {
	d.buckets.all = d.buckets.all[:0]
	d.odd = d.odd[:0]
}

// bitmap is a set of node numbers.
type bitmap []uint64

// add puts a number into the set.
func (b *bitmap) add(n uint32) {
	for int(n/64) >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bitmap) has(n uint32) bool {
	i := int(n / 64)
	return i < len(b) && b[i]>>(n%64)&1 != 0
}
