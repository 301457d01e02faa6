package state

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/cow"
	"berth/internal/fit"
	"berth/internal/state/codec"
)

// nodeTable holds nodes by number: a node's slot is its number, which the log
// uses, so the smallest free one is given out on every server alike.
type nodeTable struct {
	rows    cow.Vec[*berth.Node]
	byID    cow.Tree[uint64] // first half of the ID → number
	gaps    cow.Tree[uint32] // runs of numbers that no node has: the first, and how many follow it
	numbers uint32           // numbers from here on were never used
	count   int
	changed uint64
	usage   cow.Vec[fit.Usage]
	classes classTable
	drains  cow.Tree[uint32] // numbers of nodes that are drained
}

// classTable numbers the classes that nodes have now.
type classTable struct {
	rows[class]
	byHash cow.Tree[uint64]
}

// class is what nodes have in common that answer equally to every constraint
// which does not look at what is unique to a node.
type class struct {
	name  string
	nodes int
	some  uint32 // the number of one node of the class, as last seen
}

// Node returns the node, or nil.
func (s *Snapshot) Node(id berth.NodeID) *berth.Node {
	t := &s.nodes
	hi, _ := id.Words()
	for n := range t.byID.Of(hi) {
		if node := t.rows.Get(n); node.ID == id {
			return node
		}
	}
	return nil
}

// NodeByNumber returns the node of that number, or nil.
func (s *Snapshot) NodeByNumber(n uint32) *berth.Node { return s.nodes.rows.Get(n) }

// NodeNumbers is the number of lines in the usage columns.
func (s *Snapshot) NodeNumbers() uint32 { return s.nodes.numbers }

// Nodes returns all nodes in order of ID.
func (s *Snapshot) Nodes() iter.Seq[*berth.Node] {
	return func(yield func(*berth.Node) bool) {
		for _, n := range s.nodes.byID.All() {
			if !yield(s.nodes.rows.Get(n)) {
				return
			}
		}
	}
}

// NodesFrom returns the nodes whose IDs have the prefix, in order.
func (s *Snapshot) NodesFrom(p berth.IDPrefix) iter.Seq[*berth.Node] {
	return withPrefix(p, &s.nodes.byID, func(n uint32) *berth.Node { return s.nodes.rows.Get(n) },
		func(n *berth.Node) [16]byte { return n.ID })
}

// withPrefix returns the rows whose IDs have the prefix.
func withPrefix[T any](p berth.IDPrefix, ix *cow.Tree[uint64], get func(uint32) *T, id func(*T) [16]byte) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		hi, _ := berth.ID[T](p.Lowest()).Words()
		for _, slot := range ix.From(hi, 0) {
			v := get(slot)
			at, _ := berth.ID[T](id(v)).Words()
			switch {
			case p.Matches(id(v)):
				if !yield(v) {
					return
				}
			case at > hi: // past the prefix; at its head, others may stand between
				return
			}
		}
	}
}

// SomeNodeOf returns one node of the class with that number, or nil.
func (s *Snapshot) SomeNodeOf(class uint32) *berth.Node {
	c := s.nodes.classes.vec.Get(class)
	if c == nil {
		return nil
	}
	n := s.nodes.rows.Get(c.some)
	if n != nil && n.Class == c.name {
		return n
	}
	for _, number := range s.nodes.byID.All() { // that one is gone; any other will do
		if n := s.nodes.rows.Get(number); n.Class == c.name {
			return n
		}
	}
	return nil
}

// ClassName returns the hash that names the class with that number.
func (s *Snapshot) ClassName(class uint32) string {
	if c := s.nodes.classes.vec.Get(class); c != nil {
		return c.name
	}
	return ""
}

// Classes is the number of lines that class numbers are below.
func (s *Snapshot) Classes() uint32 { return s.nodes.classes.next }

// nodeClass hashes all of a node that scheduling may look at, but for what is
// unique to it.
func nodeClass(n *berth.Node) string {
	var h codec.Writer
	h.Text(n.Datacenter)
	h.Text(n.NodePool)
	h.Text(n.NodeClass)
	for _, m := range []map[string]string{n.Attributes, n.Meta} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !UniqueKey(k) {
				h.Text(k)
				h.Text(m[k])
			}
		}
		h.Uint(0)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[k]
		h.Text(fmt.Sprint(k, d.Detected, d.Healthy))
	}
	writeThings(&h, n)
	return fmt.Sprintf("v1:%x", sha256.Sum256(h.Buf()))[:35]
}

// writeThings adds what a node has beside processors, memory and disk: its volumes,
// networks and groups of devices. How many there are is not in it, nor which:
// that is counted.
func writeThings(h *codec.Writer, n *berth.Node) {
	for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
		h.Text(fmt.Sprint("volume ", n.HostVolumes[name].ReadOnly, " ", name))
	}
	var nets []string
	for _, nw := range n.NodeResources.NodeNetworks {
		nets = append(nets, "mode "+nw.Mode)
		for _, a := range nw.Addresses {
			nets = append(nets, "network "+a.Alias)
		}
	}
	slices.Sort(nets)
	for _, s := range slices.Compact(nets) {
		h.Text(s)
	}
	for i := range n.NodeResources.Devices {
		d := &n.NodeResources.Devices[i]
		h.Text("device " + d.ID())
		h.Raw(codec.Canonical(d.Attributes))
	}
}

// UniqueKey says whether an attribute or meta key is about one node alone.
func UniqueKey(k string) bool { return strings.HasPrefix(k, "unique.") }

// putNode stores a node; old is the row it replaces, nil if none. It keeps the
// node's line in the usage columns.
func (tx *Tx) putNode(old, n *berth.Node) {
	t := &tx.nodes
	n.Class = nodeClass(n)
	if old == nil {
		n.Number = t.takeNumber(tx)
		hi, _ := n.ID.Words()
		t.byID.Add(tx.edit, hi, n.Number)
		t.count++
	} else {
		n.Number = old.Number
	}
	u := t.usage.Edit(tx.edit, n.Number)
	if old == nil {
		*u = fit.Usage{Changed: tx.Index}
	}
	if old == nil || old.Class != n.Class {
		if old != nil {
			tx.leaveClass(u.Class)
		}
		u.Class = tx.joinClass(n)
	}
	if old == nil || old.NodeResources != n.NodeResources || old.ReservedResources != n.ReservedResources || !maps.Equal(old.HostNetworks, n.HostNetworks) {
		tx.recount(u, n)
	}
	u.Describe(n)
	if was := old != nil && old.Draining(); was != n.Draining() {
		t.listDrain(tx, n.Number, n.Draining())
	}
	freeze(n)
	t.rows.Set(tx.edit, n.Number, n)
	t.changed = tx.Index
	tx.note(Nodes, anyOrNil(old), n)
	if n.Status == berth.NodeDown {
		tx.endServices(tx.ServicesOn(n.ID))
	}
}

// takeNumber gives out the smallest number that no node has.
func (t *nodeTable) takeNumber(tx *Tx) uint32 {
	for n, more := range t.gaps.All() {
		t.gaps.Remove(tx.edit, n, more)
		if more > 0 {
			t.gaps.Add(tx.edit, n+1, more-1)
		}
		return n
	}
	t.numbers++
	return t.numbers - 1
}

// recount counts again what is taken of a node: what it reserves, and what its
// allocations hold.
func (tx *Tx) recount(u *fit.Usage, n *berth.Node) {
	tx.fit.Empty(u, n)
	for a := range tx.AllocsOn(n.ID) {
		f, ok := tx.familyOf(a)
		switch {
		case ok && f.Head.ID == a.ID:
			tx.fit.ClaimFamily(u, f)
		case !ok && a.Occupies():
			r := fit.RequestOf(a.Group)
			tx.fit.Claim(u, &r, a.Grant())
		}
	}
}

func (tx *Tx) joinClass(n *berth.Node) uint32 {
	t := &tx.nodes.classes
	slot, c := find(&t.rows, &t.byHash, hash(n.Class), func(c *class) bool { return c.name == n.Class })
	if c == nil {
		slot = t.insert(tx, &class{n.Class, 1, n.Number})
		t.byHash.Add(tx.edit, hash(n.Class), slot)
		return slot
	}
	t.set(tx, slot, &class{c.name, c.nodes + 1, n.Number})
	return slot
}

func (tx *Tx) leaveClass(slot uint32) {
	t := &tx.nodes.classes
	c := *t.vec.Get(slot)
	if c.nodes--; c.nodes == 0 {
		t.byHash.Remove(tx.edit, hash(c.name), slot)
		t.remove(tx, slot)
		return
	}
	t.set(tx, slot, &c)
}

// Usage returns a node's usage, by the node's number.
func (s *Snapshot) Usage(number uint32) *fit.Usage {
	if u := s.nodes.usage.At(number); u != nil {
		return u
	}
	return &fit.Usage{}
}

// UsageColumns returns the usage of all nodes in runs, each with the number of
// its first. A number that no node has stands for one that is not Ready.
func (s *Snapshot) UsageColumns() iter.Seq2[uint32, []fit.Usage] {
	return s.nodes.usage.Runs(s.nodes.numbers)
}
