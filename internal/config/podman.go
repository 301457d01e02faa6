package config

import (
	"maps"
	"slices"
	"strings"

	"berth/internal/agent/driver/docker"
	"berth/internal/agent/driver/podman"
	"berth/internal/decode"
)

// socketBlocks is the path of blocks that are repeated without a label; each
// stays an object of its own.
const socketBlocks = "plugin." + podman.Plugin + ".config.socket"

// podmanOf returns the part of podman's configuration that is as Docker's.
func podmanOf(c *Config) *docker.Config { return &c.Plugins.Podman.Engine }

// podmanNot returns the setting of a flag whose field says the opposite.
func podmanNot(f func(*docker.Config) *bool) setting {
	return func(d *decoder, path string, n *node) {
		if v, ok := d.flag(path, n); ok {
			*f(podmanOf(d.to)) = !v
		}
	}
}

// podmanKeys are the keys of the config of plugin "nomad-driver-podman".
var podmanKeys = table{
	"enabled":     podmanNot(func(c *docker.Config) *bool { return &c.Disabled }),
	"socket":      sockets,
	"socket_path": socketPath,
	"extra_labels": texts(func(c *Config) *[]string {
		return &podmanOf(c).ExtraLabels
	}),
	"auth": block(table{
		"config": text(func(c *Config) *string { return &podmanOf(c).AuthFile }),
		"helper": text(func(c *Config) *string { return &podmanOf(c).AuthHelper }),
	}),
	"volumes": block(table{
		"enabled":      flag(func(c *Config) *bool { return &podmanOf(c).Volumes }),
		"selinuxlabel": text(func(c *Config) *string { return &podmanOf(c).SELinuxLabel }),
	}),
	"gc": block(table{"container": podmanNot(func(c *docker.Config) *bool { return &c.KeepContainers })}),
	"logging": block(table{
		"driver":  text(func(c *Config) *string { return &podmanOf(c).LoggingDefaults.Type }),
		"options": dict(func(c *Config) *map[string]string { return &podmanOf(c).LoggingDefaults.Config }),
	}),
	"allow_privileged":       flag(func(c *Config) *bool { return &podmanOf(c).AllowPrivileged }),
	"allow_caps":             texts(func(c *Config) *[]string { return &podmanOf(c).AllowCaps }),
	"disable_log_collection": flag(func(c *Config) *bool { return &podmanOf(c).NoLogs }),
	"image_pull_timeout":     span(func(c *Config) *duration { return &podmanOf(c).PullTimeout }),
	"client_http_timeout":    noEffect("each request has a bound of its own"),
	"recover_stopped":        only(false),
}

// socketPath reads the address of the only socket.
func socketPath(d *decoder, path string, n *node) {
	if s, ok := d.line(path, n); ok && s != "" {
		d.addSocket(path, n, podman.DefaultSocket, s)
	}
}

// sockets reads the socket blocks.
func sockets(d *decoder, path string, n *node) {
	list, ok := n.value.([]*node)
	if !ok {
		d.addf(n.pos, path, "must be a block, got %s", kind(n.value))
		return
	}
	for _, e := range list {
		name, address := podman.DefaultSocket, ""
		d.block(path, e, table{"name": textInto(&name), "socket_path": textInto(&address)})
		switch {
		case address == "":
			d.addf(e.pos, decode.Join(path, "socket_path"), "is missing: set the address of the socket")
		case name == "" || strings.ContainsAny(name, ". \t"):
			d.addf(e.pos, decode.Join(path, "name"), "must be a name without dots and blanks, got %.64q", name)
		default:
			d.addSocket(path, e, name, address)
		}
	}
	if all := d.to.Plugins.Podman.Sockets; len(all) > 0 && all[podman.DefaultSocket] == "" {
		d.addf(n.pos, path, "one of the sockets must be named %q, for tasks that name none; there are %s", podman.DefaultSocket, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
}

// addSocket adds a socket, each under a name of its own.
func (d *decoder) addSocket(path string, n *node, name, address string) {
	to := &d.to.Plugins.Podman.Sockets
	if *to == nil {
		*to = map[string]string{}
	}
	if _, twice := (*to)[name]; twice {
		d.addf(n.pos, path, "there are two sockets named %q: give each a name, and socket_path only where there are no socket blocks", name)
		return
	}
	(*to)[name] = address
}
