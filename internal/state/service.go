package state

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"berth"
	"berth/internal/cow"
)

// serviceTable holds the instances of services. Those of an allocation that
// has ended, or of a node that is down, are not there: the command that ends
// them takes them out.
type serviceTable struct {
	rows[berth.ServiceRegistration]
	byID    cow.Tree[string]
	byName  cow.Tree[string] // see serviceKey
	byNode  cow.Tree[uint64] // first half of the node's ID
	byAlloc cow.Tree[uint64] // first half of the allocation's ID
}

func serviceKey(k berth.ServiceKey) string { return k.Namespace + "\x00" + k.Name + "\x00" }

// Service returns the registration with that ID, or nil.
func (s *Snapshot) Service(id string) *berth.ServiceRegistration {
	slot, ok := s.services.byID.First(id)
	if !ok {
		return nil
	}
	return s.services.vec.Get(slot)
}

// Services returns all registrations in order of namespace, name and ID.
func (s *Snapshot) Services() iter.Seq[*berth.ServiceRegistration] {
	return rowsOf(&s.services.rows, s.services.byName.All())
}

// ServicesNamed returns the registrations of a service in order of ID.
func (s *Snapshot) ServicesNamed(k berth.ServiceKey) iter.Seq[*berth.ServiceRegistration] {
	prefix := serviceKey(k)
	return func(yield func(*berth.ServiceRegistration) bool) {
		for key, slot := range s.services.byName.From(prefix, 0) {
			if !strings.HasPrefix(key, prefix) || !yield(s.services.vec.Get(slot)) {
				return
			}
		}
	}
}

// ServicesOf returns the registrations of an allocation, in no order.
func (s *Snapshot) ServicesOf(id berth.AllocID) iter.Seq[*berth.ServiceRegistration] {
	hi, _ := id.Words()
	return of(&s.services.rows, &s.services.byAlloc, hi, func(r *berth.ServiceRegistration) bool { return r.AllocID == id })
}

// ServicesOn returns the registrations of a node, in no order.
func (s *Snapshot) ServicesOn(id berth.NodeID) iter.Seq[*berth.ServiceRegistration] {
	hi, _ := id.Words()
	return of(&s.services.rows, &s.services.byNode, hi, func(r *berth.ServiceRegistration) bool { return r.NodeID == id })
}

// index adds the row to the indexes, or takes it from them.
func (t *serviceTable) index(tx *Tx, r *berth.ServiceRegistration, slot uint32, there bool) {
	on, _ := r.NodeID.Words()
	of, _ := r.AllocID.Words()
	name := serviceKey(r.Key()) + r.ID
	if there {
		t.byID.Add(tx.edit, r.ID, slot)
		t.byName.Add(tx.edit, name, slot)
		t.byNode.Add(tx.edit, on, slot)
		t.byAlloc.Add(tx.edit, of, slot)
		return
	}
	t.byID.Remove(tx.edit, r.ID, slot)
	t.byName.Remove(tx.edit, name, slot)
	t.byNode.Remove(tx.edit, on, slot)
	t.byAlloc.Remove(tx.edit, of, slot)
}

// putService stores a registration, in place of that with its ID if there is
// one.
func (tx *Tx) putService(r *berth.ServiceRegistration) {
	t := &tx.services
	slot, ok := t.byID.First(r.ID)
	if !ok {
		t.index(tx, r, t.insert(tx, r), true)
		tx.note(Services, nil, r)
		return
	}
	old := t.vec.Get(slot)
	t.index(tx, old, slot, false)
	t.set(tx, slot, r)
	t.index(tx, r, slot, true)
	tx.note(Services, old, r)
}

func (tx *Tx) removeService(r *berth.ServiceRegistration) {
	t := &tx.services
	slot, ok := t.byID.First(r.ID)
	if !ok {
		return
	}
	t.index(tx, r, slot, false)
	t.remove(tx, slot)
	tx.note(Services, r, nil)
}

// endServices takes out registrations whose allocation or node is no more.
func (tx *Tx) endServices(rows iter.Seq[*berth.ServiceRegistration]) {
	if tx.services.count == 0 {
		return
	}
	gone := slices.Collect(rows)
	slices.SortFunc(gone, func(a, b *berth.ServiceRegistration) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range gone {
		tx.removeService(r)
	}
}

// Limits of registrations.
const (
	MaxServiceBatch = 1000 // in one command
	maxServiceID    = 512  // bytes
	maxServiceMeta  = 200
)

// UpsertServices makes registrations of services, or says anew what they are,
// as the agent of a node does.
type UpsertServices struct {
	Node     berth.NodeID
	Services []*berth.ServiceRegistration
}

// Apply implements Command. Registrations of allocations that are gone or have
// ended are passed over, as are those that change nothing: an agent repeats
// itself. One of another node refuses the whole command.
func (c *UpsertServices) Apply(tx *Tx) error {
	n := tx.Node(c.Node)
	if n == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.Node)
	}
	if k := len(c.Services); k == 0 || k > MaxServiceBatch {
		return berth.Errorf(berth.Invalid, "services: %d are named; allowed are 1 to %d", k, MaxServiceBatch)
	}
	for _, r := range c.Services {
		if err := CheckService(r); err != nil {
			return err
		}
		if old := tx.Service(r.ID); r.NodeID != n.ID || old != nil && (old.NodeID != n.ID || old.Namespace != r.Namespace) {
			return berth.Errorf(berth.Denied, "Permission denied: service %.150q is not one of node %s", r.ID, n.ID)
		}
		if a := tx.Alloc(r.AllocID); a != nil && (a.NodeID != n.ID || a.Job.Namespace != r.Namespace || a.Job.ID != r.JobID) {
			return berth.Errorf(berth.Denied, "Permission denied: allocation %s, which service %.150q names, is not on node %s or not of job %.150q in namespace %.150q",
				r.AllocID, r.ID, n.ID, r.JobID, r.Namespace)
		}
	}
	if n.Status == berth.NodeDown {
		return nil // its agent tells all again when it is back
	}
	for _, r := range c.Services {
		a := tx.Alloc(r.AllocID)
		if a == nil || a.Ended() {
			continue
		}
		v := *r
		v.Datacenter, v.CreateIndex, v.ModifyIndex = n.Datacenter, tx.Index, tx.Index
		if old := tx.Service(r.ID); old != nil {
			if v.CreateIndex = old.CreateIndex; sameService(old, &v) {
				continue
			}
		}
		tx.putService(&v)
	}
	return nil
}

func sameService(a, b *berth.ServiceRegistration) bool {
	return a.ServiceName == b.ServiceName && a.Namespace == b.Namespace && a.NodeID == b.NodeID && a.Datacenter == b.Datacenter &&
		a.JobID == b.JobID && a.AllocID == b.AllocID && slices.Equal(a.Tags, b.Tags) && a.Address == b.Address && a.Port == b.Port &&
		sameTexts(a.Meta, b.Meta)
}

func sameTexts(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// CheckService returns what is wrong with a registration.
func CheckService(r *berth.ServiceRegistration) error {
	if r == nil {
		return berth.Errorf(berth.Invalid, "services: nothing is said of one")
	}
	var ps berth.Problems
	at := "service[" + r.ID[:min(len(r.ID), 64)] + "]."
	if r.ID == "" || len(r.ID) > maxServiceID || strings.ContainsRune(r.ID, 0) {
		ps.Addf(at+"ID", "%d bytes; allowed are 1 to %d, none of them zero", len(r.ID), maxServiceID)
	}
	if !berth.ServiceName(r.ServiceName) {
		ps.Addf(at+"ServiceName", "%.64q is not the name of a service", r.ServiceName)
	}
	if r.AllocID.IsZero() || r.JobID == "" || r.Namespace == "" {
		ps.Addf(at+"AllocID", "an allocation, a job and a namespace are wanted")
	}
	if _, err := netip.ParseAddr(r.Address); err != nil && (len(r.Address) > berth.MaxJobIDLen || strings.ContainsAny(r.Address, " /\t\r\n\x00")) {
		ps.Addf(at+"Address", "%.64q is not an IP address or the name of a host", r.Address)
	}
	if r.Port < 0 || r.Port > berth.MaxPort {
		ps.Addf(at+"Port", "%d is out of range; allowed are 0 to %d", r.Port, berth.MaxPort)
	}
	if len(r.Tags) > berth.MaxServiceTags || slices.ContainsFunc(r.Tags, func(s string) bool { return len(s) > 2*berth.MaxServiceTagLen }) {
		ps.Addf(at+"Tags", "%d, or one of them is too long; allowed are %d", len(r.Tags), berth.MaxServiceTags)
	}
	bytes := 0
	for k, v := range r.Meta {
		bytes += len(k) + len(v)
	}
	if len(r.Meta) > maxServiceMeta || bytes > 64<<10 {
		ps.Addf(at+"Meta", "%d entries of %d bytes are too many", len(r.Meta), bytes)
	}
	return ps.Err()
}

// DeleteServices takes registrations out: those of a node, as its agent wants,
// or whichever somebody names.
type DeleteServices struct {
	Node      berth.NodeID // zero: by hand
	Namespace string       // by hand: of all of them
	Name      string       // by hand: the service they are of
	IDs       []string
}

// Apply implements Command. Agents may repeat themselves, so what is gone is
// passed over; by hand it is an error.
func (c *DeleteServices) Apply(tx *Tx) error {
	if k := len(c.IDs); k == 0 || k > MaxServiceBatch {
		return berth.Errorf(berth.Invalid, "services: %d are named; allowed are 1 to %d", k, MaxServiceBatch)
	}
	for _, id := range c.IDs {
		switch r := tx.Service(id); {
		case c.Node.IsZero() && (r == nil || r.Namespace != c.Namespace || r.ServiceName != c.Name):
			return berth.Errorf(berth.NotFound, "service registration not found: %.150q of service %.150q", id, c.Name)
		case !c.Node.IsZero() && r != nil && r.NodeID != c.Node:
			return berth.Errorf(berth.Denied, "Permission denied: service %.150q is not one of node %s", id, c.Node)
		}
	}
	for _, id := range c.IDs {
		if r := tx.Service(id); r != nil {
			tx.removeService(r)
		}
	}
	return nil
}
