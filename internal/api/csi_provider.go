package api

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// csiTime is how long a node may take to have a plugin do something.
const csiTime = op.CSITime + 10*time.Second

// csiProvider registers the operations that ask the provider of a plugin.
func (s *Server) csiProvider() {
	add(s, op.ListExternalVolumes, func(ctx context.Context, who Caller, in *op.ExternalQuery) (out op.ExternalVolumes, meta op.Meta, err error) {
		done, meta, err := s.askProvider(ctx, op.ListExternalVolumes.Info, who, in, op.CSIList)
		if err == nil {
			out = op.ExternalVolumes{Volumes: done.Volumes, NextToken: done.NextToken}
		}
		return out, meta, err
	})
	add(s, op.ListSnapshots, func(ctx context.Context, who Caller, in *op.ExternalQuery) (out op.Snapshots, meta op.Meta, err error) {
		done, meta, err := s.askProvider(ctx, op.ListSnapshots.Info, who, in, op.CSISnapshotList)
		if err == nil {
			out = op.Snapshots{Snapshots: done.Snapshots, NextToken: done.NextToken}
		}
		return out, meta, err
	})
	onLeader(s, op.CreateSnapshot, s.createSnapshot)
	effect(s, op.RemoveSnapshot, func(ctx context.Context, w *Write, in *op.DropSnapshot) (out op.WriteAnswer, err error) {
		if in.SnapshotID == "" || in.PluginID == "" {
			return out, berth.Errorf(berth.Invalid, "snapshot_id and plugin_id: must be given")
		}
		if w.CSIPlugin(in.PluginID) == nil {
			return out, noPlugin(in.PluginID)
		}
		secrets, err := op.ParseSecrets(in.Secrets)
		if err == nil {
			_, err = s.callController(ctx, w.Snapshot, &op.AgentCSI{Do: op.CSISnapshotDelete, SnapshotID: in.SnapshotID, Volume: berth.CSIVolume{PluginID: in.PluginID, Secrets: secrets}})
		}
		return out, err
	})
}

// noPlugin is the error for an ID that no plugin has.
func noPlugin(id string) error {
	return berth.Errorf(berth.NotFound, "CSI plugin not found: %s", berth.Clip(id, 64))
}

// callController has a controller of a volume's plugin do something: the first
// that can be reached.
func (s *Server) callController(ctx context.Context, snap *state.Snapshot, in *op.AgentCSI) (out *op.CSIDone, err error) {
	id := in.Volume.PluginID
	err = berth.Errorf(berth.Unavailable, "CSI plugin %q has no healthy controller", berth.Clip(id, 64))
	for n := range snap.NodesOfPlugin(id) {
		if x := n.CSIControllerPlugins[id]; x == nil || !x.Healthy || n.Status != berth.NodeReady {
			continue
		}
		in.NodeID = n.ID.String()
		if out, err = callAgentFor(ctx, s, csiTime, n.ID, op.CallCSI, in); err == nil || berth.KindOf(err) != berth.Unavailable {
			return out, err
		}
	}
	return nil, err
}

// seesSomewhere reports whether the caller has a right in any namespace.
func (r *Read) seesSomewhere(need acl.Capability) bool {
	for n := range r.Namespaces() {
		if r.visible(need, n.Name) {
			return true
		}
	}
	return false
}

// askProvider answers a read that the provider of a plugin knows.
func (s *Server) askProvider(ctx context.Context, info *op.Info, who Caller, in *op.ExternalQuery, do string) (out *op.CSIDone, meta op.Meta, err error) {
	secrets, err := op.ParseSecrets(in.Secrets)
	if err != nil {
		return nil, meta, err
	}
	var snap *state.Snapshot
	_, meta, err = answer(ctx, s, info, who, &in.Query, func(r *Read) (op.Nothing, error) {
		r.At(r.Index)
		r.Ready()
		snap = r.Snapshot
		if r.Space() == berth.AllNamespaces && !r.seesSomewhere(info.Need) {
			return op.Nothing{}, berth.Errorf(berth.Denied, "Permission denied")
		}
		if r.CSIPlugin(in.PluginID) == nil {
			return op.Nothing{}, noPlugin(in.PluginID)
		}
		return op.Nothing{}, nil
	})
	if err != nil {
		return nil, meta, err
	}
	out, err = s.callController(ctx, snap, &op.AgentCSI{Do: do, Volume: berth.CSIVolume{PluginID: in.PluginID, Secrets: secrets}, PerPage: in.PerPage, NextToken: in.NextToken})
	return out, meta, err
}

// createCSIVolume has the provider make a volume, or make one larger. It is
// recorded first, so that what was made is never forgotten: asked again, the
// provider gives the same.
func (s *Server) createCSIVolume(ctx context.Context, who Caller, opts *op.Write, in *op.WriteCSIVolumes) (out op.CSIVolumesWritten, _ uint64, err error) {
	w, leader, err := s.admitWrite(ctx, op.CreateCSIVolume.Info, who, opts)
	if err == nil {
		err = confirm(ctx, leader)
	}
	if err != nil {
		return out, 0, err
	}
	v, old, err := w.wantedCSIVolume(in)
	if err != nil {
		return out, 0, err
	}
	if old == nil && v.ExternalID != "" {
		return out, 0, berth.Errorf(berth.Invalid, "ExternalID: the plugin decides on it: register a volume that exists")
	}
	if p := w.CSIPlugin(v.PluginID); p == nil || p.ControllersHealthy == 0 { // nothing is recorded that nobody can make
		return out, 0, berth.Errorf(berth.Unavailable, "PluginID: no node runs a healthy controller of CSI plugin %q", berth.Clip(v.PluginID, 64))
	}
	do := op.CSICreate
	if v.ExternalID != "" {
		do = op.CSIExpand
		if v.RequestedCapacityMax > 0 && v.RequestedCapacityMax < old.Capacity {
			return out, 0, berth.Errorf(berth.Invalid, "RequestedCapacityMax: must be at least the volume's capacity of %d bytes, got %d: a volume cannot shrink", old.Capacity, v.RequestedCapacityMax)
		}
	} else if _, err := commit(ctx, leader, []state.Command{&state.PutCSIVolume{Volume: v, Now: w.Now.UnixNano()}}, false); err != nil {
		return out, 0, err
	}
	done, grown := *v, false
	if do == op.CSICreate || v.RequestedCapacityMin > old.Capacity {
		mode := firstMode(v)
		made, err := s.callController(ctx, w.Snapshot, &op.AgentCSI{Do: do, Volume: *v, AccessMode: mode.AccessMode, AttachmentMode: mode.AttachmentMode})
		if err != nil {
			if old == nil && berth.KindOf(err) != berth.Unavailable { // the provider refused it; else it may have been made
				_, _ = commit(context.WithoutCancel(ctx), leader, []state.Command{&state.DeleteCSIVolume{Namespace: v.Namespace, ID: v.ID}}, false)
			}
			return out, 0, err
		}
		m := made.Volume
		done.ExternalID, done.Capacity = m.ExternalID, m.Capacity
		if do == op.CSICreate {
			done.Context, done.Topologies = m.Context, m.Topologies
		}
		grown = made.OnNode
	}
	index, err := commit(ctx, leader, []state.Command{&state.PutCSIVolume{Volume: &done, Now: w.Now.UnixNano()}}, false)
	if err != nil {
		return out, 0, err
	}
	if grown {
		err = s.expandOnNodes(ctx, &done)
	}
	out.Volumes = []*berth.CSIVolume{withoutSecrets(cmp.Or(s.Store.Snapshot().CSIVolume(v.Namespace, v.ID), &done))}
	return out, index, err
}

// firstMode returns a way in which a volume may be used.
func firstMode(v *berth.CSIVolume) (c berth.VolumeCapability) {
	if len(v.RequestedCapabilities) > 0 {
		c = v.RequestedCapabilities[0]
	}
	return c
}

// expandOnNodes has each node that has mounted a volume grow its file system.
func (s *Server) expandOnNodes(ctx context.Context, v *berth.CSIVolume) error {
	for c := range s.Store.Snapshot().ClaimsOfCSI(v.Namespace, v.ID) {
		if c.State != state.ClaimPublished {
			continue
		}
		_, err := callAgentFor(ctx, s, csiTime, c.NodeID, op.CallCSI, &op.AgentCSI{
			NodeID: c.NodeID.String(), Do: op.CSINodeExpand, Volume: *v, AllocID: c.AllocID.String(), AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode,
		})
		if err != nil {
			return berth.Errorf(berth.KindOf(err), "the volume has %d bytes, but not on node %s: %w", v.Capacity, c.NodeID, err)
		}
	}
	return nil
}

// withSecrets returns a volume with the secrets of a request beside its own.
func withSecrets(v *berth.CSIVolume, secrets map[string]string) berth.CSIVolume {
	out := *v
	if out.Secrets = maps.Clone(v.Secrets); out.Secrets == nil {
		out.Secrets = map[string]string{}
	}
	maps.Copy(out.Secrets, secrets)
	return out
}

// removeCSIVolume has the provider delete a volume, which a request names by its
// ID or by the provider's.
func (s *Server) removeCSIVolume(ctx context.Context, who Caller, opts *op.Write, in *op.DropCSIVolume) (out op.WriteAnswer, _ uint64, err error) {
	w, leader, err := s.admitWrite(ctx, op.RemoveCSIVolume.Info, who, opts)
	if err == nil {
		err = confirm(ctx, leader)
	}
	if err != nil {
		return out, 0, err
	}
	secrets, err := op.ParseSecrets(in.Secrets)
	if err != nil {
		return out, 0, err
	}
	v := w.CSIVolume(w.Space(), in.VolumeID)
	for x := range w.CSIVolumes() {
		if v == nil && x.Namespace == w.Space() && x.ExternalID == in.VolumeID && in.VolumeID != "" {
			v = x
		}
	}
	if v == nil {
		return out, 0, absentCSI(in.VolumeID)
	}
	for c := range w.ClaimsOfCSI(v.Namespace, v.ID) {
		return out, 0, berth.Errorf(berth.Conflict, "CSI volume %s is claimed by allocation %s (%s); stop it first", v.ID, c.AllocID, c.State)
	}
	if v.ExternalID != "" {
		if _, err := s.callController(ctx, w.Snapshot, &op.AgentCSI{Do: op.CSIDelete, Volume: withSecrets(v, secrets)}); err != nil {
			return out, 0, err
		}
	}
	index, err := commit(ctx, leader, []state.Command{&state.DeleteCSIVolume{Namespace: v.Namespace, ID: v.ID}}, false)
	return out, index, err
}

// createSnapshot has the provider make a snapshot of a volume.
func (s *Server) createSnapshot(ctx context.Context, who Caller, opts *op.Write, in *op.WriteSnapshots) (out op.Snapshots, _ uint64, err error) {
	w, leader, err := s.admitWrite(ctx, op.CreateSnapshot.Info, who, opts)
	if err == nil {
		err = confirm(ctx, leader)
	}
	if err != nil {
		return out, 0, err
	}
	if len(in.Snapshots) != 1 || in.Snapshots[0] == nil {
		return out, 0, berth.Errorf(berth.Invalid, "Snapshots: must be one snapshot, got %d", len(in.Snapshots))
	}
	want := in.Snapshots[0]
	v := w.CSIVolume(w.Space(), want.SourceVolumeID)
	switch {
	case v == nil:
		return out, 0, absentCSI(want.SourceVolumeID)
	case want.PluginID != "" && want.PluginID != v.PluginID:
		return out, 0, berth.Errorf(berth.Invalid, "PluginID: must be %s, which is that of the volume, got %q", v.PluginID, berth.Clip(want.PluginID, 64))
	case v.ExternalID == "":
		return out, 0, berth.Errorf(berth.Conflict, "CSI volume %s is not made yet", v.ID)
	}
	secrets, err := op.ParseSecrets(in.Secrets)
	if err != nil {
		return out, 0, err
	}
	maps.Copy(secrets, want.Secrets) // clients send them twice; those of the body may have commas
	from := withSecrets(v, secrets)
	from.Parameters = want.Parameters
	done, err := s.callController(ctx, w.Snapshot, &op.AgentCSI{Do: op.CSISnapshotCreate, Volume: from, Name: cmp.Or(want.Name, v.ID)})
	if err != nil {
		return out, 0, err
	}
	for _, x := range done.Snapshots {
		x.SourceVolumeID = v.ID
	}
	out.Snapshots = slices.Clone(done.Snapshots)
	return out, w.Index, nil
}
