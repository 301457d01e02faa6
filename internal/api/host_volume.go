package api

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/condition"
	"berth/internal/state"
	"berth/internal/validate"
	"berth/op"
)

// builtInPlugin is the host volume plugin that every agent has. It makes a
// directory.
const builtInPlugin = "mkdir"

// pluginTime is how long an agent may take to have a plugin do something, which
// itself has a minute, and then to delete what the plugin left.
const pluginTime = 150 * time.Second

// hostVolumes registers the operations on host volumes.
func (s *Server) hostVolumes() {
	read(s, op.ListVolumes, listVolumes)
	read(s, op.ReadHostVolume, readHostVolume)
	read(s, op.ListHostVolumeClaims, listClaims)
	write(s, op.RemoveClaim, removeClaim)
	onLeader(s, op.CreateHostVolume, s.makeHostVolume(op.CreateHostVolume, op.AgentCreateVolume))
	onLeader(s, op.RegisterHostVolume, s.makeHostVolume(op.RegisterHostVolume, op.AgentRegisterVolume))
	onLeader(s, op.RemoveHostVolume, s.removeHostVolume(op.RemoveHostVolume))
	onLeader(s, op.RemoveHostVolumeOld, s.removeHostVolume(op.RemoveHostVolumeOld))
}

// listVolumes lists the volumes of a type that the caller may see. Without a type
// none are asked for.
func listVolumes(r *Read, in *op.VolumesQuery) ([]op.HostVolumeStub, error) {
	switch in.Type {
	case berth.VolumeHost, berth.VolumeCSI:
	case "":
		r.Table(state.HostVolumes)
		return []op.HostVolumeStub{}, nil
	default:
		return nil, berth.Errorf(berth.Invalid, "type: must be %s or %s, got %q", berth.VolumeHost, berth.VolumeCSI, berth.Clip(in.Type, 64))
	}
	need := acl.HostVolumeRead
	if in.Type == berth.VolumeCSI {
		need = acl.CSIListVolume
	}
	if r.Space() != berth.AllNamespaces {
		if err := r.may(need, r.Space()); err != nil {
			return nil, err
		}
	}
	if in.Type == berth.VolumeCSI {
		return listCSIVolumes(r, in)
	}
	r.Table(state.HostVolumes)
	l := scanned(r.Query, r.HostVolumes(), byID(func(v *berth.HostVolume) string { return v.ID }))
	keep := func(v *berth.HostVolume) bool {
		return r.visible(need, v.Namespace) && (strings.HasPrefix(v.ID, r.Query.Prefix) || strings.HasPrefix(v.Name, r.Query.Prefix)) &&
			(in.NodeID.IsZero() || in.NodeID == v.NodeID) && (in.NodePool == "" || in.NodePool == v.NodePool) && (in.PluginID == "" || in.PluginID == v.PluginID)
	}
	return page(r, l, keep, func(v *berth.HostVolume) op.HostVolumeStub {
		return op.HostVolumeStub{
			Namespace: v.Namespace, ID: v.ID, Name: v.Name, PluginID: v.PluginID, NodePool: v.NodePool, NodeID: v.NodeID, CapacityBytes: v.CapacityBytes,
			State: v.State, CreateIndex: v.CreateIndex, CreateTime: v.CreateTime, ModifyIndex: v.ModifyIndex, ModifyTime: v.ModifyTime,
		}
	})
}

// readHostVolume returns a host volume with the allocations that use it.
func readHostVolume(r *Read, in *op.VolumeRef) (out op.HostVolume, err error) {
	r.Table(state.HostVolumes)
	v := r.HostVolume(in.VolumeID)
	if v == nil || !r.visible(op.ReadHostVolume.Need, v.Namespace) {
		return out, berth.Errorf(berth.NotFound, "host volume not found: %s", berth.Clip(in.VolumeID, 64))
	}
	r.At(max(v.ModifyIndex, r.LastChange(state.HostVolumes)), state.OnTable(state.HostVolumes), state.OnReportsOf(v.NodeID))
	return op.HostVolume{HostVolume: v, Allocations: r.allocStubs(r.UsersOfHostVolume(v))}, nil
}

// listClaims lists claims on host volumes.
func listClaims(r *Read, in *op.ClaimsQuery) ([]*berth.HostVolumeClaim, error) {
	r.Table(state.HostVolumeClaims)
	l := scanned(r.Query, r.HostVolumeClaims(), byID(func(c *berth.HostVolumeClaim) string {
		return strings.Join([]string{c.Namespace, c.JobID, c.TaskGroupName, c.VolumeName, c.AllocName}, "\x00")
	}))
	keep := func(c *berth.HostVolumeClaim) bool {
		return r.visible(op.ListHostVolumeClaims.Need, c.Namespace) && strings.HasPrefix(c.ID, r.Query.Prefix) && (in.JobID == "" || in.JobID == c.JobID) &&
			(in.TaskGroup == "" || in.TaskGroup == c.TaskGroupName) && (in.VolumeName == "" || in.VolumeName == c.VolumeName)
	}
	return page(r, l, keep, func(c *berth.HostVolumeClaim) *berth.HostVolumeClaim { return c })
}

// removeClaim decides that a claim is deleted.
func removeClaim(w *Write, in *op.DeleteClaim) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteHostVolumeClaim{Namespace: w.Space(), ID: in.ClaimID}, nil), nil
}

// bodySpace returns the namespace of what a body describes, which is that of the
// request, and asks for a right there.
func bodySpace(w *Write, need acl.Capability, body string) (string, error) {
	if body != "" && w.named != "" && body != w.named {
		return "", berth.Errorf(berth.Invalid, "Namespace: %q in the body differs from namespace %q of the request", berth.Clip(body, 64), berth.Clip(w.named, 64))
	}
	space := cmp.Or(body, w.Space())
	if space == berth.AllNamespaces {
		return "", berth.Errorf(berth.Invalid, "namespace: %q is for reads only: a write needs one namespace", space)
	}
	return space, w.may(need, space)
}

// makeHostVolume returns the write that creates or registers a host volume. The
// volume is recorded first, so that nothing is made on a node that no server
// knows of; then its node is asked.
func (s *Server) makeHostVolume(o op.Op[op.WriteHostVolume, op.HostVolumeWritten], at op.Op[op.AgentHostVolume, op.HostVolumeMade]) local[op.WriteHostVolume, op.HostVolumeWritten] {
	return func(ctx context.Context, who Caller, opts *op.Write, in *op.WriteHostVolume) (out op.HostVolumeWritten, _ uint64, err error) {
		w, leader, err := s.admitWrite(ctx, o.Info, who, opts)
		if err == nil {
			err = confirm(ctx, leader)
		}
		if err != nil {
			return out, 0, err
		}
		v, old, err := w.wantedHostVolume(in, o.Need, at.Name == op.AgentRegisterVolume.Name)
		if err != nil {
			return out, 0, err
		}
		put := &state.PutHostVolume{Volume: v, Create: old == nil, Now: w.Now.UnixNano()}
		if old == nil {
			if _, err := commit(ctx, leader, []state.Command{put}, false); err != nil {
				return out, 0, err
			}
		}
		made, err := callAgentFor(ctx, s, pluginTime, v.NodeID, at, &op.AgentHostVolume{NodeID: v.NodeID.String(), Volume: *v})
		if err != nil {
			if old == nil { // it is as if it had not been asked for
				// The agent may have made it nevertheless, and its answer be lost.
				_, _ = callAgentFor(context.WithoutCancel(ctx), s, pluginTime, v.NodeID, op.AgentDeleteVolume, &op.AgentHostVolume{NodeID: v.NodeID.String(), Volume: *v})
				_, undo := commit(context.WithoutCancel(ctx), leader, []state.Command{&state.DeleteHostVolume{Namespace: v.Namespace, ID: v.ID}}, false)
				if undo != nil {
					s.Logger.Warn("a host volume that could not be created stays behind", "volume", v.ID, "error", undo)
				}
			}
			return out, 0, err
		}
		done := *v
		done.HostPath, done.CapacityBytes = made.HostPath, made.CapacityBytes
		index, err := commit(ctx, leader, []state.Command{&state.PutHostVolume{Volume: &done, Now: w.Now.UnixNano()}}, false)
		if err != nil {
			return out, 0, err
		}
		out.Volume = s.Store.Snapshot().HostVolume(v.ID)
		if out.Volume == nil {
			out.Volume = &done
		}
		return out, index, nil
	}
}

// wantedHostVolume completes and checks a host volume that a request describes.
// old is the one that it changes, or nil.
func (w *Write) wantedHostVolume(in *op.WriteHostVolume, need acl.Capability, register bool) (v, old *berth.HostVolume, err error) {
	v = &berth.HostVolume{}
	if in.Volume != nil {
		*v = *in.Volume
	}
	if v.Namespace, err = bodySpace(w, need, v.Namespace); err != nil {
		return nil, nil, err
	}
	if in.Volume == nil {
		return nil, nil, berth.Errorf(berth.Invalid, "Volume: is missing: want the volume to create")
	}
	if v.ID != "" {
		if old = w.HostVolume(v.ID); old == nil || old.Namespace != v.Namespace {
			return nil, nil, berth.Errorf(berth.NotFound, "host volume not found: %s", berth.Clip(v.ID, 64))
		}
		v.Name, v.PluginID, v.NodeID = cmp.Or(v.Name, old.Name), cmp.Or(v.PluginID, old.PluginID), cmp.Or(v.NodeID, old.NodeID)
		v.HostPath = cmp.Or(v.HostPath, old.HostPath)
		if !register {
			v.CapacityBytes = old.CapacityBytes
		}
		if v.RequestedCapacityMaxBytes > 0 && v.RequestedCapacityMaxBytes < old.CapacityBytes {
			return nil, nil, berth.Errorf(berth.Invalid, "RequestedCapacityMax: must be at least the volume's capacity of %d bytes, got %d: a volume cannot shrink", old.CapacityBytes, v.RequestedCapacityMaxBytes)
		}
	} else {
		var id berth.EvalID
		w.random(id[:])
		v.ID = id.String()
	}
	v.PluginID = cmp.Or(v.PluginID, builtInPlugin)
	if err := validate.HostVolume(v); err != nil {
		return nil, nil, err
	}
	if register && v.HostPath == "" {
		return nil, nil, berth.Errorf(berth.Invalid, "HostPath: is missing: want the directory on the node")
	}
	if register && v.NodeID.IsZero() {
		return nil, nil, berth.Errorf(berth.Invalid, "NodeID: is missing: want the node with the directory")
	}
	if !register && old == nil && v.HostPath != "" {
		return nil, nil, berth.Errorf(berth.Invalid, "HostPath: the plugin decides on it: register a volume that exists")
	}
	n, err := w.nodeForVolume(v, register)
	if err != nil {
		return nil, nil, err
	}
	v.NodeID, v.NodePool, v.State = n.ID, n.NodePool, berth.HostVolumePending
	return v, old, nil
}

// nodeForVolume returns the node of a host volume: the one that it names, which
// must suit it like any other, or the suitable one with the fewest volumes.
func (w *Write) nodeForVolume(v *berth.HostVolume, register bool) (*berth.Node, error) {
	if !v.NodeID.IsZero() {
		n := w.Node(v.NodeID)
		if n == nil {
			return nil, berth.Errorf(berth.NotFound, "NodeID: node not found: %s", v.NodeID)
		}
		if why := w.unfitForVolume(v, n, register); why != "" {
			return nil, berth.Errorf(berth.Conflict, "NodeID: node %s %s", n.Name, why)
		}
		return n, nil
	}
	var best *berth.Node
	least, reasons := 0, map[string]int{}
	for n := range w.Nodes() {
		if why := w.unfitForVolume(v, n, register); why != "" {
			reasons[why]++
			continue
		}
		count := 0
		for range w.HostVolumesOn(n.ID) {
			count++
		}
		if best == nil || count < least {
			best, least = n, count
		}
	}
	if best == nil {
		return nil, berth.Errorf(berth.Conflict, "no node can have the volume%s", tally(reasons))
	}
	return best, nil
}

// tally lists reasons with how many nodes have each.
func tally(reasons map[string]int) string {
	var out []string
	for why, n := range reasons {
		out = append(out, strconv.Itoa(n)+" × "+why)
	}
	slices.Sort(out)
	if len(out) == 0 {
		return ": there is no node"
	}
	return ": " + strings.Join(out, "; ")
}

// unfitForVolume returns why a node cannot have a host volume, "" if it can.
func (w *Write) unfitForVolume(v *berth.HostVolume, n *berth.Node, register bool) string {
	switch {
	case n.Status != berth.NodeReady:
		return "is " + n.Status
	case v.NodeID.IsZero() && !n.Ready():
		return "takes no new work"
	case v.NodePool != "" && v.NodePool != n.NodePool:
		return "is in node pool " + n.NodePool
	}
	if _, ok := n.Attributes["plugins.host_volume."+v.PluginID+".version"]; !ok && !register {
		return "has no host volume plugin " + v.PluginID
	}
	if info, ok := n.HostVolumes[v.Name]; ok && info.ID != v.ID {
		return "has a host volume " + v.Name + " already"
	}
	if register { // the operator has chosen the node
		return ""
	}
	for i := range v.Constraints {
		c := &v.Constraints[i]
		l, hasL := condition.Resolve(c.LTarget, n, w.Region)
		r, hasR := condition.Resolve(c.RTarget, n, w.Region)
		if !condition.Meets(c.Operand, l, hasL, r, hasR) {
			return "does not meet " + c.String()
		}
	}
	return ""
}

// removeHostVolume returns the write that deletes a host volume: first on its
// node, then here.
func (s *Server) removeHostVolume(o op.Op[op.DeleteHostVolume, op.WriteAnswer]) local[op.DeleteHostVolume, op.WriteAnswer] {
	return func(ctx context.Context, who Caller, opts *op.Write, in *op.DeleteHostVolume) (out op.WriteAnswer, _ uint64, err error) {
		w, leader, err := s.admitWrite(ctx, o.Info, who, opts)
		if err == nil {
			err = confirm(ctx, leader)
		}
		if err != nil {
			return out, 0, err
		}
		v := w.HostVolume(in.VolumeID)
		if v == nil || v.Namespace != w.Space() {
			return out, 0, berth.Errorf(berth.NotFound, "host volume not found: %s", berth.Clip(in.VolumeID, 64))
		}
		if users := w.UsersOfHostVolume(v); len(users) > 0 {
			return out, 0, berth.Errorf(berth.Conflict, "host volume %s is used by allocation %s; stop it first", v.ID, users[0].ID)
		}
		_, err = callAgentFor(ctx, s, pluginTime, v.NodeID, op.AgentDeleteVolume, &op.AgentHostVolume{NodeID: v.NodeID.String(), Volume: *v})
		if err != nil && !in.Force {
			return out, 0, err
		}
		index, err := commit(ctx, leader, []state.Command{&state.DeleteHostVolume{Namespace: v.Namespace, ID: v.ID}}, false)
		return out, index, err
	}
}
