package state

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"berth"
	"berth/internal/fit"
	"berth/internal/state/codec"
)

// removeNode deletes a node without allocations; its number is free again.
func (tx *Tx) removeNode(n *berth.Node) {
	t := &tx.nodes
	id, _ := n.ID.Words()
	tx.leaveClass(t.usage.At(n.Number).Class)
	if n.Draining() {
		t.listDrain(tx, n.Number, false)
	}
	t.byID.Remove(tx.edit, id, n.Number)
	t.rows.Set(tx.edit, n.Number, nil)
	*t.usage.Edit(tx.edit, n.Number) = fit.Usage{}
	t.freeNumber(tx, n.Number)
	t.count--
	t.changed = tx.Index
	tx.note(Nodes, n, nil)
	tx.followHostVolumes(n.ID, nil)
	tx.followPlugins(n, nil)
	tx.followClaims(tx.ClaimsOnNode(n.ID))
}

// freeNumber frees a number. Runs of free numbers touch neither each other nor
// the numbers that were never used, so a server that loads the state has the
// same runs.
func (t *nodeTable) freeNumber(tx *Tx, n uint32) {
	first, more := n, uint32(0)
	for at, count := range t.gaps.BackFrom(n, 0) { // the run before
		if at+count+1 == n {
			t.gaps.Remove(tx.edit, at, count)
			first, more = at, count+1
		}
		break
	}
	for at, count := range t.gaps.From(n, 0) { // the run after
		if at == n+1 {
			t.gaps.Remove(tx.edit, at, count)
			more += count + 1
		}
		break
	}
	if first+more+1 == t.numbers {
		t.numbers = first
		return
	}
	t.gaps.Add(tx.edit, first, more)
}

// listDrain notes that a node is being drained, or no longer.
func (t *nodeTable) listDrain(tx *Tx, number uint32, drains bool) {
	if drains {
		t.drains.Add(tx.edit, number, 0)
	} else {
		t.drains.Remove(tx.edit, number, 0)
	}
}

// nodeClass hashes everything of a node that scheduling may look at, except
// what is unique to it.
func nodeClass(n *berth.Node) string {
	var h codec.Writer
	h.Text(n.Datacenter)
	h.Text(n.NodePool)
	h.Text(n.NodeClass)
	// Keys that are unique to a node would make a class of each.
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
	// The version changes with the fields that are hashed.
	return fmt.Sprintf("v1:%x", sha256.Sum256(h.Buf()))[:35]
}

// writeThings adds what a node has besides CPU, memory and disk: its volumes,
// networks and groups of devices. The number of devices and their IDs are left
// out, because they are counted.
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
	// Addresses differ from node to node; only the names of networks count, in
	// any order.
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

// putNode stores a node and maintains its row in the usage columns. old is the
// row it replaces, or nil.
func (tx *Tx) putNode(old, n *berth.Node) {
	t := &tx.nodes
	n.Class = nodeClass(n)
	// A new node gets a number, which it keeps.
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
	// A node is in one class: leave the old one before joining another.
	if old == nil || old.Class != n.Class {
		if old != nil {
			tx.leaveClass(u.Class)
		}
		u.Class = tx.joinClass(n)
	}
	// Counting again reads every allocation of the node, so only when its
	// resources changed.
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
	// A node that is down serves nothing.
	if n.Status == berth.NodeDown {
		tx.endServices(tx.ServicesOn(n.ID))
	}
	tx.followHostVolumes(n.ID, n)
	tx.followPlugins(old, n)
	if old != nil && old.Status != n.Status {
		tx.followClaims(tx.ClaimsOnNode(n.ID))
	}
}

// takeNumber returns the smallest number that no node has, and marks it as
// used.
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

// recount recomputes the used capacity of a node: what it reserves, and what
// its allocations hold.
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

// joinClass counts n in its class and returns the class's slot, which the
// node's usage keeps. The class is made if n is its first node.
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

// leaveClass takes one node out of a class, and deletes the class after its
// last.
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
