// Package hostvolume makes and removes the dynamic host volumes of a node. A
// plugin makes the directory of a volume: the built-in one, mkdir, or a program
// in the plugin directory. What was made is recorded before a server is told, so
// that a restarted agent offers the same volumes. Servers decide who may use
// them; the agent mounts them into tasks.
package hostvolume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"berth"
	"berth/internal/agent/record"
	"berth/internal/failpoint"
	"berth/internal/saferoot"
	"berth/op"
)

// MkdirPlugin is the built-in plugin.
const MkdirPlugin = "mkdir"

// mkdirVersion is the version of the built-in plugin.
const mkdirVersion = "0.1.0"

// Config says where a node has its volumes.
type Config struct {
	Dir       string // of the volumes that plugins make; absolute
	PluginDir string // of the plugins; "" or missing is none
	StateDir  string // where volumes are recorded
	Private   []string
	Node      berth.NodeID
	Pool      string
	Log       *slog.Logger
}

// Volumes are the dynamic host volumes of a node. Its methods may be called from
// anywhere.
type Volumes struct {
	c    Config
	turn sync.Mutex // one volume is made or removed at a time; taken before mu

	mu    sync.Mutex
	known map[string]Volume // by ID
}

// Volume is a volume that the node has.
type Volume struct {
	Volume     berth.HostVolume
	Registered bool // somebody else made its directory, and removes it
	Making     bool // its plugin was asked to make it and has not answered yet
	Lost       bool `json:"-"` // its plugin could not make sure that it is there
}

// fileName is the file with the records of the volumes.
const fileName = "host-volumes"

// Open reads which volumes the node has. A damaged record is set aside.
func Open(c Config) *Volumes {
	v := &Volumes{c: c, known: map[string]Volume{}}
	path := filepath.Join(c.StateDir, fileName)
	b, err := os.ReadFile(path)
	if err == nil {
		err = record.Decode(b, "host volumes", &v.known)
		if err != nil {
			v.known = map[string]Volume{}
			err = errors.Join(err, os.Rename(path, path+".damaged"))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Log.Warn("the record of the host volumes cannot be read", "file", path, "error", err)
	}
	return v
}

// Offers returns the volumes whose directories exist, by name.
func (v *Volumes) Offers() map[string]berth.HostVolumeInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := map[string]berth.HostVolumeInfo{}
	for _, x := range v.known {
		if x.Making || x.Lost {
			continue
		}
		if st, err := os.Stat(x.Volume.HostPath); err != nil || !st.IsDir() {
			v.c.Log.Warn("a host volume has no directory", "volume", x.Volume.Name, "id", x.Volume.ID, "path", x.Volume.HostPath)
			continue
		}
		out[x.Volume.Name] = berth.HostVolumeInfo{Path: x.Volume.HostPath, ID: x.Volume.ID}
	}
	return out
}

// record stores a set of volumes in place of the one that is known.
func (v *Volumes) record(next map[string]Volume) error {
	b, err := record.Append(nil, "host volumes", next)
	if err != nil {
		return err
	}
	root, err := saferoot.Open(v.c.StateDir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.ReplaceSync(fileName, b, 0o600); err != nil {
		return berth.Errorf(berth.Unavailable, "the host volume cannot be recorded: %w", err)
	}
	v.mu.Lock()
	v.known = next
	v.mu.Unlock()
	return nil
}

// with returns the known volumes with one more, or without the one of an ID.
func (v *Volumes) with(id string, x *Volume) map[string]Volume {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := maps.Clone(v.known)
	delete(next, id)
	if x != nil {
		next[id] = *x
	}
	return next
}

// check refuses what no server of ours would ask for: its word is not taken.
func (v *Volumes) check(vol *berth.HostVolume) error {
	if id, err := berth.ParseID[berth.HostVolume](vol.ID); err != nil || id.IsZero() {
		return berth.Errorf(berth.Invalid, "ID: %q is not the ID of a volume", berth.Clip(vol.ID, 64))
	}
	if !op.IsHostPlugin(vol.PluginID) {
		return berth.Errorf(berth.Invalid, "PluginID: %q is not the ID of a host volume plugin", berth.Clip(vol.PluginID, 64))
	}
	if vol.Name == "" || len(vol.Name) > berth.MaxNameLen || strings.ContainsFunc(vol.Name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return berth.Errorf(berth.Invalid, "Name: %q is not the name of a volume", berth.Clip(vol.Name, 64))
	}
	return nil
}

// Create has a plugin make a volume. Asked again, it makes sure that the volume
// is there.
func (v *Volumes) Create(ctx context.Context, vol *berth.HostVolume) (*op.HostVolumeMade, error) {
	if err := v.check(vol); err != nil {
		return nil, err
	}
	v.turn.Lock()
	defer v.turn.Unlock()
	v.mu.Lock()
	old, known := v.known[vol.ID]
	v.mu.Unlock()
	if known && old.Registered {
		return nil, berth.Errorf(berth.Conflict, "host volume %s was registered, so no plugin can change it", vol.ID)
	}
	if !known { // an agent that is killed now removes what there may be of it
		if err := v.record(v.with(vol.ID, &Volume{Volume: *vol, Making: true})); err != nil {
			return nil, err
		}
		_ = failpoint.Hit("hostvolume/making")
	}
	made, err := v.make(ctx, vol)
	_ = failpoint.Hit("hostvolume/made")
	if err != nil && !known { // as plugins are promised, what there may be of it is deleted
		return nil, errors.Join(err, v.discard(context.WithoutCancel(ctx), vol))
	}
	if err != nil {
		return nil, err
	}
	row := *vol
	row.HostPath, row.CapacityBytes = made.HostPath, made.CapacityBytes
	if err := v.record(v.with(vol.ID, &Volume{Volume: row})); err != nil {
		return nil, err
	}
	return made, nil
}

// discard removes what there may be of a volume that could not be made. If that
// fails too, the next agent tries it again.
func (v *Volumes) discard(ctx context.Context, vol *berth.HostVolume) error {
	if err := v.remove(ctx, vol); err != nil {
		return err
	}
	return v.record(v.with(vol.ID, nil))
}

// Restore finishes what an earlier agent began: a volume that was being made is
// removed, as no server was told of it. Plugins make sure that their other volumes
// are there, for example mounted; one that cannot is not offered.
func (v *Volumes) Restore(ctx context.Context) {
	v.turn.Lock()
	defer v.turn.Unlock()
	var g errgroup.Group
	for id, x := range v.with("", nil) {
		switch {
		case x.Making:
			if err := v.discard(ctx, &x.Volume); err != nil {
				v.c.Log.Warn("what is left of a host volume cannot be removed", "volume", x.Volume.Name, "id", id, "error", err)
			}
		case !x.Registered && x.Volume.PluginID != MkdirPlugin:
			g.Go(func() error {
				made, err := v.make(ctx, &x.Volume)
				if err == nil && made.HostPath == x.Volume.HostPath {
					return nil
				}
				v.c.Log.Warn("a host volume is not offered: its plugin cannot make sure that it is there", "volume", x.Volume.Name, "id", id, "error", err)
				v.mu.Lock()
				defer v.mu.Unlock()
				v.known = maps.Clone(v.known)
				x.Lost = true
				v.known[id] = x
				return nil
			})
		}
	}
	_ = g.Wait() // each has told its own error
}

// Register takes over a directory that exists.
func (v *Volumes) Register(_ context.Context, vol *berth.HostVolume) (*op.HostVolumeMade, error) {
	if err := v.check(vol); err != nil {
		return nil, err
	}
	if err := v.mayShare(vol.HostPath); err != nil {
		return nil, err
	}
	v.turn.Lock()
	defer v.turn.Unlock()
	if err := v.record(v.with(vol.ID, &Volume{Volume: *vol, Registered: true})); err != nil {
		return nil, err
	}
	return &op.HostVolumeMade{HostPath: vol.HostPath, CapacityBytes: vol.CapacityBytes}, nil
}

// mayShare refuses a directory that tasks must not have: the root, and what holds
// or is held by the agent's own directories.
func (v *Volumes) mayShare(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return berth.Errorf(berth.Invalid, "HostPath: must be an absolute path without . and .., got %q", berth.Clip(path, 128))
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return berth.Errorf(berth.Invalid, "HostPath: %w", err)
	}
	st, err := os.Stat(real)
	switch {
	case err != nil:
		return berth.Errorf(berth.Invalid, "HostPath: %w", err)
	case !st.IsDir():
		return berth.Errorf(berth.Invalid, "HostPath: %s is not a directory", berth.Clip(path, 128))
	}
	for _, own := range append([]string{"/proc", "/sys", "/dev"}, v.c.Private...) {
		if r, err := filepath.EvalSymlinks(own); err == nil {
			own = r
		}
		if within(real, own) || within(own, real) {
			return berth.Errorf(berth.Denied, "HostPath: %s holds or is in %s, which tasks must not have", berth.Clip(path, 128), own)
		}
	}
	return nil
}

// within reports whether a path is a directory or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Delete removes a volume. One that is not known is gone already. The directory
// of a registered one stays.
func (v *Volumes) Delete(ctx context.Context, vol *berth.HostVolume) error {
	v.turn.Lock()
	defer v.turn.Unlock()
	v.mu.Lock()
	x, ok := v.known[vol.ID]
	v.mu.Unlock()
	if !ok {
		return nil
	}
	if !x.Registered {
		if err := v.remove(ctx, &x.Volume); err != nil {
			return err
		}
	}
	return v.record(v.with(vol.ID, nil))
}

// make has the plugin of a volume make it.
func (v *Volumes) make(ctx context.Context, vol *berth.HostVolume) (*op.HostVolumeMade, error) {
	if vol.PluginID == MkdirPlugin {
		return v.mkdir(vol)
	}
	out, err := v.call(ctx, "create", vol)
	if err != nil {
		return nil, err
	}
	var made struct {
		Path  string `json:"path"`
		Bytes int64  `json:"bytes"`
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return nil, berth.Errorf(berth.Unavailable, "host volume plugin %s: its answer is not JSON with path and bytes: %w", vol.PluginID, err)
	}
	made.Path = cmp.Or(made.Path, filepath.Join(v.c.Dir, vol.ID))
	if err := v.mayShare(made.Path); err != nil {
		return nil, berth.Errorf(berth.Unavailable, "host volume plugin %s: it made %q: %w", vol.PluginID, berth.Clip(made.Path, 128), err)
	}
	return &op.HostVolumeMade{HostPath: made.Path, CapacityBytes: max(made.Bytes, 0)}, nil
}

// remove has the plugin of a volume remove it.
func (v *Volumes) remove(ctx context.Context, vol *berth.HostVolume) error {
	if vol.PluginID != MkdirPlugin {
		_, err := v.call(ctx, "delete", vol)
		return err
	}
	root, err := saferoot.Open(v.c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.RemoveAll(vol.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return berth.Errorf(berth.Unavailable, "host volume %s: %w", vol.ID, err)
	}
	return nil
}

// Plugins returns the version of each plugin of the node by its ID.
func (v *Volumes) Plugins(ctx context.Context) map[string]string {
	out := map[string]string{MkdirPlugin: mkdirVersion}
	if v.c.PluginDir == "" {
		return out
	}
	entries, err := os.ReadDir(v.c.PluginDir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			v.c.Log.Warn("the directory of host volume plugins cannot be read", "dir", v.c.PluginDir, "error", err)
		}
		return out
	}
	for _, e := range entries[:min(len(entries), maxPlugins)] {
		name := e.Name()
		if !op.IsHostPlugin(name) || name == MkdirPlugin || e.IsDir() {
			continue
		}
		version, err := v.version(ctx, name)
		if err != nil {
			v.c.Log.Warn("a host volume plugin cannot be used", "plugin", name, "error", err)
			continue
		}
		out[name] = version
	}
	return out
}

// maxPlugins is how many files of the plugin directory are looked at.
const maxPlugins = 100

// IDs returns the IDs of the known volumes in order.
func (v *Volumes) IDs() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.known))
}
