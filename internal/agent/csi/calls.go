package csi

import (
	"context"

	"berth"
	"berth/op"
)

// Call does what servers ask for.
func (m *Manager) Call(ctx context.Context, in *op.AgentCSI) (*op.CSIDone, error) {
	v := &in.Volume
	switch in.Do {
	case op.CSINodeDetach:
		if !m.c.Over(in.AllocID) {
			return nil, berth.Errorf(berth.Conflict, "allocation %s has not ended on its node", berth.Clip(in.AllocID, 64))
		}
		return &op.CSIDone{}, m.Unmount(ctx, in.AllocID, v.Namespace, v.ID)
	case op.CSINodeExpand:
		return &op.CSIDone{}, m.nodeExpand(ctx, in)
	}
	p, _, err := m.plugin(v.PluginID, true)
	if err != nil {
		return nil, err
	}
	defer m.turn.take(v.Namespace + "\x00" + v.ID)()
	c := controller{p.client, in, v}
	switch in.Do {
	case op.CSIPublish:
		return c.publish(ctx)
	case op.CSIUnpublish:
		return &op.CSIDone{}, gone(c.call(ctx, "ControllerUnpublishVolume", &controllerUnpublishVolume{v.ExternalID, in.ExternalNodeID, v.Secrets}, &empty{}))
	case op.CSICreate:
		return c.create(ctx)
	case op.CSIDelete:
		return &op.CSIDone{}, gone(c.call(ctx, "DeleteVolume", &deleteByID{v.ExternalID, v.Secrets}, &empty{}))
	case op.CSIExpand:
		return c.expand(ctx)
	case op.CSIList:
		return c.list(ctx)
	case op.CSISnapshotCreate:
		return c.snapshot(ctx)
	case op.CSISnapshotDelete:
		return &op.CSIDone{}, gone(c.call(ctx, "DeleteSnapshot", &deleteByID{in.SnapshotID, v.Secrets}, &empty{}))
	case op.CSISnapshotList:
		return c.snapshots(ctx)
	}
	return nil, berth.Errorf(berth.Invalid, "Do: %q is not known to this agent", berth.Clip(in.Do, 64))
}

// gone takes it that what does not exist is gone.
func gone(err error) error {
	if berth.KindOf(err) == berth.NotFound {
		return nil
	}
	return err
}

// controller calls the controller of a plugin for servers.
type controller struct {
	client *client
	in     *op.AgentCSI
	v      *berth.CSIVolume
}

func (c controller) call(ctx context.Context, method string, in, out any) error {
	return c.client.call(ctx, callTime, "Controller/"+method, in, out)
}

func (c controller) publish(ctx context.Context) (*op.CSIDone, error) {
	var out controllerPublished
	err := c.call(ctx, "ControllerPublishVolume", &controllerPublishVolume{
		ID: c.v.ExternalID, Node: c.in.ExternalNodeID, Access: accessOf(c.in.AccessMode, c.in.AttachmentMode, c.v.MountOptions), ReadOnly: c.in.ReadOnly,
		Secrets: c.v.Secrets, Context: c.v.Context,
	}, &out)
	return &op.CSIDone{Context: out.Context}, err
}

// sizes returns the wanted capacity, nil if none is.
func (c controller) sizes() *capacity {
	if c.v.RequestedCapacityMin == 0 && c.v.RequestedCapacityMax == 0 {
		return nil
	}
	return &capacity{c.v.RequestedCapacityMin, c.v.RequestedCapacityMax}
}

func (c controller) create(ctx context.Context) (*op.CSIDone, error) {
	in := &createVolume{Name: c.v.Name, Capacity: c.sizes(), Parameters: c.v.Parameters, Secrets: c.v.Secrets}
	for _, x := range c.v.RequestedCapabilities {
		in.Capabilities = append(in.Capabilities, *accessOf(x.AccessMode, x.AttachmentMode, c.v.MountOptions))
	}
	switch {
	case c.v.SnapshotID != "":
		in.Source = &source{Snapshot: &byID{c.v.SnapshotID}}
	case c.v.CloneID != "":
		in.Source = &source{Volume: &byID{c.v.CloneID}}
	}
	if r := c.v.RequestedTopologies; r != nil {
		in.Topologies = &topologies{}
		for _, t := range r.Required {
			in.Topologies.Requisite = append(in.Topologies.Requisite, topology{t.Segments})
		}
		for _, t := range r.Preferred {
			in.Topologies.Preferred = append(in.Topologies.Preferred, topology{t.Segments})
		}
	}
	var out created
	if err := c.call(ctx, "CreateVolume", in, &out); err != nil {
		return nil, err
	}
	if out.Volume == nil || out.Volume.ID == "" {
		return nil, berth.Errorf(berth.Unavailable, "CSI plugin %s: it made a volume without an ID", c.v.PluginID)
	}
	done := *c.v
	done.ExternalID, done.Capacity, done.Context = out.Volume.ID, out.Volume.Capacity, out.Volume.Context
	for _, t := range out.Volume.Topologies {
		done.Topologies = append(done.Topologies, berth.CSITopology{Segments: t.Segments})
	}
	return &op.CSIDone{Volume: &done}, nil
}

func (c controller) expand(ctx context.Context) (*op.CSIDone, error) {
	in := &expandVolume{ID: c.v.ExternalID, Capacity: c.sizes(), Secrets: c.v.Secrets}
	if c.in.AccessMode != "" {
		in.Access = accessOf(c.in.AccessMode, c.in.AttachmentMode, c.v.MountOptions)
	}
	var out expanded
	if err := c.call(ctx, "ControllerExpandVolume", in, &out); err != nil {
		return nil, err
	}
	done := *c.v
	done.Capacity = out.Capacity
	return &op.CSIDone{Volume: &done, OnNode: out.Node}, nil
}

// nodeExpand has the node grow the file system of a volume that an allocation
// uses.
func (m *Manager) nodeExpand(ctx context.Context, in *op.AgentCSI) error {
	v := &in.Volume
	defer m.turn.take(v.Namespace + "\x00" + v.ID)()
	m.mu.Lock()
	x, ok := m.mounts[in.AllocID+"\x00"+v.ID]
	m.mu.Unlock()
	p, info, err := m.plugin(v.PluginID, false)
	if err != nil || !ok || !info.NodeInfo.SupportsExpand { // what is not mounted is expanded when it is staged
		return err
	}
	e := &nodeExpandVolume{
		ID: v.ExternalID, Path: x.Target, Capacity: &capacity{Required: v.Capacity}, Access: accessOf(in.AccessMode, in.AttachmentMode, v.MountOptions),
	}
	if x.Staged {
		e.Stage = x.Stage
	}
	return p.client.call(ctx, callTime, "Node/NodeExpandVolume", e, &empty{})
}

// of returns what a volume was made of.
func (s *source) of() (clone, snap string) {
	if s != nil && s.Volume != nil {
		clone = s.Volume.ID
	}
	if s != nil && s.Snapshot != nil {
		snap = s.Snapshot.ID
	}
	return clone, snap
}

func (c controller) list(ctx context.Context) (*op.CSIDone, error) {
	var out listedVolumes
	if err := c.call(ctx, "ListVolumes", &listVolumes{c.in.PerPage, c.in.NextToken}, &out); err != nil {
		return nil, err
	}
	done := &op.CSIDone{NextToken: out.Next}
	for _, e := range out.Entries {
		if e.Volume == nil {
			continue
		}
		x := op.ExternalVolume{ExternalID: e.Volume.ID, CapacityBytes: e.Volume.Capacity, VolumeContext: e.Volume.Context}
		x.CloneID, x.SnapshotID = e.Volume.Source.of()
		if e.Status != nil {
			x.PublishedExternalNodeIDs = e.Status.Nodes
			if c := e.Status.Condition; c != nil {
				x.IsAbnormal, x.Status = c.Abnormal, c.Message
			}
		}
		done.Volumes = append(done.Volumes, x)
	}
	return done, nil
}

// snapshotView shows a snapshot of the plugin.
func (c controller) snapshotView(s *snapshot) *op.CSISnapshot {
	x := &op.CSISnapshot{ID: s.ID, ExternalSourceVolumeID: s.Volume, SizeBytes: s.Bytes, IsReady: s.Ready, PluginID: c.v.PluginID}
	if s.Created != nil {
		x.CreateTime = s.Created.Seconds
	}
	return x
}

func (c controller) snapshot(ctx context.Context) (*op.CSIDone, error) {
	var out snapshotted
	if err := c.call(ctx, "CreateSnapshot", &createSnapshot{c.v.ExternalID, c.in.Name, c.v.Secrets, c.v.Parameters}, &out); err != nil {
		return nil, err
	}
	if out.Snapshot == nil || out.Snapshot.ID == "" {
		return nil, berth.Errorf(berth.Unavailable, "CSI plugin %s: it made a snapshot without an ID", c.v.PluginID)
	}
	return &op.CSIDone{Snapshots: []*op.CSISnapshot{c.snapshotView(out.Snapshot)}}, nil
}

func (c controller) snapshots(ctx context.Context) (*op.CSIDone, error) {
	var out listedSnapshots
	if err := c.call(ctx, "ListSnapshots", &listSnapshots{c.in.PerPage, c.in.NextToken, c.v.Secrets}, &out); err != nil {
		return nil, err
	}
	done := &op.CSIDone{NextToken: out.Next}
	for _, e := range out.Entries {
		if e.Snapshot != nil {
			done.Snapshots = append(done.Snapshots, c.snapshotView(e.Snapshot))
		}
	}
	return done, nil
}
