package config

import (
	"maps"
	"slices"

	"berth/internal/agent/ship"
	"berth/internal/decode"
)

// logSinks reads the log_sink blocks, each with its name as label. Nomad has none:
// this is an extension.
func logSinks(d *decoder, path string, n *node) {
	d.to.LogSinks = named[ship.Config](d, path, n, func(c *ship.Config) table {
		c.MaxSizeMB, c.MaxFiles = 100, 5
		return table{
			"type":       textInto(&c.Type),
			"address":    textInto(&c.Address),
			"labels":     dict(func(*Config) *map[string]string { return &c.Labels }),
			"headers":    dict(func(*Config) *map[string]string { return &c.Headers }),
			"ca_file":    textInto(&c.CAFile),
			"namespaces": texts(func(*Config) *[]string { return &c.Namespaces }),
			"jobs":       texts(func(*Config) *[]string { return &c.Jobs }),
			"optional":   flagInto(&c.Optional),
			"max_size":   whole(func(*Config) *int { return &c.MaxSizeMB }),
			"max_files":  whole(func(*Config) *int { return &c.MaxFiles }),
		}
	})
}

// logSinks checks the log_sink blocks.
func (d *decoder) logSinks() {
	for _, name := range slices.Sorted(maps.Keys(d.to.LogSinks)) {
		c, path := d.to.LogSinks[name], decode.Join("log_sink", name)
		d.name(path, name)
		if err := c.Check(); err != nil {
			d.fail(path, "%s", err)
		}
		d.between(path+".max_size", c.MaxSizeMB, 1, 1<<20)
		d.between(path+".max_files", c.MaxFiles, 0, 1000)
	}
	if len(d.to.LogSinks) > 0 && !d.to.Client.Enabled {
		d.fail("log_sink", "needs client.enabled: agents that run no tasks have no output to send")
	}
}
