package agent

import (
	"slices"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker"
	"berth/internal/agent/driver/isolated"
	"berth/internal/agent/driver/mock"
	"berth/internal/agent/driver/podman"
	"berth/internal/agent/driver/raw"
)

// drivers returns the agent's drivers by name. Those that may not start tasks
// are there, too: what runs must be watched and stopped.
func (c *Config) drivers() map[string]driver.Driver {
	out := map[string]driver.Driver{}
	for _, d := range []driver.Driver{raw.New(c.RawExec), isolated.Exec(c.Exec), isolated.Java(c.Java), isolated.NewQemu(c.Qemu), mock.New(c.MockDriver)} {
		out[d.Name()] = c.allow(d)
	}
	return out
}

// allow returns a driver, or one that starts nothing if the configuration does
// not allow it.
func (c *Config) allow(d driver.Driver) driver.Driver {
	if c.Drivers != nil && !slices.Contains(c.Drivers, d.Name()) || slices.Contains(c.NoDrivers, d.Name()) {
		return driver.Disabled(d)
	}
	return d
}

// addContainers adds the drivers docker and podman, which know their containers
// by the node.
func (a *Agent) addContainers() {
	if a.c.Docker != nil {
		conf := *a.c.Docker
		conf.Node, conf.Log, conf.Runs = a.id.String(), a.log, a.runs
		a.drivers[docker.Name] = a.c.allow(docker.New(conf))
	}
	if a.c.Podman != nil {
		conf := *a.c.Podman
		conf.Engine.Node, conf.Engine.Log, conf.Engine.Runs = a.id.String(), a.log, a.runs
		a.drivers[podman.Name] = a.c.allow(podman.New(conf))
	}
}
