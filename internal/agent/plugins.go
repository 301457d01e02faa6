package agent

import (
	"context"
	"errors"
	"reflect"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/external"
	"berth/internal/agent/plugin"
	wire "berth/internal/agent/plugin/pluginwire"
	"berth/op"
)

// plugins are the external drivers and the devices of an agent.
type plugins struct {
	all     *plugin.Plugins
	drivers []*external.Driver
	devices *plugin.Devices
}

// close ends them, in the order in which they need each other.
func (p *plugins) close() error {
	if p == nil || p.all == nil {
		return nil
	}
	if p.devices != nil {
		p.devices.Close()
	}
	for _, d := range p.drivers {
		d.Close()
	}
	return p.all.Close()
}

// openPlugins starts the plugins and adds their drivers to the agent's. The agent
// does not start without one: its tasks would be lost.
func (a *Agent) openPlugins(ctx context.Context) (err error) {
	p := &plugins{}
	a.plugins = p
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.all, err = plugin.Open(ctx, plugin.Config{Dir: a.c.PluginDir, Blocks: a.c.Plugins, Node: a.id.String(), Log: a.log}); err != nil {
		return err
	}
	for _, one := range p.all.Drivers() {
		if a.drivers[one.Name] != nil {
			a.log.Warn("a plugin is not used: the driver is built in", "driver", one.Name)
			p.all.Drop(one)
			continue
		}
		d, err := external.New(ctx, one)
		if err != nil {
			return err
		}
		p.drivers = append(p.drivers, d)
		a.drivers[one.Name] = a.c.allow(d)
	}
	p.devices, err = p.all.Watch(ctx)
	return err
}

// devicesChanged has the node registered again with the devices that there are.
func (a *Agent) devicesChanged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.plugins.devices.Groups()
	if reflect.DeepEqual(now, a.node.NodeResources.Devices) {
		return
	}
	n, r := *a.node, *a.node.NodeResources
	r.Devices, n.NodeResources = now, &r
	a.renode(&n)
}

// reserve asks how a task gets to use devices that it was given.
func (a *Agent) reserve(ctx context.Context, d op.AllocatedDevice) (*driver.Reservation, error) {
	got, err := a.plugins.devices.Reserve(ctx, d.Vendor, d.Type, d.Name, d.DeviceIDs)
	if err != nil {
		if berth.KindOf(err) != berth.Invalid {
			err = driver.Recoverable(err)
		}
		return nil, err
	}
	r := &driver.Reservation{Env: got.Envs}
	for _, m := range got.Mounts {
		r.Mounts = append(r.Mounts, driver.Mount{Source: m.HostPath, Destination: m.TaskPath, ReadOnly: m.ReadOnly, Propagation: "private"})
	}
	for _, m := range got.Devices {
		r.Devices = append(r.Devices, driver.Device{Source: m.HostPath, Destination: m.TaskPath, Permissions: m.Permissions})
	}
	return r, nil
}

// deviceStats returns what the devices of the machine are doing.
func (a *Agent) deviceStats(ctx context.Context) []*op.DeviceGroupStats {
	out := []*op.DeviceGroupStats{}
	for _, g := range a.plugins.devices.Stats(ctx) {
		o := &op.DeviceGroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, InstanceStats: map[string]*op.DeviceStats{}}
		for id, s := range g.Instances {
			if s != nil {
				o.InstanceStats[id] = &op.DeviceStats{Summary: statValue(s.Summary), Stats: statObject(s.Stats), Timestamp: s.At.Time().UTC()}
			}
		}
		out = append(out, o)
	}
	return out
}

// statObject turns a tree of statistics into the API's. How deep it may be was
// bounded when it was read.
func statObject(o *wire.StatObject) *op.StatObject {
	if o == nil {
		return nil
	}
	out := &op.StatObject{Nested: map[string]*op.StatObject{}, Attributes: map[string]*op.StatValue{}}
	for k, v := range o.Nested {
		out.Nested[k] = statObject(v)
	}
	for k, v := range o.Attributes {
		out.Attributes[k] = statValue(v)
	}
	return out
}

// statValue turns a statistic into the API's, in which only what is meant is set.
func statValue(v *wire.StatValue) *op.StatValue {
	if v == nil {
		return nil
	}
	out := &op.StatValue{Desc: v.Description, Unit: v.Unit}
	switch {
	case v.String != "":
		out.StringVal = &v.String
	case v.Bool:
		out.BoolVal = &v.Bool
	case v.Float != 0 || v.FloatBase != 0:
		if out.FloatNumeratorVal = &v.Float; v.FloatBase != 0 {
			out.FloatDenominatorVal = &v.FloatBase
		}
	default:
		if out.IntNumeratorVal = &v.Int; v.IntBase != 0 {
			out.IntDenominatorVal = &v.IntBase
		}
	}
	return out
}
