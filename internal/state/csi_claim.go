package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/state/codec"
	"berth/internal/validate"
)

// A claim says that an allocation uses a CSI volume, or has used it and the volume
// is not back yet. The commit of a plan makes it, so no race gives a volume to two
// writers. The leader does what its state asks for (package leader/claims); a
// volume is free when its claim is gone.
//
//	taken ──► published ──► releasing ──► node-detached ──► gone
//	               └──────► lost ─────────────▲
//
// A claim is releasing once its allocation has ended, and lost while its node is
// down or gone; from taken as well.

// The states of a claim.
const (
	ClaimTaken     = "taken"         // the controller has not attached the volume to the node yet
	ClaimPublished = "published"     // the node may mount it
	ClaimReleasing = "releasing"     // its allocation has ended: the node is to unmount it
	ClaimLost      = "lost"          // its node is down or gone
	ClaimDetached  = "node-detached" // the node has unmounted it, or is not waited for: the controller is to detach it
)

// CSIClaim is the claim of an allocation on a CSI volume.
type CSIClaim struct {
	Namespace, VolumeID, PluginID string
	AllocID                       berth.AllocID
	NodeID                        berth.NodeID
	ReadOnly                      bool
	AccessMode, AttachmentMode    string
	State                         string            // one of the Claim constants
	Published                     bool              // the controller has attached it, or has nothing to do
	ExternalNodeID                string            // the provider's ID of the node; "" if no controller attaches volumes to it
	Context                       map[string]string // what the controller tells the node
	CreateIndex, ModifyIndex      uint64
}

// key returns the key of the claim in the table.
func (c *CSIClaim) key() string {
	return csiKey(c.Namespace, c.VolumeID) + "\x00" + c.AllocID.String()
}

// CSIClaim returns the claim of an allocation on a CSI volume, or nil.
func (s *Snapshot) CSIClaim(namespace, volume string, alloc berth.AllocID) *CSIClaim {
	return s.csi.claims.get(csiKey(namespace, volume) + "\x00" + alloc.String())
}

// ClaimsOfCSI returns the claims on a CSI volume.
func (s *Snapshot) ClaimsOfCSI(namespace, volume string) iter.Seq[*CSIClaim] {
	return s.csi.claims.of(csiKey(namespace, volume) + "\x00")
}

// CSIClaims returns all claims on CSI volumes.
func (s *Snapshot) CSIClaims() iter.Seq[*CSIClaim] { return s.csi.claims.all() }

// OpenCSIClaims returns the claims that are not just in use.
func (s *Snapshot) OpenCSIClaims() iter.Seq[*CSIClaim] {
	return rowsOf(&s.csi.claims.rows, s.csi.open.All())
}

// ClaimsOnNode returns the claims on CSI volumes of a node's allocations.
func (s *Snapshot) ClaimsOnNode(id berth.NodeID) iter.Seq[*CSIClaim] {
	return s.claimsBy(s.csi.byNode.Of(halfOf(id)), func(c *CSIClaim) bool { return c.NodeID == id })
}

// ClaimsOfAlloc returns the claims of an allocation on CSI volumes.
func (s *Snapshot) ClaimsOfAlloc(id berth.AllocID) iter.Seq[*CSIClaim] {
	return s.claimsBy(s.csi.byAlloc.Of(halfOf(id)), func(c *CSIClaim) bool { return c.AllocID == id })
}

// claimsBy returns the claims in slots that match.
func (s *Snapshot) claimsBy(slots iter.Seq[uint32], match func(*CSIClaim) bool) iter.Seq[*CSIClaim] {
	return func(yield func(*CSIClaim) bool) {
		for slot := range slots {
			if c := s.csi.claims.vec.Get(slot); match(c) && !yield(c) {
				return
			}
		}
	}
}

// ClaimWaitsFor returns the claim that a claim which is not published waits for:
// an older one that it cannot share the volume with. nil: there is none.
func (s *Snapshot) ClaimWaitsFor(c *CSIClaim) *CSIClaim {
	for x := range s.ClaimsOfCSI(c.Namespace, c.VolumeID) {
		older := x.CreateIndex < c.CreateIndex || x.CreateIndex == c.CreateIndex && x.AllocID.String() < c.AllocID.String()
		if older && x.clashes(c.NodeID, c.AccessMode, c.AttachmentMode, c.ReadOnly) != "" {
			return x
		}
	}
	return nil
}

// clashes returns why a volume that has the claim cannot be used in a second way,
// "" if it can.
func (c *CSIClaim) clashes(node berth.NodeID, access, attachment string, readOnly bool) string {
	switch {
	case c.AccessMode != access || c.AttachmentMode != attachment:
		return "is in use with access mode " + c.AccessMode + " and attachment mode " + c.AttachmentMode
	case (access == berth.AccessReader || access == berth.AccessWriter) && c.NodeID != node:
		return "is in use on another node, and access mode " + access
	case (access == berth.AccessWriter || access == berth.AccessSingleWriter) && !c.ReadOnly && !readOnly:
		return "has a writer already, and access mode " + access
	}
	return ""
}

// csiLack returns why an instance of a group cannot have a CSI volume on a node.
func (s *Snapshot) csiLack(n *berth.Node, j *berth.Job, g *berth.TaskGroup, r *berth.VolumeRequest, index uint32) (string, LackKind) {
	source := r.SourceFor(index)
	v := s.CSIVolume(j.Namespace, source)
	if v == nil {
		return "missing CSI volume: " + source, LacksCSIVolume
	}
	if v.ExternalID == "" {
		return "CSI volume " + source + " is not made yet", LacksCSIVolume
	}
	if why, kind := s.pluginLack(n, v); kind != LacksNothing {
		return why, kind
	}
	if !slices.Contains(v.RequestedCapabilities, berth.VolumeCapability{AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode}) {
		return fmt.Sprintf("CSI volume %s has no capability for access mode %s and attachment mode %s", source, r.AccessMode, r.AttachmentMode), LacksCSIVolume
	}
	for c := range s.ClaimsOfCSI(v.Namespace, v.ID) {
		a := s.Alloc(c.AllocID)
		if a != nil && a.Key() == j.Key() && a.Group.Name == g.Name && a.Index == index && (!j.PerNode() || c.NodeID == n.ID) {
			continue // of an allocation that the new one replaces; its own claim waits for this one
		}
		if why := c.clashes(n.ID, r.AccessMode, r.AttachmentMode, r.ReadOnly); why != "" {
			return "CSI volume " + source + " " + why, LacksCSIVolume
		}
	}
	return "", LacksNothing
}

// pluginLack returns why a node's plugin cannot have a CSI volume.
func (s *Snapshot) pluginLack(n *berth.Node, v *berth.CSIVolume) (string, LackKind) {
	info, p := n.CSINodePlugins[v.PluginID], s.CSIPlugin(v.PluginID)
	switch {
	case info == nil || p == nil:
		return "missing CSI plugin: " + v.PluginID, LacksPlugin
	case !info.Healthy || info.NodeInfo == nil:
		return "unhealthy CSI plugin: " + v.PluginID, LacksCSIVolume
	case p.ControllerRequired && p.ControllersHealthy == 0:
		return "CSI plugin " + v.PluginID + " has no healthy controller", LacksCSIVolume
	}
	if len(v.Topologies) > 0 && info.RequiresTopologies && !slices.ContainsFunc(v.Topologies, func(t berth.CSITopology) bool { return within(t, info.NodeInfo.AccessibleTopology) }) {
		return "CSI volume " + v.ID + " cannot be reached from the topology of the node", LacksPlugin
	}
	if info.NodeInfo.MaxVolumes == 0 {
		return "", LacksNothing
	}
	here := map[string]bool{}
	for c := range s.ClaimsOnNode(n.ID) {
		if c.PluginID == v.PluginID && (c.VolumeID != v.ID || c.Namespace != v.Namespace) {
			here[csiKey(c.Namespace, c.VolumeID)] = true
		}
	}
	if int64(len(here)) >= info.NodeInfo.MaxVolumes {
		return fmt.Sprintf("CSI plugin %s has %d volumes on the node, which is its limit", v.PluginID, info.NodeInfo.MaxVolumes), LacksCSIVolume
	}
	return "", LacksNothing
}

// within reports whether a node's topology, which may be nil, has all segments of
// a volume's.
func within(t berth.CSITopology, node *berth.CSITopology) bool {
	for k, v := range t.Segments {
		if node == nil || node.Segments[k] != v {
			return false
		}
	}
	return true
}

// claimCSI makes the claims of a new allocation.
func (tx *Tx) claimCSI(a *berth.Alloc, n *berth.Node) {
	for _, name := range slices.Sorted(maps.Keys(a.Group.Volumes)) {
		r := a.Group.Volumes[name]
		v := tx.CSIVolume(a.Job.Namespace, r.SourceFor(a.Index))
		if r.Type != berth.VolumeCSI || v == nil {
			continue
		}
		c := &CSIClaim{
			Namespace: v.Namespace, VolumeID: v.ID, PluginID: v.PluginID, AllocID: a.ID, NodeID: n.ID, ReadOnly: r.ReadOnly,
			AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode, State: ClaimTaken, CreateIndex: tx.Index,
		}
		if info := n.CSINodePlugins[v.PluginID]; info != nil && info.RequiresControllerPlugin && info.NodeInfo != nil {
			c.ExternalNodeID = info.NodeInfo.ID
		}
		if old := tx.csi.claims.get(c.key()); old != nil && !old.ReadOnly { // two blocks of the group name the volume
			c.ReadOnly = false
		}
		tx.putClaim(c)
	}
}

// putClaim stores a claim, in the state that follows from its allocation and node.
func (tx *Tx) putClaim(c *CSIClaim) {
	t, key := &tx.csi, c.key()
	c.State, c.ModifyIndex = tx.stateOfClaim(c), tx.Index
	old := t.claims.get(key)
	t.claims.put(tx, CSIClaims, key, c)
	slot, _ := t.claims.by.First(key)
	if old == nil {
		t.byNode.Add(tx.edit, halfOf(c.NodeID), slot)
		t.byAlloc.Add(tx.edit, halfOf(c.AllocID), slot)
	}
	switch was, is := old != nil && old.State != ClaimPublished, c.State != ClaimPublished; {
	case is && !was:
		t.open.Add(tx.edit, key, slot)
	case was && !is:
		t.open.Remove(tx.edit, key, slot)
	}
}

// dropClaim deletes a claim: for it, the volume is free.
func (tx *Tx) dropClaim(c *CSIClaim) {
	t, key := &tx.csi, c.key()
	slot, _ := t.claims.by.First(key)
	t.byNode.Remove(tx.edit, halfOf(c.NodeID), slot)
	t.byAlloc.Remove(tx.edit, halfOf(c.AllocID), slot)
	if c.State != ClaimPublished {
		t.open.Remove(tx.edit, key, slot)
	}
	t.claims.drop(tx, CSIClaims, key)
}

// stateOfClaim returns the state of a claim as its allocation and node are now.
func (s *Snapshot) stateOfClaim(c *CSIClaim) string {
	n, a := s.Node(c.NodeID), s.Alloc(c.AllocID)
	switch {
	case c.State == ClaimDetached:
		return ClaimDetached
	case n == nil || n.Status == berth.NodeDown:
		return ClaimLost
	case a == nil || a.Ended():
		return ClaimReleasing
	case c.Published:
		return ClaimPublished
	}
	return ClaimTaken
}

// followClaims gives claims the state that follows from their allocations and
// nodes, one of which changed.
func (tx *Tx) followClaims(claims iter.Seq[*CSIClaim]) {
	list := slices.SortedFunc(claims, func(a, b *CSIClaim) int { return strings.Compare(a.key(), b.key()) })
	for _, c := range list {
		if tx.stateOfClaim(c) != c.State {
			row := *c
			tx.putClaim(&row)
		}
	}
}

// StepCSIClaim is what the leader has done for a claim.
type StepCSIClaim struct {
	ByLeader
	Namespace, VolumeID string
	AllocID             berth.AllocID
	From                string            // the state in which it was done
	Context             map[string]string // from taken: what the controller tells the node
}

// Apply implements Command. What the claim's state does not ask for any more is
// refused; the next look at it tells what is to be done instead.
func (c *StepCSIClaim) Apply(tx *Tx) error {
	old := tx.CSIClaim(c.Namespace, c.VolumeID, c.AllocID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "claim on CSI volume not found: %s of allocation %s", berth.Clip(c.VolumeID, 64), c.AllocID)
	}
	row := *old
	switch why := validate.CSIContext(c.Context); {
	case why != "":
		return berth.Errorf(berth.Invalid, "Context: %s", why)
	case c.From == ClaimTaken && old.State != ClaimDetached:
		// It is attached, even if its allocation has ended since.
		if x := tx.ClaimWaitsFor(old); x != nil {
			return berth.Errorf(berth.Conflict, "CSI volume %s is still claimed by allocation %s", c.VolumeID, x.AllocID)
		}
		row.Published, row.Context = true, c.Context
	case c.From != old.State:
		return berth.Errorf(berth.Conflict, "claim on CSI volume %s of allocation %s is %s, not %s", c.VolumeID, c.AllocID, old.State, c.From)
	case c.From == ClaimReleasing || c.From == ClaimLost:
		row.State = ClaimDetached
	case c.From == ClaimDetached:
		tx.dropClaim(old)
		return nil
	default:
		return berth.Errorf(berth.Invalid, "From: must be taken, releasing, lost or node-detached, got %q", berth.Clip(c.From, 64))
	}
	tx.putClaim(&row)
	return nil
}

// DetachCSIVolume gives up the claims on a volume that a node holds and nothing
// there uses: the node is not waited for any more, and with Force the controller
// is not either.
type DetachCSIVolume struct {
	Namespace, ID string
	NodeID        berth.NodeID
	Force         bool
}

// Apply implements Command.
func (c *DetachCSIVolume) Apply(tx *Tx) error {
	if tx.CSIVolume(c.Namespace, c.ID) == nil {
		return berth.Errorf(berth.NotFound, "CSI volume not found: %s", berth.Clip(c.ID, 64))
	}
	var claims []*CSIClaim
	for x := range tx.ClaimsOfCSI(c.Namespace, c.ID) {
		if x.NodeID != c.NodeID {
			continue
		}
		if x.State == ClaimTaken || x.State == ClaimPublished {
			return berth.Errorf(berth.Conflict, "CSI volume %s is used by allocation %s on node %s; stop it first", c.ID, x.AllocID, c.NodeID)
		}
		claims = append(claims, x)
	}
	if len(claims) == 0 {
		return berth.Errorf(berth.NotFound, "CSI volume %s has no claim on node %s", c.ID, c.NodeID)
	}
	for _, x := range claims {
		switch {
		case c.Force:
			tx.dropClaim(x)
		case x.State != ClaimDetached:
			row := *x
			row.State = ClaimDetached
			tx.putClaim(&row)
		}
	}
	return nil
}

// loadCSIClaim adds a claim on a CSI volume of a saved snapshot.
func loadCSIClaim(l *loader, r *codec.Reader) error {
	c := read[CSIClaim](r)
	if r.Err() != nil {
		return nil
	}
	t := &l.tx.csi
	if err := t.claims.load(l, "claim on CSI volume", c.key(), c); err != nil {
		return err
	}
	slot, _ := t.claims.by.First(c.key())
	t.byNode.Add(l.tx.edit, halfOf(c.NodeID), slot)
	t.byAlloc.Add(l.tx.edit, halfOf(c.AllocID), slot)
	if c.State != ClaimPublished {
		t.open.Add(l.tx.edit, c.key(), slot)
	}
	return nil
}
