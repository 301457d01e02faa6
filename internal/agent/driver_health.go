package agent

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"berth"
	"berth/internal/agent/fingerprint"
	"berth/internal/rest"
	"berth/op"
)

// What becomes of drivers while the agent runs: an engine that ends and comes back.

// watchDrivers checks the drivers and has the node registered again when one has
// changed.
func (a *Agent) watchDrivers(ctx context.Context) error {
	for {
		if err := rest.For(ctx, watchEvery); err != nil {
			return err
		}
		a.checkDrivers(ctx)
	}
}

// checkDrivers asks the drivers how they are. Of one that is found or lost, or healthy
// or not any more, the node gets an event.
func (a *Agent) checkDrivers(ctx context.Context) {
	drivers := fingerprint.Drivers(ctx, a.drivers)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !stampDrivers(drivers, a.node.Drivers, time.Now()) {
		return
	}
	n := *a.node
	n.Attributes = maps.Clone(n.Attributes)
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		old, now := n.Drivers[name], drivers[name]
		for k := range old.Attributes {
			delete(n.Attributes, k)
		}
		if now.Healthy != old.Healthy || now.Detected != old.Detected {
			a.log.Info("a driver has changed", "driver", name, "healthy", now.Healthy, "why", now.HealthDescription)
			a.driverNews = append(a.driverNews, driverEvent(name, now))
		}
	}
	a.driverNews = a.driverNews[max(0, len(a.driverNews)-berth.NodeEventsKept):]
	for _, d := range drivers {
		maps.Copy(n.Attributes, d.Attributes)
	}
	n.Drivers = drivers
	a.renode(&n)
}

// stampDrivers sets when each driver last became what it is, and reports whether one
// differs from what it was.
func stampDrivers(drivers, was map[string]*berth.DriverInfo, now time.Time) (changed bool) {
	for name, d := range drivers {
		d.UpdateTime = now
		if old := was[name]; old != nil {
			d.UpdateTime = old.UpdateTime
			if reflect.DeepEqual(d, old) {
				continue
			}
			d.UpdateTime = now
		}
		changed = true
	}
	return changed || len(drivers) != len(was)
}

// driverEvent is the event of a driver that has changed.
func driverEvent(name string, d *berth.DriverInfo) *berth.NodeEvent {
	message := "Driver is healthy"
	if !d.Healthy {
		message = "Driver is not healthy: " + cmp.Or(d.HealthDescription, "no reason is known")
	}
	return &berth.NodeEvent{
		Subsystem: berth.NodeEventDriver, Message: message, Details: map[string]string{"driver": name}, Timestamp: d.UpdateTime,
	}
}

// tellDrivers tells servers the events of drivers. Those that they do not take are
// told with the next.
func (a *Agent) tellDrivers(ctx context.Context) {
	a.mu.Lock()
	news := a.driverNews
	a.driverNews = nil
	a.mu.Unlock()
	if len(news) == 0 {
		return
	}
	in := &op.EmitEvents{NodeEvents: map[string][]*berth.NodeEvent{a.id.String(): news}, Write: a.write()}
	if _, err := op.Call(ctx, a.c.Servers, op.NodeEvents, in); err != nil {
		a.log.Warn("servers do not take events of drivers; they are told again later", "error", err)
		a.mu.Lock()
		a.driverNews = append(news, a.driverNews...)
		a.mu.Unlock()
	}
}
