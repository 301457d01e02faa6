package api

import (
	"context"

	"berth"
	"berth/op"
)

// disks registers the operation by which an agent gets the data of an allocation
// on another node. Both agents talk to servers only, and each part is asked for
// again: who proves to be the node of an allocation that runs gets the data of the
// one that it replaces, as long as that is so, and of no other.
func (s *Server) disks() {
	add(s, op.GetDisk, func(ctx context.Context, who Caller, in *op.ReadDisk) (out op.DiskAnswer, meta op.Meta, err error) {
		var from *berth.Alloc
		out, meta, err = answer(ctx, s, op.GetDisk.Info, who, &in.Query, func(r *Read) (out op.DiskAnswer, err error) {
			from, out, err = diskOf(r, in)
			return out, err
		})
		if err != nil || out.State != op.DiskReady {
			return out, meta, err
		}
		got, err := callAgent(ctx, s, from.NodeID, op.AgentReadDisk, &op.AgentDisk{AllocID: from.ID.String(), Part: in.Part})
		if err != nil {
			return op.DiskAnswer{}, meta, err
		}
		return *got, meta, nil
	})
}

// diskOf returns the allocation whose data a node may have for one of its own, and
// whether that can be read.
func diskOf(r *Read, in *op.ReadDisk) (from *berth.Alloc, out op.DiskAnswer, err error) {
	r.At(r.Index)
	r.Ready()
	n, err := prove(r.Snapshot, in.NodeID, in.AuthToken)
	if err != nil {
		return nil, out, err
	}
	a := r.Alloc(in.AllocID)
	if a == nil || a.NodeID != n.ID || a.Ended() {
		return nil, out, berth.Errorf(berth.Denied, "Permission denied: allocation %s does not run on node %s", in.AllocID, n.ID)
	}
	if d := a.Group.EphemeralDisk; d == nil || !d.Sticky || !d.Migrate {
		return nil, out, berth.Errorf(berth.Denied, "Permission denied: group %q of allocation %s does not migrate its ephemeral_disk", a.Group.Name, a.ID)
	}
	if !op.InDiskDirs(a.Group, in.Part.Path) {
		return nil, out, berth.Errorf(berth.Denied, "Permission denied: Path: %q is not data of group %q", berth.Clip(in.Part.Path, 128), a.Group.Name)
	}
	missing := func(why string) (*berth.Alloc, op.DiskAnswer, error) {
		return nil, op.DiskAnswer{State: op.DiskMissing, Why: why}, nil
	}
	from = r.Alloc(a.Rest().Previous)
	switch {
	case from == nil:
		return missing("the allocation that it replaces is gone")
	case from.Key() != a.Key() || from.Group.Name != a.Group.Name:
		return missing("the allocation that it replaces is of another group")
	}
	switch at := r.Node(from.NodeID); {
	case at == nil:
		return missing("node " + from.NodeID.Short() + " is gone")
	case at.Status != berth.NodeReady:
		return missing("node " + at.Name + " is " + at.Status)
	case !from.Ended():
		return from, op.DiskAnswer{State: op.DiskInUse, Why: "allocation " + from.ID.Short() + " has not ended"}, nil
	}
	return from, op.DiskAnswer{State: op.DiskReady}, nil
}
