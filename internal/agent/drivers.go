package agent

import (
	"slices"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/isolated"
	"berth/internal/agent/driver/mock"
	"berth/internal/agent/driver/raw"
)

// drivers returns the agent's drivers by name. Those that may not start tasks
// are there, too: what runs must be watched and stopped.
func (c *Config) drivers() map[string]driver.Driver {
	out := map[string]driver.Driver{}
	for _, d := range []driver.Driver{raw.New(c.RawExec), isolated.Exec(c.Exec), isolated.Java(c.Java), mock.New(c.MockDriver)} {
		if c.Drivers != nil && !slices.Contains(c.Drivers, d.Name()) || slices.Contains(c.NoDrivers, d.Name()) {
			d = driver.Disabled(d)
		}
		out[d.Name()] = d
	}
	return out
}
