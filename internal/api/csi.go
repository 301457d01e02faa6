package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/internal/validate"
	"berth/op"
)

// csiVolumes registers the operations on CSI volumes, snapshots and plugins.
func (s *Server) csiVolumes() {
	read(s, op.ReadCSIVolume, readCSIVolume)
	read(s, op.ListPlugins, listPlugins)
	read(s, op.ReadPlugin, readPlugin)
	read(s, op.GetClaim, getClaim)
	write(s, op.RegisterCSIVolume, registerCSIVolume)
	write(s, op.RegisterCSIVolumes, registerCSIVolume)
	write(s, op.DeregisterCSIVolume, deregisterCSIVolume)
	write(s, op.DetachVolume, detachVolume)
	onLeader(s, op.CreateCSIVolume, s.createCSIVolume)
	onLeader(s, op.RemoveCSIVolume, s.removeCSIVolume)
	s.csiProvider()
}

// absentCSI is the answer for a CSI volume that does not exist.
func absentCSI(id string) error {
	return berth.Errorf(berth.NotFound, "CSI volume not found: %s", berth.Clip(id, 64))
}

// stubOfCSI shows a CSI volume in a list.
func stubOfCSI(s *state.Snapshot, v *berth.CSIVolume) op.HostVolumeStub {
	full := viewOfCSI(s, v)
	return op.HostVolumeStub{
		Namespace: v.Namespace, ID: v.ID, Name: v.Name, PluginID: v.PluginID,
		CreateIndex: v.CreateIndex, CreateTime: v.CreateTime, ModifyIndex: v.ModifyIndex, ModifyTime: v.ModifyTime,
		CSIStub: &op.CSIStub{
			ExternalID: v.ExternalID, Topologies: v.Topologies, AccessMode: full.AccessMode, AttachmentMode: full.AttachmentMode,
			CurrentReaders: len(full.ReadAllocs), CurrentWriters: len(full.WriteAllocs), Schedulable: full.Schedulable, ControllerRequired: full.ControllerRequired,
			Provider: full.Provider, ControllersHealthy: full.ControllersHealthy, ControllersExpected: full.ControllersExpected,
			NodesHealthy: full.NodesHealthy, NodesExpected: full.NodesExpected,
		},
	}
}

// listCSIVolumes lists the CSI volumes that the caller may see. The prefix is of
// IDs.
func listCSIVolumes(r *Read, in *op.VolumesQuery) ([]op.HostVolumeStub, error) {
	r.Table(state.CSIVolumes)
	r.Table(state.CSIClaims)
	r.Table(state.CSIPlugins)
	used := map[string]bool{}
	if !in.NodeID.IsZero() {
		for c := range r.ClaimsOnNode(in.NodeID) {
			used[c.Namespace+"\x00"+c.VolumeID] = true
		}
	}
	l := scanned(r.Query, r.CSIVolumes(), byID(func(v *berth.CSIVolume) string { return v.Namespace + "\x00" + v.ID }))
	keep := func(v *berth.CSIVolume) bool {
		return r.visible(acl.CSIListVolume, v.Namespace) && strings.HasPrefix(v.ID, r.Query.Prefix) &&
			(in.NodeID.IsZero() || used[v.Namespace+"\x00"+v.ID]) && (in.PluginID == "" || in.PluginID == v.PluginID)
	}
	return page(r, l, keep, func(v *berth.CSIVolume) op.HostVolumeStub { return stubOfCSI(r.Snapshot, v) })
}

// viewOfCSI shows a CSI volume with its claims and its plugin, without secrets and
// allocations.
func viewOfCSI(s *state.Snapshot, v *berth.CSIVolume) op.CSIVolume {
	out := op.CSIVolume{CSIVolume: withoutSecrets(v), ReadAllocs: map[string]*op.Nothing{}, WriteAllocs: map[string]*op.Nothing{}}
	for c := range s.ClaimsOfCSI(v.Namespace, v.ID) {
		out.AccessMode, out.AttachmentMode = c.AccessMode, c.AttachmentMode
		out.Claims = append(out.Claims, op.CSIClaim{AllocID: c.AllocID, NodeID: c.NodeID, ReadOnly: c.ReadOnly, State: c.State})
		if c.ReadOnly {
			out.ReadAllocs[c.AllocID.String()] = nil
		} else {
			out.WriteAllocs[c.AllocID.String()] = nil
		}
	}
	if p := s.CSIPlugin(v.PluginID); p != nil {
		out.Provider, out.ProviderVersion, out.ControllerRequired = p.Provider, p.Version, p.ControllerRequired
		out.ControllersHealthy, out.ControllersExpected, out.NodesHealthy, out.NodesExpected = p.ControllersHealthy, p.ControllersExpected, p.NodesHealthy, p.NodesExpected
		out.Schedulable = v.ExternalID != "" && p.NodesHealthy > 0 && (!p.ControllerRequired || p.ControllersHealthy > 0)
	}
	return out
}

// redacted stands for a secret in what is shown.
const redacted = "[REDACTED]"

// withoutSecrets returns a CSI volume as it may be shown: with the names of its
// secrets, and without mount flags, which may hold some.
func withoutSecrets(v *berth.CSIVolume) *berth.CSIVolume {
	out := *v
	out.Secrets = maps.Clone(v.Secrets)
	for k := range out.Secrets {
		out.Secrets[k] = redacted
	}
	if m := v.MountOptions; m != nil && len(m.MountFlags) > 0 {
		out.MountOptions = &berth.CSIMountOptions{FSType: m.FSType, MountFlags: []string{redacted}}
	}
	return &out
}

// readCSIVolume returns a CSI volume with the allocations that use it.
func readCSIVolume(r *Read, in *op.CSIVolumeRef) (out op.CSIVolume, err error) {
	r.Table(state.CSIVolumes)
	r.Table(state.CSIClaims)
	r.Table(state.CSIPlugins)
	v := r.CSIVolume(r.Space(), in.VolumeID)
	if v == nil {
		return out, absentCSI(in.VolumeID)
	}
	out = viewOfCSI(r.Snapshot, v)
	var users []*berth.Alloc
	for c := range r.ClaimsOfCSI(v.Namespace, v.ID) {
		if a := r.Alloc(c.AllocID); a != nil {
			users = append(users, a)
		}
	}
	out.Allocations = r.allocStubs(users)
	return out, nil
}

// listPlugins lists the CSI plugins.
func listPlugins(r *Read, in *op.PluginsQuery) ([]op.PluginStub, error) {
	if in.Type != "" && in.Type != berth.VolumeCSI {
		return nil, berth.Errorf(berth.Invalid, "type: must be %s, got %q", berth.VolumeCSI, berth.Clip(in.Type, 64))
	}
	r.Table(state.CSIPlugins)
	l := scanned(r.Query, r.CSIPlugins(), byID(func(p *state.CSIPlugin) string { return p.ID }))
	return page(r, l, func(p *state.CSIPlugin) bool { return strings.HasPrefix(p.ID, r.Query.Prefix) }, stubOfPlugin)
}

// stubOfPlugin shows a plugin in a list.
func stubOfPlugin(p *state.CSIPlugin) op.PluginStub {
	return op.PluginStub{
		ID: p.ID, Provider: p.Provider, ControllerRequired: p.ControllerRequired, ControllersHealthy: p.ControllersHealthy, ControllersExpected: p.ControllersExpected,
		NodesHealthy: p.NodesHealthy, NodesExpected: p.NodesExpected, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex,
	}
}

// readPlugin returns a plugin with its nodes and allocations, as far as the caller
// may read their jobs.
func readPlugin(r *Read, in *op.PluginRef) (out op.Plugin, err error) {
	r.Table(state.CSIPlugins)
	r.Table(state.Nodes)
	p := r.CSIPlugin(in.PluginID)
	if p == nil {
		return out, noPlugin(in.PluginID)
	}
	out = op.Plugin{PluginStub: stubOfPlugin(p), Version: p.Version, Controllers: map[string]*berth.CSIInfo{}, Nodes: map[string]*berth.CSIInfo{}}
	ids := map[string]bool{}
	for n := range r.NodesOfPlugin(p.ID) {
		if x := n.CSIControllerPlugins[p.ID]; x != nil {
			out.Controllers[n.ID.String()], ids[x.AllocID] = x, true
		}
		if x := n.CSINodePlugins[p.ID]; x != nil {
			out.Nodes[n.ID.String()], ids[x.AllocID] = x, true
		}
	}
	var allocs []*berth.Alloc
	for _, text := range slices.Sorted(maps.Keys(ids)) {
		id, err := berth.ParseID[berth.Alloc](text)
		if a := r.Alloc(id); err == nil && a != nil && r.may(acl.ReadJob, a.Job.Namespace) == nil {
			allocs = append(allocs, a)
		}
	}
	out.Allocations = r.allocStubs(allocs)
	return out, nil
}

// getClaim tells a node whether it may mount a volume for one of its allocations,
// and how. Who does not prove to be the node of a live allocation with the claim
// learns nothing.
func getClaim(r *Read, in *op.ReadClaim) (out op.GrantedClaim, err error) {
	r.Table(state.CSIClaims)
	n, err := prove(r.Snapshot, in.NodeID, in.AuthToken)
	if err != nil {
		return out, err
	}
	a := r.Alloc(in.AllocID)
	if a == nil || a.NodeID != n.ID || a.Ended() {
		return out, berth.Errorf(berth.Denied, "Permission denied: allocation %s does not run on node %s", in.AllocID, n.ID)
	}
	c, v := r.CSIClaim(a.Job.Namespace, in.VolumeID, a.ID), r.CSIVolume(a.Job.Namespace, in.VolumeID)
	if c == nil || v == nil {
		return out, berth.Errorf(berth.NotFound, "allocation %s has no claim on CSI volume %s", a.ID, berth.Clip(in.VolumeID, 64))
	}
	if c.State != state.ClaimPublished {
		out.Waits = "the controller of plugin " + v.PluginID + " is to attach it"
		if x := r.ClaimWaitsFor(c); x != nil {
			out.Waits = "allocation " + x.AllocID.Short() + " on node " + x.NodeID.Short() + " still has it (" + x.State + ")"
		}
		return out, nil
	}
	return op.GrantedClaim{Published: true, Volume: *v, Context: c.Context, ReadOnly: c.ReadOnly, AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode}, nil
}

// wantedCSIVolume completes and checks the one CSI volume that a request
// describes. old is the one that it changes, or nil.
func (w *Write) wantedCSIVolume(in *op.WriteCSIVolumes) (v, old *berth.CSIVolume, err error) {
	v = &berth.CSIVolume{}
	if len(in.Volumes) == 1 && in.Volumes[0] != nil {
		*v = *in.Volumes[0]
	}
	if v.Namespace, err = bodySpace(w, acl.CSIWriteVolume, v.Namespace); err != nil {
		return nil, nil, err
	}
	if len(in.Volumes) != 1 || in.Volumes[0] == nil {
		return nil, nil, berth.Errorf(berth.Invalid, "Volumes: must be one volume, got %d", len(in.Volumes))
	}
	if in.VolumeID != "" && v.ID != "" && in.VolumeID != v.ID {
		return nil, nil, berth.Errorf(berth.Invalid, "ID: %q in the body differs from %q of the request", berth.Clip(v.ID, 64), berth.Clip(in.VolumeID, 64))
	}
	v.ID = cmp.Or(v.ID, in.VolumeID)
	v.Name = cmp.Or(v.Name, v.ID)
	if old = w.CSIVolume(v.Namespace, v.ID); old != nil {
		v.PluginID, v.ExternalID = cmp.Or(v.PluginID, old.PluginID), cmp.Or(v.ExternalID, old.ExternalID)
		v.Capacity, v.Topologies = old.Capacity, old.Topologies
		if v.Context == nil {
			v.Context = old.Context
		}
		if v.Secrets == nil {
			v.Secrets = old.Secrets
		}
		if m := v.MountOptions; m != nil && old.MountOptions != nil && slices.Equal(m.MountFlags, []string{redacted}) {
			v.MountOptions = &berth.CSIMountOptions{FSType: m.FSType, MountFlags: old.MountOptions.MountFlags}
		}
		v.Secrets = maps.Clone(v.Secrets)
		for k, text := range v.Secrets {
			if was, had := old.Secrets[k]; had && text == redacted { // sent back as it was read
				v.Secrets[k] = was
			}
		}
		if v.RequestedCapabilities == nil {
			v.RequestedCapabilities = old.RequestedCapabilities
		}
	}
	return v, old, validate.CSIVolume(v)
}

// registerCSIVolume decides that a volume that its provider has is known.
func registerCSIVolume(w *Write, in *op.WriteCSIVolumes) (ch Change[op.CSIVolumesWritten], err error) {
	v, _, err := w.wantedCSIVolume(in)
	switch {
	case err != nil:
		return ch, err
	case v.ExternalID == "":
		return ch, berth.Errorf(berth.Invalid, "ExternalID: is missing: want the provider's ID of the volume")
	case w.CSIPlugin(v.PluginID) == nil:
		return ch, berth.Errorf(berth.NotFound, "PluginID: no node runs CSI plugin %q", berth.Clip(v.PluginID, 64))
	}
	return propose(&state.PutCSIVolume{Volume: v, Now: w.Now.UnixNano()}, func(o *Outcome) op.CSIVolumesWritten {
		out := op.CSIVolumesWritten{}
		if row := o.After.CSIVolume(v.Namespace, v.ID); row != nil {
			out.Volumes = []*berth.CSIVolume{withoutSecrets(row)}
		}
		return out
	}), nil
}

// deregisterCSIVolume decides that a volume is forgotten. Its provider keeps it.
func deregisterCSIVolume(w *Write, in *op.DropCSIVolume) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteCSIVolume{Namespace: w.Space(), ID: in.VolumeID, Force: in.Force}, nil), nil
}

// detachVolume decides that a node is not waited for any more.
func detachVolume(w *Write, in *op.DetachCSIVolume) (ch Change[op.WriteAnswer], err error) {
	if in.Node.IsZero() {
		return ch, berth.Errorf(berth.Invalid, "node: is missing: want the ID of the node that holds the volume")
	}
	return propose[op.WriteAnswer](&state.DetachCSIVolume{Namespace: w.Space(), ID: in.VolumeID, NodeID: in.Node, Force: in.Force}, nil), nil
}
