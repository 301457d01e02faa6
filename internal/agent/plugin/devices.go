package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth"
	wire "berth/internal/agent/plugin/pluginwire"
)

// maxDevices is how many devices a plugin may offer.
const maxDevices = 4096

// Devices are the devices of all device plugins.
type Devices struct {
	plugins []*Plugin
	cancel  context.CancelFunc
	wait    sync.WaitGroup

	mu      sync.Mutex
	groups  map[*Plugin][]*wire.DeviceGroup // as last told; also while the plugin starts again
	changed func()                          // nil until Notify
}

// Notify calls changed now, and from then on whenever the devices change.
func (d *Devices) Notify(changed func()) {
	d.mu.Lock()
	d.changed = changed
	d.mu.Unlock()
	changed()
}

// Watch asks each device plugin which devices there are. Close ends it.
func (ps *Plugins) Watch(ctx context.Context) (*Devices, error) {
	d := &Devices{plugins: ps.Devices(), groups: map[*Plugin][]*wire.DeviceGroup{}}
	lives, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	firsts := make(chan error, len(d.plugins))
	for _, p := range d.plugins {
		first := sync.OnceFunc(func() { firsts <- nil })
		d.wait.Go(func() { d.follow(lives, p, first) })
	}
	ctx, stop := context.WithTimeout(ctx, callTime)
	defer stop()
	for range d.plugins {
		select {
		case <-firsts:
		case <-ctx.Done():
			d.Close()
			return nil, fmt.Errorf("a device plugin does not tell its devices: %w", ctx.Err())
		}
	}
	return d, nil
}

// Close ends what follows the plugins.
func (d *Devices) Close() {
	d.cancel()
	d.wait.Wait()
}

// follow takes what each process of a plugin tells of its devices.
func (d *Devices) follow(ctx context.Context, p *Plugin, first func()) {
	for {
		c, err := p.Conn(ctx)
		if err != nil {
			return
		}
		s, err := Listen[wire.DeviceFingerprint](ctx, c, wire.DeviceService, "Fingerprint", &wire.Empty{})
		for err == nil {
			var f *wire.DeviceFingerprint
			if f, err = s.Next(); err == nil {
				d.mu.Lock()
				d.groups[p] = f.Groups
				changed := d.changed
				d.mu.Unlock()
				first()
				if changed != nil {
					changed()
				}
			}
		}
		if c.Ended(ctx) != nil {
			return
		}
	}
}

// Groups returns the devices as a node tells them to servers, in order. Of two
// plugins with the same devices the first has them.
func (d *Devices) Groups() (out []berth.NodeDeviceResource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.plugins {
		left := maxDevices
		for _, g := range d.groups[p] {
			r := berth.NodeDeviceResource{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Attributes: map[string]any{}}
			if g.Vendor == "" || g.Type == "" || g.Name == "" || slices.ContainsFunc(out, func(o berth.NodeDeviceResource) bool { return o.ID() == r.ID() }) {
				continue
			}
			for name, a := range g.Attributes {
				r.Attributes[name] = attribute(a)
			}
			seen := map[string]bool{}
			for _, one := range g.Devices {
				if left--; left < 0 || one.ID == "" || seen[one.ID] {
					continue
				}
				seen[one.ID] = true
				v := berth.NodeDevice{ID: one.ID, Healthy: one.Healthy, HealthDescription: berth.Clip(one.HealthDescription, 500)}
				if one.Locality != nil && one.Locality.PCIBusID != "" {
					v.Locality = &berth.NodeDeviceLocality{PciBusID: one.Locality.PCIBusID}
				}
				r.Instances = append(r.Instances, v)
			}
			if len(r.Instances) > 0 {
				out = append(out, r)
			}
		}
	}
	return out
}

// attribute returns the value of an attribute as a node tells it.
func attribute(a *wire.Attribute) map[string]any {
	out := map[string]any{}
	switch {
	case a == nil:
	case a.String != nil:
		out["String"] = *a.String
	case a.Int != nil:
		out["Int"] = *a.Int
	case a.Float != nil:
		out["Float"] = *a.Float
	case a.Bool != nil:
		out["Bool"] = *a.Bool
	}
	if a != nil && a.Unit != "" {
		out["Unit"] = a.Unit
	}
	return out
}

// Reserve asks the plugin that has the devices how a task gets to use them.
func (d *Devices) Reserve(ctx context.Context, vendor, typ, name string, ids []string) (*wire.ContainerReservation, error) {
	d.mu.Lock()
	var of *Plugin
	for _, p := range d.plugins {
		if of == nil && slices.ContainsFunc(d.groups[p], func(g *wire.DeviceGroup) bool { return g.Vendor == vendor && g.Type == typ && g.Name == name }) {
			of = p
		}
	}
	d.mu.Unlock()
	if of == nil {
		return nil, berth.Errorf(berth.Invalid, "no device plugin of this agent has devices %s/%s/%s", vendor, typ, name)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for {
		c, err := of.Conn(ctx)
		if err != nil {
			return nil, err
		}
		got, err := Call[wire.Reserved](ctx, c, wire.DeviceService, "Reserve", &wire.Reserve{IDs: ids})
		if berth.KindOf(err) == berth.Unavailable && c.Ended(ctx) == nil {
			continue // its process ended meanwhile; a reservation can be asked for again
		}
		if err != nil {
			return nil, fmt.Errorf("device plugin %s: %w", of.Name, err)
		}
		if got.Container == nil {
			got.Container = &wire.ContainerReservation{}
		}
		return got.Container, nil
	}
}

// Stats returns what the devices are doing, as far as their plugins tell it now.
func (d *Devices) Stats(ctx context.Context) (out []*wire.DeviceGroupStats) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, p := range d.plugins {
		c, err := p.Running()
		if c == nil || err != nil {
			continue
		}
		one, stop := context.WithCancel(ctx)
		s, err := Listen[wire.DeviceStatsResponse](one, c, wire.DeviceService, "Stats", &wire.DeviceStatsRequest{Interval: wire.NewDuration(time.Second)})
		if err == nil {
			if got, err := s.Next(); err == nil {
				out = append(out, got.Groups...)
			}
		}
		stop()
	}
	return out
}

// Drop ends a plugin that is not used.
func (ps *Plugins) Drop(p *Plugin) {
	p.dropped.Store(true)
	p.set(nil, errors.New("it is not used"))
}
