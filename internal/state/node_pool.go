package state

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"berth/internal/validate"

	"berth"
)

// NodePool returns the node pool, or nil.
func (s *Snapshot) NodePool(name string) *berth.NodePool {
	t := &s.pools
	slot, ok := t.byName.First(name)
	if !ok {
		return nil
	}
	return t.vec.Get(slot)
}

// NodePools returns all node pools in order of name, including the built-in
// ones.
func (s *Snapshot) NodePools() iter.Seq[*berth.NodePool] {
	t := &s.pools
	return rowsOf(&t.rows, t.byName.All())
}

// SchedulerConfigFor returns the scheduler configuration for jobs in the pool.
// The pool's settings override the cluster's.
func (s *Snapshot) SchedulerConfigFor(pool string) berth.SchedulerConfig {
	c := *s.SchedulerConfig()
	if p := s.NodePool(pool); p != nil && p.SchedulerConfiguration != nil {
		own := p.SchedulerConfiguration
		if own.SchedulerAlgorithm != "" {
			c.SchedulerAlgorithm = own.SchedulerAlgorithm
		}
		if own.MemoryOversubscriptionEnabled != nil {
			c.MemoryOversubscriptionEnabled = *own.MemoryOversubscriptionEnabled
		}
	}
	return c
}

// putNodePool stores a node pool. old is the row it replaces, or nil.
func (tx *Tx) putNodePool(old, p *berth.NodePool) {
	t := &tx.pools
	if old == nil {
		t.byName.Add(tx.edit, p.Name, t.insert(tx, p))
	} else {
		slot, _ := t.byName.First(p.Name)
		t.set(tx, slot, p)
	}
	tx.note(NodePools, anyOrNil(old), p)
}

// ensureNodePool creates the pool unless it exists: a node that registers with an
// unknown pool creates it.
func (tx *Tx) ensureNodePool(name string) {
	if tx.NodePool(name) == nil {
		tx.putNodePool(nil, &berth.NodePool{
			Name: name, NodeIdentityTTL: berth.DefaultNodeIdentityTTL, CreateIndex: tx.Index, ModifyIndex: tx.Index,
		})
	}
}

// builtInPools creates the pools that always exist.
func (tx *Tx) builtInPools() {
	for _, p := range berth.BuiltInPools {
		if tx.NodePool(p.Name) == nil {
			p.CreateIndex, p.ModifyIndex = 1, 1
			tx.putNodePool(nil, &p)
		}
	}
}

// MaxPools is the largest number of node pools that one command names.
const MaxPools = 1000

// UpsertNodePools creates or updates node pools.
type UpsertNodePools struct {
	Pools []*berth.NodePool
}

// Apply implements Command.
func (c *UpsertNodePools) Apply(tx *Tx) error {
	if n := len(c.Pools); n == 0 || n > MaxPools {
		return berth.Errorf(berth.Invalid, "node pools: must name 1 to %d, got %d", MaxPools, n)
	}
	// Check all before the first change.
	var pools []berth.NodePool
	for _, p := range c.Pools {
		if p == nil {
			return berth.Errorf(berth.Invalid, "node pools: one of them is empty")
		}
		n := *p
		if err := validate.NodePool(&n); err != nil {
			return err
		}
		pools = append(pools, n)
	}
	for _, n := range pools {
		old := tx.NodePool(n.Name)
		n.CreateIndex, n.ModifyIndex = tx.Index, tx.Index
		if old != nil {
			n.CreateIndex = old.CreateIndex
		}
		tx.putNodePool(old, &n)
	}
	return nil
}

// DeleteNodePools deletes node pools that nothing uses. One that is used
// refuses the whole command.
type DeleteNodePools struct {
	Names []string
}

// Apply implements Command.
func (c *DeleteNodePools) Apply(tx *Tx) error {
	if n := len(c.Names); n == 0 || n > MaxPools {
		return berth.Errorf(berth.Invalid, "node pools: must name 1 to %d, got %d", MaxPools, n)
	}
	// Check all before the first change.
	for _, name := range c.Names {
		if berth.BuiltIn(name) {
			return berth.Errorf(berth.Invalid, "node pool %q is built in and cannot be deleted", name)
		}
		if tx.NodePool(name) == nil {
			return berth.Errorf(berth.NotFound, "node pool %.150q not found", name)
		}
		if users := tx.poolUsers(name); users != "" {
			return berth.Errorf(berth.Invalid, "node pool %q cannot be deleted: it has %s", name, users)
		}
	}
	for _, name := range c.Names {
		tx.removeNodePool(name)
	}
	return nil
}

// removeNodePool deletes a node pool; one that is gone is skipped.
func (tx *Tx) removeNodePool(name string) {
	t := &tx.pools
	slot, ok := t.byName.First(name)
	if !ok {
		return
	}
	p := t.vec.Get(slot)
	t.byName.Remove(tx.edit, name, slot)
	t.remove(tx, slot)
	tx.note(NodePools, p, nil)
}

// poolUsers lists the nodes of a pool and its jobs that have not ended, or
// returns "". It scans all nodes and jobs: pools are rarely deleted.
func (s *Snapshot) poolUsers(pool string) string {
	var nodes, jobs []string
	for n := range s.Nodes() {
		if n.NodePool == pool {
			nodes = append(nodes, n.Name)
		}
	}
	for j := range s.Jobs(berth.AllNamespaces, "") {
		if j.NodePool != pool {
			continue
		}
		// A dead job does not need its pool.
		if status, _ := s.Summary(j.Key()).Status(j); status != berth.JobDead {
			jobs = append(jobs, j.Key().String())
		}
	}
	var out []string
	if len(nodes) > 0 {
		out = append(out, named("node", nodes))
	}
	if len(jobs) > 0 {
		out = append(out, named("unfinished job", jobs))
	}
	return strings.Join(out, " and ")
}

// named returns the number of names and the first few of them.
func named(what string, names []string) string {
	const most = 5
	slices.Sort(names)
	if len(names) != 1 {
		what += "s"
	}
	list := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		list += ", …"
	}
	return fmt.Sprintf("%d %s (%s)", len(names), what, list)
}
