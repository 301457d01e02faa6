package config

import (
	"path/filepath"
	"strconv"
	"strings"

	"berth"
	"berth/internal/agent/driver/podman"
	"berth/internal/agent/driver/process"
	"berth/internal/agent/plugin"
	"berth/internal/decode"
)

// What the configuration says of drivers: the plugin blocks, client.options and
// client.chroot_env.

// plugins reads the plugin blocks, which configure drivers.
func plugins(d *decoder, path string, n *node) {
	driver := func(keys table) setting { return block(table{"config": block(keys), "args": only()}) }
	isolated := func(of func(*Config) *IsolatedPlugin) setting {
		return driver(table{
			"allow_caps":       texts(func(c *Config) *[]string { return &of(c).AllowCaps }),
			"default_pid_mode": mode(func(c *Config) *string { return &of(c).PIDMode }),
			"default_ipc_mode": mode(func(c *Config) *string { return &of(c).IPCMode }),
			"denied_host_uids": ranges(func(c *Config) *string { return &of(c).DeniedUIDs }),
			"denied_host_gids": ranges(func(c *Config) *string { return &of(c).DeniedGIDs }),
			"no_pivot_root":    only(false),
		})
	}
	builtIn := table{
		"raw_exec": driver(table{
			"enabled":          flag(func(c *Config) *bool { return &c.Plugins.RawExec }),
			"no_cgroups":       flag(func(c *Config) *bool { return &c.Plugins.Raw.NoCgroups }),
			"denied_envvars":   texts(func(c *Config) *[]string { return &c.Plugins.Raw.DeniedEnv }),
			"denied_host_uids": ranges(func(c *Config) *string { return &c.Plugins.Raw.DeniedUIDs }),
			"denied_host_gids": ranges(func(c *Config) *string { return &c.Plugins.Raw.DeniedGIDs }),
		}),
		"mock_driver": driver(table{"enabled": flag(func(c *Config) *bool { return &c.Plugins.MockDriver })}),
		"exec":        isolated(func(c *Config) *IsolatedPlugin { return &c.Plugins.Exec }),
		"java":        isolated(func(c *Config) *IsolatedPlugin { return &c.Plugins.Java }),
		"docker":      driver(dockerKeys),
		podman.Plugin: driver(podmanKeys),
		"qemu": driver(table{
			"image_paths":    texts(func(c *Config) *[]string { return &c.Plugins.Qemu.ImagePaths }),
			"args_allowlist": texts(func(c *Config) *[]string { return &c.Plugins.Qemu.Args }),
		}),
	}
	if o, ok := n.value.(object); ok {
		for _, name := range o.keys() {
			if builtIn[name] == nil {
				builtIn[name] = externalPlugin
				d.others = append(d.others, decode.Join(path, name))
			}
		}
	}
	d.block(path, n, builtIn)
}

// externalPlugin reads the block of a program in plugin_dir. What its config may
// hold the plugin says when it is started.
func externalPlugin(d *decoder, path string, n *node) {
	b := plugin.Block{}
	d.block(path, n, table{
		"args": func(d *decoder, path string, n *node) { b.Args, _ = d.texts(path, n) },
		"config": func(d *decoder, path string, n *node) {
			if o, ok := plain(n).(map[string]any); ok {
				b.Config = o
				return
			}
			d.addf(n.pos, path, "must be a block, got %s", kind(n.value))
		},
	})
	if d.to.Plugins.External == nil {
		d.to.Plugins.External = map[string]plugin.Block{}
	}
	d.to.Plugins.External[path[strings.LastIndexByte(path, '.')+1:]] = b
}

// plain returns a value without its places, as JSON has it.
func plain(n *node) any {
	switch v := n.value.(type) {
	case object:
		out := map[string]any{}
		for k, in := range v {
			out[k] = plain(in)
		}
		return out
	case []*node:
		out := []any{}
		for _, in := range v {
			out = append(out, plain(in))
		}
		return out
	}
	return n.value
}

// external refuses blocks of external plugins where there is no directory with
// such.
func (d *decoder) external() {
	if d.to.PluginDir != "" {
		return
	}
	for _, path := range d.others {
		d.unknown(d.setAt[path], path, []string{"raw_exec", "mock_driver", "exec", "java", "docker", podman.Plugin, "qemu"})
	}
}

// mode reads default_pid_mode or default_ipc_mode.
func mode(field func(*Config) *string) setting {
	return func(d *decoder, path string, n *node) {
		s, ok := d.text(path, n)
		switch {
		case !ok:
		case s != "private" && s != "host":
			d.addf(n.pos, path, "must be private or host, got %.40q", s)
		default:
			*field(d.to) = s
		}
	}
}

// ranges reads numbers of users or groups such as "0,100-200".
func ranges(field func(*Config) *string) setting {
	return func(d *decoder, path string, n *node) {
		s, ok := d.text(path, n)
		if !ok {
			return
		}
		if _, err := process.Ranges(s); err != nil {
			d.addf(n.pos, path, "%v", err)
			return
		}
		*field(d.to) = s
	}
}

// chrootEnv reads what tasks with a file tree of their own see of the host.
func chrootEnv(d *decoder, path string, n *node) {
	all, ok := d.dict(path, n)
	if !ok || len(all) == 0 {
		return
	}
	for source, place := range all {
		switch {
		case !filepath.IsAbs(source):
			d.addf(n.pos, decode.Join(path, source), "the path on the host must be absolute, got %.200q", source)
		case !filepath.IsAbs(place) || filepath.Clean(place) == "/":
			d.addf(n.pos, decode.Join(path, source), "the place in the task's file tree must be an absolute path below the root, got %.200q", place)
		}
	}
	d.to.Client.ChrootEnv = all
}

// maxShared is the most allocations that can share a supervisor's process.
const maxShared = 1024

// options reads the settings that predate plugin blocks. It is a free map in
// Nomad, which tools fill with keys of their own, so others are only warned of.
func options(d *decoder, path string, n *node) {
	opts, ok := d.dict(path, n)
	if !ok {
		return
	}
	names := func(v string) []string {
		out := []string{}
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				out = append(out, name)
			}
		}
		return out
	}
	for _, k := range n.value.(object).keys() {
		at := decode.Join(path, k)
		switch v := opts[k]; {
		case k == "driver.raw_exec.enable" && (v == "1" || v == "true"):
			d.to.Plugins.RawExec = true
		case k == "driver.raw_exec.enable" && (v == "0" || v == "false" || v == ""):
			d.to.Plugins.RawExec = false
		case k == "driver.raw_exec.enable":
			d.fail(at, "must be true or false, got %.40q", v)
		case k == "driver.raw_exec.no_cgroups" && (v == "1" || v == "true"):
			d.to.Plugins.Raw.NoCgroups = true
		case (k == "driver.allowlist" || k == "driver.whitelist") && v != "":
			d.to.Client.DriverAllow = names(v)
		case (k == "driver.denylist" || k == "driver.blacklist") && v != "":
			d.to.Client.DriverDeny = names(v)
		case k == "fingerprint.allowlist" || k == "fingerprint.denylist":
			d.cloudOption(at, k == "fingerprint.allowlist", names(v))
		case k == "user.denylist" || k == "user.blacklist":
			d.to.Client.UserDeny = names(v)
		case k == "user.checked_drivers":
			d.to.Client.UserCheck = names(v)
		case k == "supervisor.allocations" && v != "":
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > maxShared {
				d.fail(at, "must be an integer of 1 to %d, got %.64q", maxShared, v)
			}
			d.to.Client.SharedBy = n
		case d.dockerOption(at, k, v):
		case v != "":
			d.warnf("%s: %s has no effect: only those of docker, driver.allowlist, driver.denylist, driver.raw_exec.enable, driver.raw_exec.no_cgroups, fingerprint.allowlist, fingerprint.denylist, supervisor.allocations, user.denylist and user.checked_drivers have",
				d.setAt[at], berth.Clip(at, 100))
		}
	}
}
