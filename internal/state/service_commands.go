package state

import (
	"net/netip"
	"slices"
	"strings"

	"berth"
)

// Limits of registrations.
const (
	MaxServiceBatch = 1000 // in one command
	maxServiceID    = 512  // bytes
	maxServiceMeta  = 200
)

// UpsertServices creates or updates service registrations at the request of a
// node's agent.
type UpsertServices struct {
	Node     berth.NodeID
	Services []*berth.ServiceRegistration
}

// Apply implements Command. Registrations of allocations that are gone or have
// ended are skipped, as are those that change nothing: agents repeat
// themselves. A registration for another node refuses the whole command.
func (c *UpsertServices) Apply(tx *Tx) error {
	n := tx.Node(c.Node)
	if n == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.Node)
	}
	if k := len(c.Services); k == 0 || k > MaxServiceBatch {
		return berth.Errorf(berth.Invalid, "services: must name 1 to %d, got %d", MaxServiceBatch, k)
	}
	// Check all before the first change: an agent registers what runs on its
	// own node only.
	for _, r := range c.Services {
		if err := CheckService(r); err != nil {
			return err
		}
		if old := tx.Service(r.ID); r.NodeID != n.ID || old != nil && (old.NodeID != n.ID || old.Namespace != r.Namespace) {
			return berth.Errorf(berth.Denied, "Permission denied: service %.150q does not belong to node %s", r.ID, n.ID)
		}
		if a := tx.Alloc(r.AllocID); a != nil && (a.NodeID != n.ID || a.Job.Namespace != r.Namespace || a.Job.ID != r.JobID) {
			return berth.Errorf(berth.Denied, "Permission denied: allocation %s, named by service %.150q, is not on node %s or does not belong to job %.150q in namespace %.150q",
				r.AllocID, r.ID, n.ID, r.JobID, r.Namespace)
		}
	}
	if n.Status == berth.NodeDown {
		return nil // its agent registers them again when it reconnects
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

// sameService reports whether two registrations say the same. Indexes do not
// count: an unchanged one is not written again.
func sameService(a, b *berth.ServiceRegistration) bool {
	return a.ServiceName == b.ServiceName && a.Namespace == b.Namespace && a.NodeID == b.NodeID && a.Datacenter == b.Datacenter &&
		a.JobID == b.JobID && a.AllocID == b.AllocID && slices.Equal(a.Tags, b.Tags) && a.Address == b.Address && a.Port == b.Port &&
		sameTexts(a.Meta, b.Meta) && a.Unhealthy == b.Unhealthy
}

// needs implements needer: the health of services came with log version 6.
func (c *UpsertServices) needs() int {
	for _, r := range c.Services {
		if r != nil && r.Unhealthy {
			return healthSince
		}
	}
	return 1
}

// feature implements featured.
func (c *UpsertServices) feature() string { return "the health of services" }

// healthSince is the log version that brought the health of services.
const healthSince = 6

// KeepsHealth reports whether every server of the cluster keeps the health of
// services. It is not written before.
func (s *Snapshot) KeepsHealth() bool { return s.LogVersion >= healthSince }

// sameTexts reports whether two maps are equal; nil equals empty.
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

// CheckService returns an error if a registration is invalid.
func CheckService(r *berth.ServiceRegistration) error {
	if r == nil {
		return berth.Errorf(berth.Invalid, "services: one of them is empty")
	}
	var ps berth.Problems
	at := "service[" + r.ID[:min(len(r.ID), 64)] + "]."
	if r.ID == "" || len(r.ID) > maxServiceID || strings.ContainsRune(r.ID, 0) {
		ps.Addf(at+"ID", "must be 1 to %d bytes without NUL, got %d", maxServiceID, len(r.ID))
	}
	if !berth.ServiceName(r.ServiceName) {
		ps.Addf(at+"ServiceName", "%.64q is not a valid service name", r.ServiceName)
	}
	if r.AllocID.IsZero() || r.JobID == "" || r.Namespace == "" {
		ps.Addf(at+"AllocID", "needs an allocation, a job and a namespace")
	}
	if _, err := netip.ParseAddr(r.Address); err != nil && (len(r.Address) > berth.MaxJobIDLen || strings.ContainsAny(r.Address, " /\t\r\n\x00")) {
		ps.Addf(at+"Address", "%.64q is not an IP address or host name", r.Address)
	}
	if r.Port < 0 || r.Port > berth.MaxPort {
		ps.Addf(at+"Port", "must be 0 to %d, got %d", berth.MaxPort, r.Port)
	}
	if len(r.Tags) > berth.MaxServiceTags || slices.ContainsFunc(r.Tags, func(s string) bool { return len(s) > 2*berth.MaxServiceTagLen }) {
		ps.Addf(at+"Tags", "must be at most %d, none too long, got %d", berth.MaxServiceTags, len(r.Tags))
	}
	bytes := 0
	for k, v := range r.Meta {
		bytes += len(k) + len(v)
	}
	if len(r.Meta) > maxServiceMeta || bytes > 64<<10 {
		ps.Addf(at+"Meta", "%d entries with %d bytes are too many", len(r.Meta), bytes)
	}
	return ps.Err()
}

// DeleteServices removes registrations: those of a node at its agent's request,
// or any by hand.
type DeleteServices struct {
	Node      berth.NodeID // zero: by hand
	Namespace string       // by hand: the namespace of all of them
	Name      string       // by hand: the service that they belong to
	IDs       []string
}

// Apply implements Command. Agents may repeat themselves, so missing
// registrations are skipped; by hand they are an error.
func (c *DeleteServices) Apply(tx *Tx) error {
	if k := len(c.IDs); k == 0 || k > MaxServiceBatch {
		return berth.Errorf(berth.Invalid, "services: must name 1 to %d, got %d", MaxServiceBatch, k)
	}
	// A user names the service and must find it; an agent may repeat itself.
	for _, id := range c.IDs {
		switch r := tx.Service(id); {
		case c.Node.IsZero() && (r == nil || r.Namespace != c.Namespace || r.ServiceName != c.Name):
			return berth.Errorf(berth.NotFound, "service registration not found: %.150q of service %.150q", id, c.Name)
		case !c.Node.IsZero() && r != nil && r.NodeID != c.Node:
			return berth.Errorf(berth.Denied, "Permission denied: service %.150q does not belong to node %s", id, c.Node)
		}
	}
	for _, id := range c.IDs {
		if r := tx.Service(id); r != nil {
			tx.removeService(r)
		}
	}
	return nil
}
