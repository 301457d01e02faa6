package state

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/cow"
	"berth/internal/state/codec"
	"berth/internal/validate"
)

// CSI volumes belong to storage providers, and plugins reach them. Plugins are
// what nodes say that they run. See csi_claim.go for who uses a volume.

// csiSince is the log version that brought CSI volumes, and csiVolumes their
// feature.
const (
	csiSince   = 7
	csiVolumes = "CSI volumes"
	moreOfCSI  = "CSI block devices, and CSI volumes of system, sysbatch and stream jobs" // since devicesSince
)

// csiTable holds CSI volumes, the claims on them, and plugins.
type csiTable struct {
	keyed[berth.CSIVolume] // by csiKey
	claims                 keyed[CSIClaim]
	open                   cow.Tree[string] // claims that the leader has to do something for, by key
	byNode, byAlloc        cow.Tree[uint64] // claims, by the first half of the ID
	plugins                keyed[CSIPlugin]
	runners                cow.Tree[string] // numbers of the nodes that run a plugin, by its ID
}

// CSIPlugin is a CSI plugin, as the nodes that run it describe it.
type CSIPlugin struct {
	ID, Provider, Version                   string
	ControllerRequired                      bool
	ControllersHealthy, ControllersExpected int // nodes; those that are down are not healthy
	NodesHealthy, NodesExpected             int
	CreateIndex, ModifyIndex                uint64
}

// csiKey is the key of a CSI volume, and begins those of its claims.
func csiKey(namespace, id string) string { return namespace + "\x00" + id }

// CSIVolume returns the CSI volume with an ID, or nil.
func (s *Snapshot) CSIVolume(namespace, id string) *berth.CSIVolume {
	return s.csi.get(csiKey(namespace, id))
}

// CSIVolumes returns all CSI volumes by namespace and ID.
func (s *Snapshot) CSIVolumes() iter.Seq[*berth.CSIVolume] { return s.csi.all() }

// CSIPlugin returns the plugin with an ID, or nil if no node runs it.
func (s *Snapshot) CSIPlugin(id string) *CSIPlugin { return s.csi.plugins.get(id) }

// CSIPlugins returns all plugins in order of ID.
func (s *Snapshot) CSIPlugins() iter.Seq[*CSIPlugin] { return s.csi.plugins.all() }

// NodesOfPlugin returns the nodes that run a plugin, whether or not it is healthy.
func (s *Snapshot) NodesOfPlugin(id string) iter.Seq[*berth.Node] {
	return func(yield func(*berth.Node) bool) {
		for number := range s.csi.runners.Of(id) {
			if n := s.NodeByNumber(number); n != nil && !yield(n) {
				return
			}
		}
	}
}

// pluginHealth adds what a node, which may be nil, has of a plugin to a row, n
// times.
func pluginHealth(p *CSIPlugin, of *berth.Node, id string, n int) {
	if of == nil {
		return
	}
	count := func(x *berth.CSIInfo, healthy, expected *int) {
		if x == nil {
			return
		}
		if *expected += n; x.Healthy && of.Status != berth.NodeDown {
			*healthy += n
		}
		if n > 0 {
			p.Provider, p.Version, p.ControllerRequired = cmp.Or(x.Provider, p.Provider), cmp.Or(x.ProviderVersion, p.Version), p.ControllerRequired || x.RequiresControllerPlugin
		}
	}
	count(of.CSIControllerPlugins[id], &p.ControllersHealthy, &p.ControllersExpected)
	count(of.CSINodePlugins[id], &p.NodesHealthy, &p.NodesExpected)
}

// pluginsOf returns the IDs of the plugins that nodes, which may be nil, run.
func pluginsOf(nodes ...*berth.Node) []string {
	var ids []string
	for _, n := range nodes {
		if n != nil {
			ids = slices.AppendSeq(ids, maps.Keys(n.CSIControllerPlugins))
			ids = slices.AppendSeq(ids, maps.Keys(n.CSINodePlugins))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// followPlugins counts what a node runs, in place of what it ran; either may be
// nil.
func (tx *Tx) followPlugins(old, n *berth.Node) {
	t := &tx.csi
	for _, id := range pluginsOf(old, n) {
		row, was := CSIPlugin{ID: id, CreateIndex: tx.Index}, t.plugins.get(id)
		if was != nil {
			row = *was
		}
		pluginHealth(&row, old, id, -1)
		pluginHealth(&row, n, id, 1)
		runs, ran := slices.Contains(pluginsOf(n), id), slices.Contains(pluginsOf(old), id)
		switch {
		case runs && !ran:
			t.runners.Add(tx.edit, id, n.Number)
		case ran && !runs:
			t.runners.Remove(tx.edit, id, old.Number)
		}
		switch {
		case row.ControllersExpected+row.NodesExpected == 0:
			t.plugins.drop(tx, CSIPlugins, id)
		case was == nil || row != *was:
			row.ModifyIndex = tx.Index
			t.plugins.put(tx, CSIPlugins, id, &row)
		}
	}
}

// PutCSIVolume registers or changes a CSI volume.
type PutCSIVolume struct {
	Volume *berth.CSIVolume
	Now    int64
}

// Apply implements Command.
func (c *PutCSIVolume) Apply(tx *Tx) error {
	v := c.Volume
	if v == nil {
		return berth.Errorf(berth.Invalid, "CSI volume: is missing")
	}
	if err := validate.CSIVolume(v); err != nil {
		return err
	}
	old := tx.CSIVolume(v.Namespace, v.ID)
	switch {
	case tx.Namespace(v.Namespace) == nil:
		return berth.Errorf(berth.Invalid, "Namespace: namespace %q not found", berth.Clip(v.Namespace, 64))
	case old != nil && (old.ExternalID != "" && old.ExternalID != v.ExternalID || old.PluginID != v.PluginID):
		return berth.Errorf(berth.Conflict, "CSI volume %s: its external ID and plugin cannot change; deregister it first", v.ID)
	}
	if old != nil {
		for x := range tx.ClaimsOfCSI(v.Namespace, v.ID) {
			if !slices.Contains(v.RequestedCapabilities, berth.VolumeCapability{AccessMode: x.AccessMode, AttachmentMode: x.AttachmentMode}) {
				return berth.Errorf(berth.Conflict, "RequestedCapabilities: must have access mode %s and attachment mode %s, which allocation %s uses", x.AccessMode, x.AttachmentMode, x.AllocID)
			}
		}
	}
	row := *v
	row.CreateIndex, row.ModifyIndex, row.CreateTime, row.ModifyTime = tx.Index, tx.Index, c.Now, c.Now
	if old != nil {
		row.CreateIndex, row.CreateTime = old.CreateIndex, old.CreateTime
	}
	tx.csi.put(tx, CSIVolumes, csiKey(v.Namespace, v.ID), &row)
	return nil
}

// needs implements needer: block devices came with log version 9.
func (c *PutCSIVolume) needs() int {
	if c.Volume != nil && slices.ContainsFunc(c.Volume.RequestedCapabilities, func(v berth.VolumeCapability) bool { return v.AttachmentMode == berth.AttachBlock }) {
		return devicesSince
	}
	return csiSince
}

// feature implements featured.
func (c *PutCSIVolume) feature() string {
	if c.needs() == devicesSince {
		return moreOfCSI
	}
	return csiVolumes
}

// DeleteCSIVolume forgets a CSI volume. One that has claims stays. Force drops the
// claims of allocations that have ended, and of lost nodes.
type DeleteCSIVolume struct {
	Namespace, ID string
	Force         bool
}

// Apply implements Command.
func (c *DeleteCSIVolume) Apply(tx *Tx) error {
	if tx.CSIVolume(c.Namespace, c.ID) == nil {
		return berth.Errorf(berth.NotFound, "CSI volume not found: %s", berth.Clip(c.ID, 64))
	}
	claims := slices.Collect(tx.ClaimsOfCSI(c.Namespace, c.ID))
	for _, x := range claims { // all are checked before the first is dropped: a refusal changes nothing
		if !c.Force || x.State == ClaimTaken || x.State == ClaimPublished {
			return berth.Errorf(berth.Conflict, "CSI volume %s is claimed by allocation %s (%s); stop it first", c.ID, x.AllocID, x.State)
		}
	}
	for _, x := range claims {
		tx.dropClaim(x)
	}
	tx.csi.drop(tx, CSIVolumes, csiKey(c.Namespace, c.ID))
	return nil
}

// loadCSIVolume adds a CSI volume of a saved snapshot.
func loadCSIVolume(l *loader, r *codec.Reader) error {
	v := read[berth.CSIVolume](r)
	if r.Err() != nil {
		return nil
	}
	if v.ID == "" || strings.Contains(v.Namespace+v.ID, "\x00") {
		return duplicate("CSI volume", v.ID)
	}
	return l.tx.csi.load(l, "CSI volume", csiKey(v.Namespace, v.ID), v)
}

// loadCSIPlugin adds a CSI plugin of a saved snapshot. The nodes that run it were
// loaded before.
func loadCSIPlugin(l *loader, r *codec.Reader) error {
	p := read[CSIPlugin](r)
	if r.Err() != nil {
		return nil
	}
	return l.tx.csi.plugins.load(l, "CSI plugin", p.ID, p)
}

// findRunners indexes the nodes that run plugins.
func (l *loader) findRunners() {
	for n := range l.tx.Nodes() {
		for _, id := range pluginsOf(n) {
			l.tx.csi.runners.Add(l.tx.edit, id, n.Number)
		}
	}
}
