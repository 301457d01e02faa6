package state

import (
	"iter"

	"berth/internal/validate"

	"berth"
)

// Namespace returns the namespace, or nil.
func (s *Snapshot) Namespace(name string) *berth.Namespace {
	t := &s.namespaces
	slot, ok := t.byName.First(name)
	if !ok {
		return nil
	}
	return t.vec.Get(slot)
}

// Namespaces returns all namespaces in order of name.
func (s *Snapshot) Namespaces() iter.Seq[*berth.Namespace] {
	t := &s.namespaces
	return rowsOf(&t.rows, t.byName.All())
}

// putNamespace stores a namespace. old is the row it replaces, or nil.
func (tx *Tx) putNamespace(old, n *berth.Namespace) {
	t := &tx.namespaces
	if old == nil {
		t.byName.Add(tx.edit, n.Name, t.insert(tx, n))
	} else {
		slot, _ := t.byName.First(n.Name)
		t.set(tx, slot, n)
	}
	tx.note(Namespaces, anyOrNil(old), n)
}

// MaxNamespaces is the largest number of namespaces that one command names.
const MaxNamespaces = 1000

// UpsertNamespaces creates or updates namespaces. Jobs that exist stay as they
// are, even if they could not be registered any more.
type UpsertNamespaces struct {
	Namespaces []*berth.Namespace
}

// Apply implements Command.
func (c *UpsertNamespaces) Apply(tx *Tx) error {
	if n := len(c.Namespaces); n == 0 || n > MaxNamespaces {
		return berth.Errorf(berth.Invalid, "namespaces: must name 1 to %d, got %d", MaxNamespaces, n)
	}
	// Check all before the first change.
	for _, n := range c.Namespaces {
		if n == nil {
			return berth.Errorf(berth.Invalid, "namespaces: one of them is empty")
		}
		if err := validate.Namespace(n); err != nil {
			return err
		}
		if pool := n.DefaultPool(); tx.NodePool(pool) == nil {
			return berth.Errorf(berth.Invalid, "NodePoolConfiguration.Default: node pool %q not found", pool)
		}
		if n.Quota != "" && tx.Quota(n.Quota) == nil {
			return berth.Errorf(berth.Invalid, "Quota: quota %q not found", n.Quota)
		}
	}
	for _, n := range c.Namespaces {
		row := *n
		row.CreateIndex, row.ModifyIndex = tx.Index, tx.Index
		old := tx.Namespace(n.Name)
		if old != nil {
			row.CreateIndex = old.CreateIndex
		}
		tx.putNamespace(old, &row)
		tx.moveQuota(old, &row)
	}
	return nil
}

// claimsSince is the log version that brought the extra claims of namespaces.
const claimsSince = 8

// needs implements needer: quotas came with log version 5, extra claims with 8.
func (c *UpsertNamespaces) needs() int {
	need := 4
	for _, n := range c.Namespaces {
		switch {
		case n == nil:
		case len(n.RequiredExtraClaims)+len(n.OptionalExtraClaims) > 0:
			return claimsSince
		case n.Quota != "":
			need = quotasSince
		}
	}
	return need
}

// feature implements featured.
func (c *UpsertNamespaces) feature() string {
	switch c.needs() {
	case claimsSince:
		return "extra claims of namespaces"
	case quotasSince:
		return quotas
	}
	return "namespaces"
}

// DeleteNamespaces deletes namespaces that nothing uses. One that is used refuses
// the whole command.
type DeleteNamespaces struct {
	Names []string
}

// Apply implements Command.
func (c *DeleteNamespaces) Apply(tx *Tx) error {
	if n := len(c.Names); n == 0 || n > MaxNamespaces {
		return berth.Errorf(berth.Invalid, "namespaces: must name 1 to %d, got %d", MaxNamespaces, n)
	}
	// Check all before the first change.
	for _, name := range c.Names {
		if name == berth.DefaultNamespace {
			return berth.Errorf(berth.Invalid, "namespace %q is built in and cannot be deleted", name)
		}
		if tx.Namespace(name) == nil {
			return berth.Errorf(berth.NotFound, "namespace %.150q not found", name)
		}
		if users := tx.namespaceUsers(name); users != "" {
			return berth.Errorf(berth.Conflict, "namespace %q cannot be deleted: it has %s", name, users)
		}
	}
	for _, name := range c.Names {
		tx.removeNamespace(name)
	}
	return nil
}

// removeNamespace deletes a namespace; one that is gone is skipped.
func (tx *Tx) removeNamespace(name string) {
	t := &tx.namespaces
	slot, ok := t.byName.First(name)
	if !ok {
		return
	}
	n := t.vec.Get(slot)
	t.byName.Remove(tx.edit, name, slot)
	t.remove(tx, slot)
	tx.note(Namespaces, n, nil)
	tx.moveQuota(n, nil)
}

// namespaceUsers lists the jobs, the variables or the volumes of a namespace, or returns "". Ended ones count
// too: they could run again, and their source can be read, so they must not wait
// for the next namespace of that name.
func (s *Snapshot) namespaceUsers(name string) string {
	var jobs []string
	for j := range s.Jobs(name, "") {
		jobs = append(jobs, string(j.ID))
	}
	if len(jobs) > 0 {
		return named("job", jobs) + "; stop them with -purge, or wait until they are collected"
	}
	var variables []string
	for v := range s.VariablesWith(name, "") {
		variables = append(variables, v.Path)
	}
	if len(variables) > 0 {
		return named("variable", variables) + "; purge them first"
	}
	var volumes []string
	for v := range s.HostVolumes() {
		if v.Namespace == name {
			volumes = append(volumes, v.ID)
		}
	}
	for v := range s.CSIVolumes() {
		if v.Namespace == name {
			volumes = append(volumes, v.ID)
		}
	}
	if len(volumes) > 0 {
		return named("volume", volumes) + "; delete them first"
	}
	return ""
}
