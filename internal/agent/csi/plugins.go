package csi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"berth"
	"berth/op"
)

// The types of a plugin.
const (
	TypeController = "controller"
	TypeNode       = "node"
	TypeMonolith   = "monolith" // both
)

// How often a plugin is asked whether it is well.
const (
	whileSick = time.Second
	whileWell = 5 * time.Second
)

// Config says where a node has the sockets and volumes of plugins.
type Config struct {
	Dir     string                  // absolute; made when it is needed
	Changed func()                  // called when Plugins returns something else
	Over    func(alloc string) bool // whether nothing of an allocation runs, and nothing will
	Log     *slog.Logger
}

// Manager knows the plugins and the mounted volumes of a node. Its methods may be
// called from anywhere.
type Manager struct {
	c    Config
	turn locks         // one call for a volume at a time
	kick chan struct{} // has one element when an allocation has ended

	mu      sync.Mutex
	plugins map[string]*Plugin // by allocation and task
	mounts  map[string]Mount   // by allocation and volume; what is recorded
}

// Plugin is a task that is a plugin.
type Plugin struct {
	Alloc, Task, ID, Type string
	Base                  string // where the plugin finds the directories of volumes; "": where they are
	Health                time.Duration
	Restart               func()      // has the task started again
	Gone                  func() bool // whether the task has ended for good; nil: it has not

	socket string
	client *client
	info   *berth.CSIInfo // as last found; nil: not asked yet
}

// short is a name for what may be long: paths of sockets have at most 107 bytes.
func short(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		h.Write([]byte(t + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// SocketDir returns the directory of the socket, csi.sock, of a task that is a
// plugin.
func (m *Manager) SocketDir(alloc, task string) string {
	return filepath.Join(m.c.Dir, "s", short(alloc, task))
}

// VolumeDir returns the directory below which the node has the volumes of a
// plugin.
func (m *Manager) VolumeDir(plugin string) string {
	return filepath.Join(m.c.Dir, "v", short(plugin))
}

// MakeDirs makes the directories of a task that is a plugin.
func (m *Manager) MakeDirs(alloc, task, plugin string) error {
	for _, d := range []string{m.SocketDir(alloc, task), m.VolumeDir(plugin)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return berth.Errorf(berth.Unavailable, "directory of a CSI plugin: %w", err)
		}
	}
	return nil
}

// Watch asks a plugin for what it is and whether it is well, until ctx ends. If the
// task is gone then, the node does not have the plugin any more. Else the agent
// ends, the plugin runs on with its socket, and the next agent watches it.
func (m *Manager) Watch(ctx context.Context, p Plugin) {
	p.socket = filepath.Join(m.SocketDir(p.Alloc, p.Task), "csi.sock")
	p.client = dial(p.socket)
	key := p.Alloc + "/" + p.Task
	m.mu.Lock()
	m.plugins[key] = &p
	m.mu.Unlock()
	defer func() {
		p.client.close()
		if p.Gone == nil || !p.Gone() {
			return
		}
		m.mu.Lock()
		delete(m.plugins, key)
		m.mu.Unlock()
		_ = os.RemoveAll(m.SocketDir(p.Alloc, p.Task)) // a socket at most
		m.c.Changed()
	}()
	well := time.Now() // or when it last was given time to become well
	for {
		info, err := p.describe(ctx)
		if ctx.Err() != nil {
			return
		}
		m.found(&p, info, err)
		every := whileWell
		if err != nil {
			every = whileSick
			if time.Since(well) > p.Health && p.Restart != nil {
				m.c.Log.Warn("a CSI plugin is not well and is started again", "plugin", p.ID, "alloc", p.Alloc, "error", err)
				p.Restart()
				well = time.Now()
			}
		} else {
			well = time.Now()
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
	}
}

// found stores what a plugin said, and tells if that is new.
func (m *Manager) found(p *Plugin, info *berth.CSIInfo, err error) {
	m.mu.Lock()
	next := &berth.CSIInfo{PluginID: p.ID, AllocID: p.Alloc, HealthDescription: "not well yet"}
	if p.info != nil {
		*next = *p.info
		next.Healthy, next.HealthDescription = false, "does not answer"
	}
	if err == nil {
		next = info
		next.Healthy, next.HealthDescription = true, "healthy"
	}
	same := false
	if p.info != nil {
		next.UpdateTime = p.info.UpdateTime
		same = reflect.DeepEqual(p.info, next)
	}
	if !same {
		next.UpdateTime = time.Now().UTC().Truncate(time.Millisecond)
		p.info = next
	}
	m.mu.Unlock()
	if !same {
		m.c.Changed()
		m.Kick() // what could not be unmounted may be now
	}
}

// Plugins returns the controller and the node plugins of the node by ID. Of two
// with one ID a healthy one counts.
func (m *Manager) Plugins() (controllers, nodes map[string]*berth.CSIInfo) {
	controllers, nodes = map[string]*berth.CSIInfo{}, map[string]*berth.CSIInfo{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.plugins {
		if p.info == nil {
			continue
		}
		for _, x := range []struct {
			all  map[string]*berth.CSIInfo
			keep bool
			cut  func(*berth.CSIInfo)
		}{
			{controllers, p.Type != TypeNode, func(i *berth.CSIInfo) { i.NodeInfo = nil }},
			{nodes, p.Type != TypeController, func(i *berth.CSIInfo) { i.ControllerInfo = nil }},
		} {
			if old := x.all[p.ID]; x.keep && (old == nil || !old.Healthy || p.info.Healthy && old.AllocID > p.Alloc) {
				info := *p.info
				x.cut(&info)
				x.all[p.ID] = &info
			}
		}
	}
	if len(controllers) == 0 {
		controllers = nil
	}
	if len(nodes) == 0 {
		nodes = nil
	}
	return maps.Clone(controllers), maps.Clone(nodes)
}

// probe asks a plugin for all that the node tells of it.
func (p *Plugin) probe(ctx context.Context) (*berth.CSIInfo, error) {
	ask := func(method string, out any) error { return p.client.call(ctx, probeTime, method, &empty{}, out) }
	var ready probed
	if err := ask("Identity/Probe", &ready); err != nil {
		return nil, err
	}
	if ready.Ready != nil && !ready.Ready.Value {
		return nil, berth.Errorf(berth.Unavailable, "CSI plugin %s says that it is not ready", p.ID)
	}
	var who pluginInfo
	var can capabilities
	if err := ask("Identity/GetPluginInfo", &who); err != nil {
		return nil, err
	}
	if err := ask("Identity/GetPluginCapabilities", &can); err != nil {
		return nil, err
	}
	info := &berth.CSIInfo{
		PluginID: p.ID, AllocID: p.Alloc, Provider: who.Name, ProviderVersion: who.Version, RequiresTopologies: can.has(pluginTopology),
		RequiresControllerPlugin: can.has(pluginController),
	}
	if p.Type != TypeNode && can.has(pluginController) {
		var c capabilities
		if err := ask("Controller/ControllerGetCapabilities", &c); err != nil {
			return nil, err
		}
		info.ControllerInfo = &berth.CSIControllerInfo{
			SupportsCreateDelete: c.has(controllerCreate), SupportsAttachDetach: c.has(controllerPublish), SupportsListVolumes: c.has(controllerList),
			SupportsCreateDeleteSnapshot: c.has(controllerSnapshot), SupportsListSnapshots: c.has(controllerSnapshots),
			SupportsExpand: c.has(controllerExpand), SupportsClone: c.has(controllerClone),
		}
	}
	if p.Type == TypeController {
		return info, nil
	}
	var c capabilities
	var n nodeInfo
	if err := ask("Node/NodeGetCapabilities", &c); err != nil {
		return nil, err
	}
	if err := ask("Node/NodeGetInfo", &n); err != nil {
		return nil, err
	}
	info.NodeInfo = &berth.CSINodeInfo{ID: n.ID, MaxVolumes: max(n.Max, 0), RequiresNodeStageVolume: c.has(nodeStage), SupportsExpand: c.has(nodeExpand)}
	if n.Topology != nil {
		info.NodeInfo.AccessibleTopology = &berth.CSITopology{Segments: n.Topology.Segments}
	}
	return info, nil
}

// describe is probe, and refuses what servers would not keep.
func (p *Plugin) describe(ctx context.Context) (*berth.CSIInfo, error) {
	info, err := p.probe(ctx)
	if err != nil {
		return nil, err
	}
	if why := op.CSIInfoFault(info); why != "" {
		return nil, berth.Errorf(berth.Unavailable, "CSI plugin %s: %s", p.ID, why)
	}
	return info, nil
}

// plugin returns a plugin of the node that is well: its controller, or its node
// part.
func (m *Manager) plugin(id string, controller bool) (*Plugin, *berth.CSIInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.plugins {
		if p.ID != id || p.info == nil || !p.info.Healthy {
			continue
		}
		if controller && p.info.ControllerInfo != nil || !controller && p.info.NodeInfo != nil {
			return p, p.info, nil
		}
	}
	kind := "node"
	if controller {
		kind = "controller"
	}
	return nil, nil, berth.Errorf(berth.Unavailable, "the node has no healthy CSI %s plugin %q", kind, berth.Clip(id, 64))
}

// locks gives one holder at a time the lock of a name.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	mu   sync.Mutex
	uses int
}

// take waits for the lock of a name and returns what gives it back.
func (l *locks) take(name string) func() {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*lock{}
	}
	x := l.held[name]
	if x == nil {
		x = &lock{}
		l.held[name] = x
	}
	x.uses++
	l.mu.Unlock()
	x.mu.Lock()
	return func() {
		x.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if x.uses--; x.uses == 0 {
			delete(l.held, name)
		}
	}
}
