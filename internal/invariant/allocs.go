package invariant

import "berth"

// allocs checks I-05 (nothing is placed twice), I-11 and I-12 (references),
// I-15 (names), I-17 (chains) and I-19 (one per node). I-15 implies I-16: no
// two allocations share a name and no index lies beyond the count, so there are
// no more than the count.
func (c *checker) allocs() {
	type name struct {
		uid   berth.UID
		group string
		index uint32
		node  berth.NodeID // of a job that runs on every node
		// A canary shares the name with the allocation that it will replace,
		// until a plan after its promotion stops that one.
		canary   bool
		promoted berth.DeploymentID
	}
	nameOf := func(a *berth.Alloc) name {
		k := name{uid: a.Job.UID, group: a.Group.Name, index: a.Index, canary: canary(a), promoted: c.promoted(a)}
		if a.Job.PerNode() {
			k.node = a.NodeID
		}
		return k
	}
	live := map[name]berth.AllocID{}
	type placing struct {
		eval  berth.EvalID
		index uint64
		name
	}
	made := map[placing]berth.AllocID{}
	for a := range c.Allocs() {
		if a.Job == nil || a.Group == nil || a.Job.Group(a.Group.Name) != a.Group {
			c.addf("I-12", "allocation %s does not belong to a group of its job", a.ID)
			continue
		}
		c.unknown(a)
		// An allocation that was replaced while it was unknown leaves the name
		// to its replacement. When it comes back one of the two has to go.
		d := a.Rest().DeploymentID
		// When a job is purged its deployments are deleted, and with them which
		// allocations were canaries.
		named := d.IsZero() || c.Deployment(d) != nil
		if named && a.Live() && !a.Orphaned && (a.Rest().Next.IsZero() || a.Job.PerNode()) {
			k := nameOf(a)
			if other, ok := live[k]; ok && a.Job.PerNode() {
				c.addf("I-19", "node %s runs %s twice: %s and %s", a.NodeID, a.Name(), other, a.ID)
			} else if ok {
				c.addf("I-15", "allocations %[2]s and %[3]s have the same name %[1]s", a.Name(), other, a.ID)
			}
			live[k] = a.ID
			if int(a.Index) >= a.Group.Count {
				c.addf("I-15", "the index of %s is beyond the count of its group, %d", a.Name(), a.Group.Count)
			}
		}
		if once := (placing{a.EvalID, a.CreateIndex, nameOf(a)}); named {
			if other, ok := made[once]; ok {
				c.addf("I-05", "evaluation %s placed %s twice: %s and %s", a.EvalID, a.Name(), other, a.ID)
			}
			made[once] = a.ID
		}
		if !named && c.lives(a.Key(), a.Job.UID) {
			c.addf("I-11", "allocation %s belongs to deployment %s, which does not exist", a.ID, d)
		}
		c.member(a)
		c.chain(a)
		if c.Eval(a.EvalID) == nil {
			c.addf("I-12", "allocation %s belongs to evaluation %s, which does not exist", a.ID, a.EvalID)
		}
		if f := a.Rest().FollowupEval; !f.IsZero() && c.Eval(f) == nil {
			c.addf("I-12", "allocation %s waits for evaluation %s, which does not exist", a.ID, f)
		}
	}
}

// chain checks the links between an allocation and those that it replaces and
// is replaced by. Each points to the other, both are the same instance, and the
// replaced one is older, so no chain is a circle.
func (c *checker) chain(a *berth.Alloc) {
	m := a.More
	if m == nil {
		return
	}
	if n := c.Alloc(m.Next); n != nil && n.Rest().Previous != a.ID {
		c.addf("I-17", "allocation %s is replaced by %s, which replaces %s", a.ID, n.ID, n.Rest().Previous)
	}
	p := c.Alloc(m.Previous)
	switch {
	case p == nil: // it replaces none, or that one was collected
	case p.Rest().Next != a.ID:
		c.addf("I-17", "allocation %s replaces %s, which points to %s", a.ID, p.ID, p.Rest().Next)
	case p.CreateIndex >= a.CreateIndex:
		c.addf("I-17", "allocation %s replaces %s, which is not older", a.ID, p.ID)
	case p.Job == nil || p.Group == nil: // reported elsewhere
	case p.Job.UID != a.Job.UID || p.Group.Name != a.Group.Name || p.Index != a.Index || a.Job.PerNode() && p.NodeID != a.NodeID:
		c.addf("I-17", "allocation %s is %s and replaces %s, which is %s", a.ID, a.Name(), p.ID, p.Name())
	}
}

// unknown checks the rest of I-18: unknown allocations, and only those, have a
// time since when they are unknown.
func (c *checker) unknown(a *berth.Alloc) {
	if since := a.Rest().UnknownSince; (since != 0) != (a.Client == berth.ClientUnknown) {
		c.addf("I-18", "allocation %s is %s, and unknown since %d", a.ID, a.Client, since)
	}
}
