package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The calls that a node's agent makes: a volume is staged once on a node, and published
// for each allocation.

// NodeGetInfo implements csi.NodeServer.
func (p *Plugin) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	out := &csi.NodeGetInfoResponse{NodeId: p.Node}
	if p.Zone != "" {
		out.AccessibleTopology = &csi.Topology{Segments: map[string]string{"zone": p.Zone}}
	}
	return out, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (p *Plugin) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_EXPAND_VOLUME} {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return out, nil
}

// NodeExpandVolume implements csi.NodeServer. A directory has no file system to
// grow, so it only checks that the volume is mounted there. A loop device is told the
// new size of its file.
func (p *Plugin) NodeExpandVolume(_ context.Context, in *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.dir("volumes", in.VolumeId); err != nil {
		return nil, err
	}
	if !mounted(in.VolumePath) {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted", in.VolumeId)
	}
	if in.GetVolumeCapability().GetBlock() != nil {
		if err := growLoop(in.StagingTargetPath); err != nil {
			return nil, err
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: p.volume(in.VolumeId).CapacityBytes}, p.note("grow", in.VolumeId, p.Node)
}

// mounted reports whether something is mounted on a directory.
func mounted(dir string) bool {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == dir {
			return true
		}
	}
	return false
}

// bind mounts a directory or file on another, unless something is mounted there.
func (p *Plugin) bind(what, volume, from, to string, readOnly bool) error {
	if mounted(to) {
		return nil
	}
	if err := place(from, to); err != nil {
		return err
	}
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if readOnly {
		if err := syscall.Mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			return errors.Join(err, syscall.Unmount(to, 0))
		}
	}
	return p.note(what, volume, p.Node)
}

// place makes the directory or file on which from is mounted.
func place(from, to string) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return os.MkdirAll(to, 0o700)
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// unbind undoes bind.
func (p *Plugin) unbind(what, volume, dir string) error {
	if !mounted(dir) {
		return nil
	}
	if err := syscall.Unmount(dir, 0); err != nil {
		return err
	}
	return p.note(what, volume, p.Node)
}

// NodeStageVolume implements csi.NodeServer.
func (p *Plugin) NodeStageVolume(_ context.Context, in *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir, err := p.dir("volumes", in.VolumeId)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "attached", p.Node)); err != nil || in.PublishContext["attached-to"] != p.Node {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not attached to node %s", in.VolumeId, p.Node)
	}
	if isBlock(in.VolumeCapability) {
		return &csi.NodeStageVolumeResponse{}, p.stageDisk(in, dir)
	}
	return &csi.NodeStageVolumeResponse{}, p.bind("stage", in.VolumeId, filepath.Join(dir, "data"), in.StagingTargetPath, false)
}

// NodeUnstageVolume implements csi.NodeServer.
func (p *Plugin) NodeUnstageVolume(_ context.Context, in *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.unstageDisk(in); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, p.unbind("unstage", in.VolumeId, in.StagingTargetPath)
}

// NodePublishVolume implements csi.NodeServer.
func (p *Plugin) NodePublishVolume(_ context.Context, in *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isBlock(in.VolumeCapability) {
		return &csi.NodePublishVolumeResponse{}, p.publishDisk(in)
	}
	if !mounted(in.StagingTargetPath) {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged", in.VolumeId)
	}
	return &csi.NodePublishVolumeResponse{}, p.bind("mount", in.VolumeId, in.StagingTargetPath, in.TargetPath, in.Readonly)
}

// NodeUnpublishVolume implements csi.NodeServer.
func (p *Plugin) NodeUnpublishVolume(_ context.Context, in *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.unbind("unmount", in.VolumeId, in.TargetPath); err != nil {
		return nil, err
	}
	if err := os.Remove(in.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
