package agent

import (
	"context"
	"maps"
	"path/filepath"

	"berth"
	"berth/internal/agent/hostvolume"
	"berth/op"
)

// The dynamic host volumes of the node: servers have them made and removed, and
// the node is registered again with what it offers.

// pluginAttribute returns the attribute with the version of a host volume plugin.
func pluginAttribute(id string) string { return "plugins.host_volume." + id + ".version" }

// openVolumes finds the volumes and plugins of the node. It waits for plugins, at
// most a minute: a task must not find a directory on which nothing is mounted yet.
func (a *Agent) openVolumes() {
	c := &a.c
	a.volumes = hostvolume.Open(hostvolume.Config{
		Dir: c.HostVolumesDir, PluginDir: c.HostVolumePluginDir, StateDir: c.StateDir, Private: []string{c.AllocDir, c.StateDir},
		Node: a.id, Pool: c.NodePool, Log: a.log,
	})
	a.volumes.Restore(context.Background())
}

// addVolumes adds the dynamic host volumes and their plugins to the node, which
// nobody else has yet.
func (a *Agent) addVolumes(ctx context.Context, n *berth.Node) {
	if n.HostVolumes == nil {
		n.HostVolumes = map[string]berth.HostVolumeInfo{}
	}
	for name, v := range a.volumes.Offers() {
		if _, static := a.c.HostVolumes[name]; !static {
			n.HostVolumes[name] = v
		}
	}
	for id, version := range a.volumes.Plugins(ctx) {
		n.Attributes[pluginAttribute(id)] = version
	}
}

// volumesChanged has the node registered again with the volumes that it has now.
func (a *Agent) volumesChanged() {
	offers := a.volumes.Offers()
	maps.Copy(offers, a.c.HostVolumes) // those of the configuration come first
	a.mu.Lock()
	defer a.mu.Unlock()
	if maps.Equal(offers, a.node.HostVolumes) {
		return
	}
	n := *a.node
	n.HostVolumes = offers
	a.renode(&n)
}

// serveVolumes answers what servers ask about host volumes.
func (a *Agent) serveVolumes(s *serving) {
	change := func(do func(context.Context, *berth.HostVolume) (*op.HostVolumeMade, error)) func(context.Context, *op.AgentHostVolume) (*op.HostVolumeMade, error) {
		return func(ctx context.Context, in *op.AgentHostVolume) (*op.HostVolumeMade, error) {
			if err := a.isNode(in.NodeID); err != nil {
				return nil, err
			}
			if _, static := a.c.HostVolumes[in.Volume.Name]; static {
				return nil, berth.Errorf(berth.Conflict, "the node has a host volume %q in its configuration", in.Volume.Name)
			}
			made, err := do(ctx, &in.Volume)
			if err == nil {
				a.volumesChanged()
			}
			return made, err
		}
	}
	onCall(s, op.AgentCreateVolume, change(a.volumes.Create))
	onCall(s, op.AgentRegisterVolume, change(a.volumes.Register))
	onCall(s, op.AgentDeleteVolume, func(ctx context.Context, in *op.AgentHostVolume) (*op.Nothing, error) {
		if err := a.isNode(in.NodeID); err != nil {
			return nil, err
		}
		if err := a.volumes.Delete(ctx, &in.Volume); err != nil {
			return nil, err
		}
		a.volumesChanged()
		return &op.Nothing{}, nil
	})
}

// volumeDirs fills in where volumes are.
func (c *Config) volumeDirs() {
	if c.HostVolumesDir == "" {
		c.HostVolumesDir = filepath.Join(filepath.Dir(c.AllocDir), "host_volumes")
	}
}
