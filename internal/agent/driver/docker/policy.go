package docker

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/supervise"
	"berth/internal/driverconfig"
)

// processors is how many processors a hard limit is a share of.
func processors() int { return runtime.NumCPU() }

// capability returns a capability's name as the configuration writes it.
func capability(s string) string { return strings.TrimPrefix(strings.ToLower(s), "cap_") }

// allowed refuses what a job asks of the host and the agent's configuration
// does not allow.
func (d *Driver) allowed(v driverconfig.Values) error {
	var ps berth.Problems
	refuse := func(key, what, by string) {
		ps.Addf("config."+key, "%s is not allowed on this node: it needs %s in plugin %q", what, by, d.kind.Plugin)
	}
	if !d.c.AllowPrivileged {
		if v.Bool("privileged") {
			refuse("privileged", "true", "allow_privileged = true")
		}
		for _, key := range []string{"pid_mode", "ipc_mode", "userns_mode", "uts_mode", "cgroupns"} {
			if v.String(key) == "host" {
				refuse(key, `"host"`, "allow_privileged = true")
			}
		}
		for _, o := range v.Strings("security_opt") {
			if o = strings.ReplaceAll(o, ":", "="); strings.HasPrefix(o, "systempaths=") || strings.HasSuffix(o, "=unconfined") || o == "label=disable" {
				refuse("security_opt", `"`+o+`"`, "allow_privileged = true")
			}
		}
		if len(v.Blocks("devices")) > 0 && !d.c.Volumes {
			refuse("devices", "a device of the host", "allow_privileged or volumes { enabled = true }")
		}
	}
	if !slices.Contains(d.c.AllowCaps, "all") {
		for _, c := range v.Strings("cap_add") {
			if !slices.ContainsFunc(d.c.AllowCaps, func(a string) bool { return capability(a) == capability(c) }) {
				refuse("cap_add", berth.Clip(c, 40), "it in allow_caps")
			}
		}
	}
	if r := v.String("runtime"); r != "" && !slices.Contains(d.c.AllowRuntimes, r) {
		refuse("runtime", `"`+berth.Clip(r, 40)+`"`, "it in allow_runtimes")
	}
	return ps.Err()
}

// drop returns the capabilities to take away: those of the job, and those that
// engines give by default and the agent's configuration does not allow.
func (d *Driver) drop(v driverconfig.Values) []string {
	out := slices.Clone(v.Strings("cap_drop"))
	if slices.Contains(d.c.AllowCaps, "all") || v.Bool("privileged") {
		return out
	}
	for _, c := range engineCaps {
		if !slices.ContainsFunc(d.c.AllowCaps, func(a string) bool { return capability(a) == c }) {
			out = append(out, c)
		}
	}
	return out
}

// engineCaps are the capabilities that an engine gives to every container.
var engineCaps = append([]string{"net_raw"}, DefaultCaps...)

// mount sets what the container sees of the host's files: the allocation's
// directories at their documented places, volumes of the job, and what its
// config names.
func (d *Driver) mount(host *container.HostConfig, t *driver.Task, v driverconfig.Values) error {
	label := ""
	if d.c.SELinuxLabel != "" {
		label = ":" + d.c.SELinuxLabel
	}
	host.Binds = []string{
		filepath.Join(t.AllocDir.Path(), "alloc") + ":/alloc" + label,
		filepath.Join(t.Dir, "local") + ":/local" + label,
		filepath.Join(t.Dir, "secrets") + ":/secrets" + label,
	}
	for _, m := range t.Mounts {
		if m.Label != "" {
			host.Binds = append(host.Binds, labeled(&m))
			continue
		}
		out := mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Destination, ReadOnly: m.ReadOnly}
		switch m.Propagation {
		case "host-to-task":
			out.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRSlave}
		case "bidirectional":
			out.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRShared}
		}
		host.Mounts = append(host.Mounts, out)
	}
	for _, s := range v.Strings("volumes") {
		bind, err := d.volume(t, s, v.String("volume_driver") != "")
		if err != nil {
			return err
		}
		host.Binds = append(host.Binds, bind)
	}
	for _, m := range slices.Concat(v.Blocks("mount"), v.Blocks("mounts")) {
		out, err := d.mounted(t, m)
		if err != nil {
			return err
		}
		host.Mounts = append(host.Mounts, *out)
	}
	return nil
}

// labeled returns a volume of the job as a bind, the form that can have a label.
func labeled(m *driver.Mount) string {
	options := []string{m.Label}
	if m.ReadOnly {
		options = append(options, "ro")
	}
	switch m.Propagation {
	case "host-to-task":
		options = append(options, string(mount.PropagationRSlave))
	case "bidirectional":
		options = append(options, string(mount.PropagationRShared))
	}
	return m.Source + ":" + m.Destination + ":" + strings.Join(options, ",")
}

// volume turns an entry of volumes into a bind of the engine.
func (d *Driver) volume(t *driver.Task, s string, named bool) (string, error) {
	source, rest, ok := strings.Cut(s, ":")
	if !ok {
		return "", berth.Errorf(berth.Invalid, "config.volumes: %q must be SOURCE:DESTINATION", berth.Clip(s, 200))
	}
	if named {
		if !d.c.Volumes {
			return "", d.notEnabled("volume_driver", source)
		}
		return s, nil // the name of a volume
	}
	dir, err := d.source(t, "volumes", source)
	if err != nil {
		return "", err
	}
	if d.c.SELinuxLabel != "" && strings.Count(rest, ":") == 0 {
		rest += ":" + d.c.SELinuxLabel
	}
	return dir + ":" + rest, nil
}

// notEnabled is the error of a source outside the task's directory.
func (d *Driver) notEnabled(key, source string) error {
	return berth.Errorf(berth.Denied, "config.%s: %q is not below the task's directory; that needs volumes { enabled = true } in plugin %q on this node", key, berth.Clip(source, 200), d.kind.Plugin)
}

// places are the allocation's directories as tasks know them.
func places(t *driver.Task) map[string]string {
	return map[string]string{"/alloc": filepath.Join(t.AllocDir.Path(), "alloc"), "/local": filepath.Join(t.Dir, "local"), "/secrets": filepath.Join(t.Dir, "secrets")}
}

// source returns the host's path of what a job mounts. A relative path is below
// the task's directory, and a path that the task's environment names is where
// that is on the host. No link leads out of the allocation's directory.
func (d *Driver) source(t *driver.Task, key, source string) (string, error) {
	base := t.AllocDir.Path()
	full := source
	if !path.IsAbs(source) {
		full = filepath.Join(t.Dir, source)
	} else {
		for at, dir := range places(t) {
			if rest, ok := strings.CutPrefix(path.Clean(source), at); ok && (rest == "" || rest[0] == '/') {
				full = filepath.Join(dir, rest)
			}
		}
	}
	full = filepath.Clean(full)
	if within(base, full) {
		// What is missing is made, as an engine does, but through no link. What a
		// task left there as a link must not become a mount of the host's.
		if rel := strings.Trim(full[len(base):], "/"); rel != "" {
			if _, err := t.AllocDir.Lstat(rel); err != nil {
				_ = t.AllocDir.MkdirAll(rel, 0o777) // what leads through a link shows below
			}
		}
		real, err := filepath.EvalSymlinks(full)
		if err != nil {
			return "", berth.Errorf(berth.Invalid, "config.%s: %q: %w", key, berth.Clip(source, 200), err)
		}
		root, err := filepath.EvalSymlinks(base)
		if err == nil && within(root, real) && !within(filepath.Join(root, supervise.ControlDir), real) {
			return real, nil
		}
		return "", d.notEnabled(key, source)
	}
	if !d.c.Volumes {
		return "", d.notEnabled(key, source)
	}
	return full, nil
}

// within reports whether a clean path is dir or below it.
func within(dir, p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// mounted turns a mount block into a mount of the engine.
func (d *Driver) mounted(t *driver.Task, m driverconfig.Values) (*mount.Mount, error) {
	out := &mount.Mount{Type: mount.Type(m.String("type")), Target: m.String("target"), Source: m.String("source"), ReadOnly: m.Bool("readonly")}
	switch out.Type {
	case mount.TypeBind:
		src, err := d.source(t, "mount.source", out.Source)
		if err != nil {
			return nil, err
		}
		out.Source = src
		if p := m.Block("bind_options").String("propagation"); p != "" {
			out.BindOptions = &mount.BindOptions{Propagation: mount.Propagation(p)}
		}
	case mount.TypeTmpfs:
		if out.Source != "" {
			return nil, berth.Errorf(berth.Invalid, "config.mount.source: a tmpfs has none, got %q", out.Source)
		}
		o := m.Block("tmpfs_options")
		out.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: o.Integer("size"), Mode: os.FileMode(o.Integer("mode"))}
	default:
		out.Type = mount.TypeVolume
		if !d.c.Volumes {
			return nil, berth.Errorf(berth.Denied, "config.mount.type: a volume needs volumes { enabled = true } in plugin %q on this node", d.kind.Plugin)
		}
		o := m.Block("volume_options")
		out.VolumeOptions = &mount.VolumeOptions{NoCopy: o.Bool("no_copy"), Labels: maps.Clone(o.Map("labels"))}
		if c := o.Block("driver_config"); c.String("name") != "" || len(c.Map("options")) > 0 {
			out.VolumeOptions.DriverConfig = &mount.Driver{Name: c.String("name"), Options: c.Map("options")}
		}
	}
	return out, nil
}
