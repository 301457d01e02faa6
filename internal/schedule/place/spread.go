package place

import (
	"berth/internal/condition"
	"slices"

	"berth"
)

// spreads distributes the instances of one group over the values of node
// attributes, as the spread blocks of its job and the group ask.
//
// Each block has an ideal number of instances for each value: for a target its
// percentage of the group's count; for other values an equal part of what the
// targets leave, or of everything without targets. The other values are those
// of nodes that could take an instance when the group's turn comes, or that
// have instances of the group. A block scores a node by its value:
//
//	(ideal - there) / most
//
// Here, there is the number of the group's instances that have the value, and
// most is the block's largest ideal. So the score is 1 for the value that
// should get most and has none, 0 for one that has its share, and highest for
// the value that lacks most: with equal nodes, the ideal numbers are met within
// one. Above its share a value scores below 0; with x as the excess relative to
// most: -x / (1 + x). A node without the attribute, and a value that should get
// nothing, score -1.
//
// The spread score is the weighted mean of the blocks. Two blocks are kept
// together, see joint.
type spreads struct {
	region  string // of the nodes
	blocks  []*block
	unique  bool             // a value depends on the node, not only on its class
	combos  []combo          // combinations of values
	byKey   []int32          // by the end of the steps: index of the combination plus one, 0 if none
	steps   map[uint64]int32 // with several blocks: from the values so far and the next value to the next state
	byClass []int32          // by class number: index of its combination plus one, 0 if unknown
	count   float64          // of the group
	values  []int32          // of the current node
	slab    []int32          // the memory of combos' values
	spare   []*block         // for reuse
	joint   *joint           // keeps two blocks together; nil with one or many
}

// block is one spread block.
type block struct {
	attribute string
	weight    float64 // relative to the sum of all weights
	values    []value
	byName    map[string]int32 // index in values
	rest      float64          // percentage that values without a target share
	most      float64
}

// value is one value of a block's attribute.
type value struct {
	target bool    // the spread names it
	ideal  float64 // instances that it should have
	used   int     // instances that it has
	seen   bool    // by a node that could take an instance
	combos []int32 // combinations that contain it
}

// combo is a combination of values, one for each block; -1 is no value.
type combo struct {
	values  []int32
	score   float64
	barred  bool               // two blocks would miss a target that they can meet, see joint
	buckets [scorers + 1]int32 // by number of scorers: its bucket plus one, 0 if none yet
}

// anyOther is a target that stands for all values without a target of their
// own.
const anyOther = "*"

// newSpreads returns the spreads of a group, nil if no block has a weight.
func newSpreads(p *Placer, group *berth.TaskGroup) *spreads {
	if len(p.job.Spreads)+len(group.Spreads) == 0 {
		return nil
	}
	s := &p.spreads
	s.reset(int(p.snap.Classes()), group)
	s.region = p.job.Region
	total := 0.0
	// Blocks of the job and of the group count by weight, in one sum.
	for _, list := range [2][]berth.Spread{p.job.Spreads, group.Spreads} {
		for i := range list {
			if list[i].Weight > 0 {
				s.blocks = append(s.blocks, s.newBlock(&list[i]))
				s.unique = s.unique || unique(list[i].Attribute)
				total += float64(list[i].Weight)
			}
		}
	}
	if len(s.blocks) == 0 {
		return nil
	}
	for _, b := range s.blocks {
		b.weight /= total
	}
	// Instances that are placed already have used up part of the targets.
	for _, x := range p.peers {
		if x.group.Name == group.Name {
			s.add(s.comboOf(x.node), nil)
		}
	}
	return s
}

// reset clears the data of the previous group and keeps the memory.
func (s *spreads) reset(classes int, group *berth.TaskGroup) {
	s.spare = append(s.spare, s.blocks...)
	s.byClass = slices.Grow(s.byClass[:0], classes)[:classes]
	clear(s.byClass)
	clear(s.byKey)
	clear(s.steps)
	s.blocks, s.combos, s.byKey, s.slab, s.unique, s.joint = s.blocks[:0], s.combos[:0], s.byKey[:0], s.slab[:0], false, nil
	s.count = float64(max(group.Count, 1))
}

// newBlock returns a block for one spread, in memory of an earlier one if there
// is any. What targets leave of 100 % is for the other values.
func (s *spreads) newBlock(x *berth.Spread) *block {
	b := &block{byName: map[string]int32{}}
	if n := len(s.spare); n > 0 {
		b, s.spare = s.spare[n-1], s.spare[:n-1]
		clear(b.byName)
	}
	*b = block{attribute: x.Attribute, weight: float64(x.Weight), values: b.values[:0], byName: b.byName, rest: 100}
	for _, t := range x.SpreadTarget {
		b.rest -= float64(t.Percent)
	}
	for _, t := range x.SpreadTarget {
		// An explicit target for the rest comes before what the others leave.
		if t.Value == anyOther {
			b.rest = float64(t.Percent)
			continue
		}
		v := &b.values[b.value(t.Value)]
		v.target, v.ideal = true, float64(t.Percent)/100*s.count
	}
	b.rest = max(b.rest, 0)
	return b
}

// value returns the index of the value of that name.
func (b *block) value(name string) int32 {
	i, ok := b.byName[name]
	if !ok {
		i = int32(len(b.values))
		b.byName[name] = i
		if n := len(b.values); n < cap(b.values) { // reuse its list
			b.values = b.values[:n+1]
			b.values[n] = value{combos: b.values[n].combos[:0]}
		} else {
			b.values = append(b.values, value{})
		}
	}
	return i
}

// comboOn returns the combination of a node, given its class.
func (s *spreads) comboOn(class uint32, n *berth.Node) int32 {
	if s.unique {
		return s.comboOf(n)
	}
	if c := s.byClass[class]; c > 0 {
		return c - 1
	}
	c := s.comboOf(n)
	s.byClass[class] = c + 1
	return c
}

// comboOf returns the combination of a node.
func (s *spreads) comboOf(n *berth.Node) int32 {
	s.values = s.values[:0]
	for _, b := range s.blocks {
		at := int32(-1)
		if v, ok := condition.Resolve(b.attribute, n, s.region); ok {
			at = b.value(v)
		}
		s.values = append(s.values, at)
	}
	// The values after the first narrow down the combination one by one.
	at := uint64(s.values[0] + 1)    // 0 is no value
	for i, v := range s.values[1:] { // there are fewer values than nodes, and fewer nodes than 1<<28
		step := uint64(i)<<58 | at<<29 | uint64(v+1)
		next, ok := s.steps[step]
		if !ok {
			next = int32(len(s.steps)) + 1
			if s.steps == nil {
				s.steps = map[uint64]int32{}
			}
			s.steps[step] = next
		}
		at = uint64(next)
	}
	for uint64(len(s.byKey)) <= at {
		s.byKey = append(s.byKey, 0)
	}
	if s.byKey[at] == 0 {
		s.byKey[at] = s.newCombo() + 1
	}
	return s.byKey[at] - 1
}

// newCombo adds a combination with s.values.
func (s *spreads) newCombo() int32 {
	c := int32(len(s.combos))
	at := len(s.slab)
	s.slab = append(s.slab, s.values...)
	s.combos = append(s.combos, combo{values: s.slab[at:len(s.slab):len(s.slab)]})
	for i, b := range s.blocks {
		if v := s.values[i]; v >= 0 {
			b.values[v].combos = append(b.values[v].combos, c)
		}
	}
	s.rescore(c)
	return c
}

// noteSeen records that a node with the combination could take an instance.
func (s *spreads) noteSeen(c int32) {
	for i, b := range s.blocks {
		if v := s.combos[c].values[i]; v >= 0 {
			b.values[v].seen = true
		}
	}
}

// setIdeals computes the ideal numbers, once all nodes were seen.
func (s *spreads) setIdeals() {
	for _, b := range s.blocks {
		// The values without a target share the rest evenly.
		others := 0.0
		for i := range b.values {
			if v := &b.values[i]; !v.target && (v.seen || v.used > 0) {
				others++
			}
		}
		b.most = 0
		for i := range b.values {
			v := &b.values[i]
			if !v.target && others > 0 {
				v.ideal = b.rest / 100 * s.count / others
			}
			b.most = max(b.most, v.ideal)
		}
	}
	// The ideals have changed, so every score is out of date.
	for c := range s.combos {
		s.rescore(int32(c))
	}
}

// score returns the spread score of nodes with the combination.
func (s *spreads) score(c int32) float64 { return s.combos[c].score }

// rescore computes the score of a combination again. It is called after the use
// of one of its values changed.
func (s *spreads) rescore(c int32) {
	if s.combos[c].barred {
		s.combos[c].score = -1
		return
	}
	sum := 0.0
	for i, b := range s.blocks {
		sum += b.weight * b.score(s.combos[c].values[i])
	}
	s.combos[c].score = sum
}

// score returns the block's score of nodes with a value.
func (b *block) score(i int32) float64 {
	if i < 0 {
		return -1
	}
	return b.scoreAt(i, b.values[i].used)
}

// scoreAt returns the block's score of nodes with a value that has that many
// instances.
func (b *block) scoreAt(i int32, used int) float64 {
	v := &b.values[i]
	if v.ideal == 0 {
		return -1
	}
	x := (v.ideal - float64(used)) / b.most
	if x < 0 {
		x /= 1 - x
	}
	return x
}

// add records one more instance on a node with the combination, and calls
// changed for all combinations whose score changes.
func (s *spreads) add(c int32, changed func(combo int32)) {
	if s.joint != nil && !s.joint.take(c) {
		s.joint = nil // it had to go elsewhere: from here on each block speaks for itself
		for i := range s.combos {
			if s.combos[i].barred {
				s.combos[i].barred = false
				s.rescore(int32(i))
				changed(int32(i))
			}
		}
	}
	for i, b := range s.blocks {
		v := s.combos[c].values[i]
		if v < 0 {
			continue
		}
		b.values[v].used++
		if changed == nil {
			continue
		}
		for _, other := range b.values[v].combos {
			s.rescore(other)
			changed(other)
		}
	}
}
