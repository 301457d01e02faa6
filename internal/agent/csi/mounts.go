package csi

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/record"
	"berth/internal/failpoint"
	"berth/internal/saferoot"
	"berth/op"
)

// Mount is a volume that is mounted for an allocation, or may be: it is recorded
// before the plugin is asked.
type Mount struct {
	Alloc, Namespace, Volume, Plugin, External string
	Stage, Target                              string // as the plugin finds them
	Path                                       string // the target as the node finds it
	StagePath                                  string // likewise the stage
	Staged                                     bool   // its plugin stages volumes
	Boot                                       string // of the machine, in which it was mounted
	Done                                       bool   // the plugin has answered that it is mounted
}

// key is the key of a mount.
func (x *Mount) key() string { return x.Alloc + "\x00" + x.Volume }

// fileName is the file with the records of the mounts.
const fileName = "mounts"

// Open reads what was mounted. A damaged record is set aside.
func Open(c Config) *Manager {
	m := &Manager{c: c, plugins: map[string]*Plugin{}, mounts: map[string]Mount{}, kick: make(chan struct{}, 1)}
	path := filepath.Join(c.Dir, fileName)
	b, err := os.ReadFile(path)
	if err == nil {
		if err = record.Decode(b, "CSI mounts", &m.mounts); err != nil {
			m.mounts = map[string]Mount{}
			err = errors.Join(err, os.Rename(path, path+".damaged"))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Log.Warn("the record of the mounted CSI volumes cannot be read", "file", path, "error", err)
	}
	return m
}

// note records a mount in place of the one with its key; nil removes that.
func (m *Manager) note(key string, x *Mount) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.mounts)
	delete(next, key)
	if x != nil {
		next[key] = *x
	}
	b, err := record.Append(nil, "CSI mounts", next)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.c.Dir, 0o700); err != nil {
		return berth.Errorf(berth.Unavailable, "the CSI volume cannot be recorded: %w", err)
	}
	root, err := saferoot.Open(m.c.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.ReplaceSync(fileName, b, 0o600); err != nil {
		return berth.Errorf(berth.Unavailable, "the CSI volume cannot be recorded: %w", err)
	}
	m.mounts = next
	return nil
}

// accessOf returns the capability of the protocol for a way to use a volume. Mount
// options are for file systems only.
func accessOf(mode, attachment string, o *berth.CSIMountOptions) *access {
	number := map[string]int32{
		berth.AccessWriter: 1, berth.AccessReader: 2, berth.AccessReaders: 3, berth.AccessSingleWriter: 4, berth.AccessMultiWriter: 5,
	}[mode]
	if attachment == berth.AttachBlock {
		return &access{Block: &empty{}, Mode: &enum{number}}
	}
	a := &access{Mount: &mount{}, Mode: &enum{number}}
	if o != nil {
		a.Mount.Type, a.Mount.Flags = o.FSType, o.MountFlags
	}
	return a
}

// Mount mounts a volume for an allocation, unless it is, and returns its
// directory, or its device if it is attached as one.
func (m *Manager) Mount(ctx context.Context, alloc string, g *op.GrantedClaim) (path string, err error) {
	v := &g.Volume
	defer m.turn.take(v.Namespace + "\x00" + v.ID)()
	p, info, err := m.plugin(v.PluginID, false)
	if err != nil {
		return "", err
	}
	x := m.mountOf(alloc, v, p, info)
	m.mu.Lock()
	old, known := m.mounts[x.key()]
	m.mu.Unlock()
	if known && old.Done && old.Boot == x.Boot && old.Target == x.Target {
		return old.Path, nil
	}
	if err := m.note(x.key(), &x); err != nil {
		return "", err
	}
	_ = failpoint.Hit("csi/recorded")
	for _, dir := range []string{x.StagePath, filepath.Dir(x.Path)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", berth.Errorf(berth.Unavailable, "CSI volume %s: %w", v.ID, err)
		}
	}
	a := accessOf(g.AccessMode, g.AttachmentMode, v.MountOptions)
	if x.Staged {
		err := p.client.call(ctx, callTime, "Node/NodeStageVolume", &nodeStageVolume{
			ID: v.ExternalID, Published: g.Context, Stage: x.Stage, Access: a, Secrets: v.Secrets, Context: v.Context,
		}, &empty{})
		if err != nil {
			return "", err
		}
	}
	_ = failpoint.Hit("csi/staged")
	in := &nodePublishVolume{
		ID: v.ExternalID, Published: g.Context, Target: x.Target, Access: a, ReadOnly: g.ReadOnly, Secrets: v.Secrets, Context: v.Context,
	}
	if x.Staged {
		in.Stage = x.Stage
	}
	if err := p.client.call(ctx, callTime, "Node/NodePublishVolume", in, &empty{}); err != nil {
		return "", err
	}
	_ = failpoint.Hit("csi/published")
	given := isMount
	if g.AttachmentMode == berth.AttachBlock {
		given = isDevice
	}
	if err := given(x.Path); err != nil {
		return "", err
	}
	x.Done = true
	return x.Path, m.note(x.key(), &x)
}

// isMount returns an error unless a directory is mounted there. A task that was
// given anything else would write to the node's disk, or wherever a link leads.
func isMount(path string) error {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st); err != nil {
		return berth.Errorf(berth.Unavailable, "the CSI plugin says that the volume is mounted, and the node does not see it: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return berth.Errorf(berth.Invalid, "the CSI plugin says that the volume is mounted, and there is no directory")
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return berth.Errorf(berth.Invalid, "the CSI plugin says that the volume is mounted, and the node sees no mount: its mounts must reach the node")
	}
	return nil
}

// isDevice returns an error unless a block device is there. A task that was given
// a link would have whatever device that leads to.
func isDevice(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return berth.Errorf(berth.Unavailable, "the CSI plugin says that the device is there, and the node does not see it: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return berth.Errorf(berth.Invalid, "the CSI plugin says that the device is there, and what is there is no block device")
	}
	return nil
}

// mountOf returns where a volume is mounted for an allocation.
func (m *Manager) mountOf(alloc string, v *berth.CSIVolume, p *Plugin, info *berth.CSIInfo) Mount {
	here := m.VolumeDir(v.PluginID)
	there := p.Base
	if there == "" {
		there = here
	}
	stage, target := filepath.Join("stage", short(v.Namespace, v.ID)), filepath.Join("alloc", alloc, short(v.Namespace, v.ID))
	return Mount{
		Alloc: alloc, Namespace: v.Namespace, Volume: v.ID, Plugin: v.PluginID, External: v.ExternalID,
		Stage: filepath.Join(there, stage), Target: filepath.Join(there, target), Path: filepath.Join(here, target), StagePath: filepath.Join(here, stage),
		Staged: info.NodeInfo.RequiresNodeStageVolume, Boot: boot(),
	}
}

// boot identifies the time since the machine was started.
func boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(b)
}

// Unmount unmounts a volume of an allocation; one that is not mounted is no error.
func (m *Manager) Unmount(ctx context.Context, alloc, namespace, volume string) error {
	defer m.turn.take(namespace + "\x00" + volume)()
	m.mu.Lock()
	x, ok := m.mounts[alloc+"\x00"+volume]
	shared := false
	for k, y := range m.mounts {
		shared = shared || k != x.key() && y.StagePath == x.StagePath
	}
	m.mu.Unlock()
	if !ok {
		return nil
	}
	p, _, err := m.plugin(x.Plugin, false)
	if err != nil {
		return err
	}
	if err := p.client.call(ctx, callTime, "Node/NodeUnpublishVolume", &nodeUnpublishVolume{ID: x.External, Target: x.Target}, &empty{}); err != nil && berth.KindOf(err) != berth.NotFound {
		return err
	}
	_ = failpoint.Hit("csi/unpublished")
	if x.Staged && !shared {
		if err := p.client.call(ctx, callTime, "Node/NodeUnstageVolume", &nodeUnstageVolume{ID: x.External, Stage: x.Stage}, &empty{}); err != nil && berth.KindOf(err) != berth.NotFound {
			return err
		}
	}
	_ = failpoint.Hit("csi/unstaged")
	// Not with what is in them: if something is, it is the volume.
	for _, dir := range []string{x.Path, filepath.Dir(x.Path), x.StagePath} {
		if shared && dir == x.StagePath {
			continue
		}
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return berth.Errorf(berth.Unavailable, "CSI volume %s: %w", x.Volume, err)
		}
	}
	return m.note(x.key(), nil)
}

// Kick has Run look again: an allocation has ended, or a plugin has changed.
func (m *Manager) Kick() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// How long Run waits before it tries again what has failed.
const (
	firstRetry   = time.Second
	longestRetry = time.Minute
)

// Run unmounts the volumes of allocations that are over, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	wait := firstRetry
	for {
		failed := false
		m.mu.Lock()
		list := slices.Collect(maps.Values(m.mounts))
		m.mu.Unlock()
		for _, x := range list {
			if !m.c.Over(x.Alloc) {
				continue
			}
			if err := m.Unmount(ctx, x.Alloc, x.Namespace, x.Volume); err != nil && ctx.Err() == nil {
				failed = true
				m.c.Log.Warn("a CSI volume cannot be unmounted, and is tried again", "volume", x.Volume, "alloc", x.Alloc, "error", err)
			}
		}
		var again <-chan time.Time
		if failed {
			again = time.After(wait)
			wait = min(2*wait, longestRetry)
		} else {
			wait = firstRetry
		}
		select {
		case <-m.kick:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}
