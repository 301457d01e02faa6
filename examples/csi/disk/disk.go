// Package disk is a CSI plugin whose storage provider is a directory: a volume is
// a directory of its own, "attached" to a node by a file, and mounted by a bind
// mount. A volume that may be a block device has a file as well, which nodes give to
// tasks as a loop device. All nodes that share the directory share the volumes. It speaks the real
// protocol and keeps its rules: a volume is attached before it is mounted, and a
// volume for one writer is attached to one node at a time. What it changes it
// writes to a log, so that one can see that nothing is done twice.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Plugin is one instance of the plugin: controller and node in one.
type Plugin struct {
	Root string // the directory that is the provider
	Node string // this node's name at the provider
	Zone string // where the node is, if volumes can be reached from one zone only
	Key  string // the secret "key" that callers must give to change something; "": none

	mu sync.Mutex
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
}

// Serve serves the plugin on a socket, unix:///path, until it fails.
func (p *Plugin) Serve(endpoint string, o ...grpc.ServerOption) error {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok {
		return fmt.Errorf("CSI_ENDPOINT: must be unix:// and a path, got %q", endpoint)
	}
	if err := os.MkdirAll(filepath.Join(p.Root, "volumes"), 0o700); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // an earlier instance may have been killed
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	s := grpc.NewServer(o...)
	csi.RegisterIdentityServer(s, p)
	csi.RegisterControllerServer(s, p)
	csi.RegisterNodeServer(s, p)
	return s.Serve(ln)
}

// name is what IDs must look like, as they are names of files.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// dir returns the directory of a volume or snapshot, or an error of the protocol.
func (p *Plugin) dir(kind, id string) (string, error) {
	if !name.MatchString(id) {
		return "", status.Errorf(codes.InvalidArgument, "%q is not an ID", id)
	}
	dir := filepath.Join(p.Root, kind, id)
	if _, err := os.Stat(dir); err != nil {
		return dir, status.Errorf(codes.NotFound, "there is no %q in %s", id, kind)
	}
	return dir, nil
}

// note writes to the log what was changed.
func (p *Plugin) note(what ...string) error {
	f, err := os.OpenFile(filepath.Join(p.Root, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.Join(what, " "))
	return errors.Join(err, f.Close())
}

// GetPluginInfo implements csi.IdentityServer.
func (p *Plugin) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "disk.example.berth", VendorVersion: "1.0.0"}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (p *Plugin) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	can := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if p.Zone != "" {
		can = append(can, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	out := &csi.GetPluginCapabilitiesResponse{}
	for _, t := range can {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}})
	}
	return out, nil
}

// allowed returns an error unless the secrets of a call have the key.
func (p *Plugin) allowed(secrets map[string]string) error {
	if p.Key != "" && secrets["key"] != p.Key {
		return status.Error(codes.Unauthenticated, "the secret key is missing or wrong")
	}
	return nil
}

// Probe implements csi.IdentityServer.
func (p *Plugin) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (p *Plugin) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return out, nil
}

// volume describes a volume.
func (p *Plugin) volume(id string) *csi.Volume {
	b, _ := os.ReadFile(filepath.Join(p.Root, "volumes", id, "size"))
	size, _ := strconv.ParseInt(string(b), 10, 64)
	v := &csi.Volume{VolumeId: id, CapacityBytes: size, VolumeContext: map[string]string{"made-by": "disk"}}
	if zone, _ := os.ReadFile(filepath.Join(p.Root, "volumes", id, "zone")); len(zone) > 0 {
		v.AccessibleTopology = []*csi.Topology{{Segments: map[string]string{"zone": string(zone)}}}
	}
	return v
}

// zone returns the zone in which a volume is to be: the first that is asked for,
// else that of the node.
func (p *Plugin) zone(in *csi.TopologyRequirement) string {
	for _, t := range append(in.GetPreferred(), in.GetRequisite()...) {
		if z := t.GetSegments()["zone"]; z != "" && p.Zone != "" {
			return z
		}
	}
	return p.Zone
}

// CreateVolume implements csi.ControllerServer. The name is the ID, so to be asked
// twice makes one volume.
func (p *Plugin) CreateVolume(_ context.Context, in *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.allowed(in.Secrets); err != nil {
		return nil, err
	}
	dir, err := p.dir("volumes", in.Name)
	if status.Code(err) == codes.InvalidArgument {
		return nil, err
	}
	if err == nil {
		return &csi.CreateVolumeResponse{Volume: p.volume(in.Name)}, nil
	}
	// All or nothing: it gets its name when it is complete.
	next := filepath.Join(p.Root, "new-"+in.Name)
	if err := os.RemoveAll(next); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(next, "attached"), 0o700); err != nil {
		return nil, err
	}
	from := in.GetVolumeContentSource().GetSnapshot().GetSnapshotId()
	if from == "" {
		data := filepath.Join(next, "data")
		err = errors.Join(os.Mkdir(data, 0o700), os.Chmod(data, 0o777)) // tasks have users of their own
	} else if snap, e := p.dir("snapshots", from); e != nil {
		return nil, e
	} else {
		err = copyContents(snap, next)
	}
	size := in.GetCapacityRange().GetRequiredBytes()
	if slices.ContainsFunc(in.VolumeCapabilities, isBlock) {
		size = max(size, minDisk)
		err = errors.Join(err, growDisk(next, size))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(next, "size"), []byte(strconv.FormatInt(size, 10)), 0o600),
		os.WriteFile(filepath.Join(next, "zone"), []byte(p.zone(in.GetAccessibilityRequirements())), 0o600))
	if err == nil {
		err = os.Rename(next, dir)
	}
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: p.volume(in.Name)}, p.note("create", in.Name)
}

// DeleteVolume implements csi.ControllerServer.
func (p *Plugin) DeleteVolume(_ context.Context, in *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.allowed(in.Secrets); err != nil {
		return nil, err
	}
	dir, err := p.dir("volumes", in.VolumeId)
	if status.Code(err) == codes.NotFound {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if on, err := os.ReadDir(filepath.Join(dir, "attached")); err != nil || len(on) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %d nodes", in.VolumeId, len(on))
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, p.note("delete", in.VolumeId)
}

// ControllerPublishVolume implements csi.ControllerServer.
func (p *Plugin) ControllerPublishVolume(_ context.Context, in *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir, err := p.dir("volumes", in.VolumeId)
	if err != nil {
		return nil, err
	}
	if !name.MatchString(in.NodeId) {
		return nil, status.Errorf(codes.NotFound, "there is no node %q", in.NodeId)
	}
	out := &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"attached-to": in.NodeId}}
	on, err := os.ReadDir(filepath.Join(dir, "attached"))
	if err != nil {
		return nil, err
	}
	mode := in.GetVolumeCapability().GetAccessMode().GetMode()
	for _, e := range on {
		if e.Name() == in.NodeId {
			return out, nil
		}
		if mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER || mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to node %s", in.VolumeId, e.Name())
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "attached", in.NodeId), nil, 0o600); err != nil {
		return nil, err
	}
	return out, p.note("attach", in.VolumeId, in.NodeId)
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (p *Plugin) ControllerUnpublishVolume(_ context.Context, in *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &csi.ControllerUnpublishVolumeResponse{}
	dir, err := p.dir("volumes", in.VolumeId)
	if err != nil || !name.MatchString(in.NodeId) {
		return out, err
	}
	err = os.Remove(filepath.Join(dir, "attached", in.NodeId))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	return out, p.note("detach", in.VolumeId, in.NodeId)
}

// ListVolumes implements csi.ControllerServer.
func (p *Plugin) ListVolumes(context.Context, *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	list, err := os.ReadDir(filepath.Join(p.Root, "volumes"))
	if err != nil {
		return nil, err
	}
	out := &csi.ListVolumesResponse{}
	for _, e := range list {
		on, _ := os.ReadDir(filepath.Join(p.Root, "volumes", e.Name(), "attached"))
		s := &csi.ListVolumesResponse_VolumeStatus{}
		for _, n := range on {
			s.PublishedNodeIds = append(s.PublishedNodeIds, n.Name())
		}
		out.Entries = append(out.Entries, &csi.ListVolumesResponse_Entry{Volume: p.volume(e.Name()), Status: s})
	}
	return out, nil
}

// ControllerExpandVolume implements csi.ControllerServer.
func (p *Plugin) ControllerExpandVolume(_ context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir, err := p.dir("volumes", in.VolumeId)
	if err != nil {
		return nil, err
	}
	size := max(p.volume(in.VolumeId).CapacityBytes, in.GetCapacityRange().GetRequiredBytes())
	if size != p.volume(in.VolumeId).CapacityBytes {
		if hasDisk(dir) {
			if err := growDisk(dir, size); err != nil {
				return nil, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "size"), []byte(strconv.FormatInt(size, 10)), 0o600); err != nil {
			return nil, err
		}
		if err := p.note("expand", in.VolumeId, strconv.FormatInt(size, 10)); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: true}, nil
}

// CreateSnapshot implements csi.ControllerServer.
func (p *Plugin) CreateSnapshot(_ context.Context, in *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.allowed(in.Secrets); err != nil {
		return nil, err
	}
	from, err := p.dir("volumes", in.SourceVolumeId)
	if err != nil {
		return nil, err
	}
	to, err := p.dir("snapshots", in.Name)
	if status.Code(err) == codes.InvalidArgument {
		return nil, err
	}
	if err != nil {
		next := filepath.Join(p.Root, "new-snapshot-"+in.Name)
		if err := errors.Join(os.RemoveAll(next), os.MkdirAll(filepath.Join(p.Root, "snapshots"), 0o700), os.Mkdir(next, 0o700)); err != nil {
			return nil, err
		}
		err := errors.Join(copyContents(from, next), os.WriteFile(filepath.Join(next, "of"), []byte(in.SourceVolumeId), 0o600))
		if err == nil {
			err = os.Rename(next, to)
		}
		if err == nil {
			err = p.note("snapshot", in.SourceVolumeId, in.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: p.snapshot(in.Name)}, nil
}

// snapshot describes a snapshot.
func (p *Plugin) snapshot(id string) *csi.Snapshot {
	of, _ := os.ReadFile(filepath.Join(p.Root, "snapshots", id, "of"))
	return &csi.Snapshot{SnapshotId: id, SourceVolumeId: string(of), ReadyToUse: true}
}

// DeleteSnapshot implements csi.ControllerServer.
func (p *Plugin) DeleteSnapshot(_ context.Context, in *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := p.allowed(in.Secrets); err != nil {
		return nil, err
	}
	dir, err := p.dir("snapshots", in.SnapshotId)
	if status.Code(err) == codes.NotFound {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	return &csi.DeleteSnapshotResponse{}, err
}

// ListSnapshots implements csi.ControllerServer.
func (p *Plugin) ListSnapshots(_ context.Context, in *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if err := p.allowed(in.Secrets); err != nil {
		return nil, err
	}
	out := &csi.ListSnapshotsResponse{}
	list, err := os.ReadDir(filepath.Join(p.Root, "snapshots"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range list {
		out.Entries = append(out.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: p.snapshot(e.Name())})
	}
	return out, nil
}
