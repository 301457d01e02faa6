package podman

import (
	"maps"
	"path"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker"
	"berth/internal/driverconfig"
)

// kind is podman as an engine that speaks Docker's API.
var kind = &docker.Kind{
	Name: Name, Plugin: Plugin, Title: "podman", Networks: []string{"bridge", "none", "cni"}, Paths: true,
	Read: read, Complete: complete, Attributes: attributes,
}

// attributes returns what constraints ask of podman besides.
func attributes(i system.Info) map[string]string {
	rootless := "false"
	for _, o := range i.SecurityOptions {
		if o == "name=rootless" {
			rootless = "true"
		}
	}
	return map[string]string{"driver.podman.rootless": rootless, "driver.podman.cgroupVersion": i.CgroupVersion}
}

// same are the keys that mean the same in Docker's words.
var same = []string{
	"command", "args", "entrypoint", "force_pull", "image_pull_timeout", "auth_soft_fail", "hostname", "labels", "tty", "init",
	"ports", "port_map", "extra_hosts", "volumes", "readonly_rootfs", "cap_add", "cap_drop", "privileged", "sysctl", "ulimit",
	"cpu_hard_limit", "cpu_cfs_period", "pids_limit",
}

// read reads the config of a task and says it in Docker's words. What they
// cannot say is added by complete.
func read(t *driver.Task) (none driverconfig.Values, err error) {
	v, err := driverconfig.Podman.Read(t.Config)
	if err != nil {
		return none, err
	}
	out := map[string]any{}
	for _, key := range same {
		if x := t.Config[key]; x != nil {
			out[key] = x
		}
	}
	if out["image"], err = imageName(v.String("image")); err != nil {
		return none, err
	}
	if auth := v.Block("auth"); v.Has("auth") {
		if auth.Has("tls_verify") && !auth.Bool("tls_verify") {
			return none, berth.Errorf(berth.Invalid, "config.auth.tls_verify: %w", errNoTLS)
		}
		out["auth"] = map[string]any{"username": auth.String("username"), "password": auth.String("password")}
	}
	if dir := v.String("working_dir"); dir != "" {
		out["work_dir"] = dir
	}
	if out["network_mode"], err = networkMode(t, v.String("network_mode")); err != nil {
		return none, err
	}
	if servers := v.Strings("dns"); len(servers) > 0 {
		if inGroup(t, v) {
			return none, berth.Errorf(berth.Invalid, "config.dns: is not for tasks in the group's network, whose tasks share it: set dns.servers in the network block of the group")
		}
		out["dns_servers"] = servers
	}
	if n, err := units.RAMInBytes(v.String("shm_size")); err == nil {
		out["shm_size"] = n
	}
	out["devices"], out["security_opt"] = devices(v.Strings("devices")), security(v)
	if l := v.Block("logging"); l.String("driver") != "" && l.String("driver") != "nomad" {
		out["logging"] = map[string]any{"driver": l.String("driver"), "config": object(l.Map("options"))}
	}
	return driverconfig.Docker.Read(out)
}

// object returns a map as configs have it.
func object(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// imageName returns the name of an image without its transport.
func imageName(s string) (string, error) {
	transport, rest, ok := strings.Cut(s, ":")
	switch {
	case ok && transport == "docker" && strings.HasPrefix(rest, "//"):
		return rest[2:], nil
	case ok && (transport == "docker-archive" || transport == "oci-archive"):
		return "", berth.Errorf(berth.Invalid, "config.image: images of the transport %q are not supported: want a name, or docker://NAME", transport)
	}
	return s, nil
}

// networkMode returns the network that a container joins; "" is the group's if
// it has one, else podman's default. task:NAME is the network of another task
// of the group.
func networkMode(t *driver.Task, mode string) (string, error) {
	kind, rest, ok := strings.Cut(mode, ":")
	switch {
	case ok && kind == "task" && rest != "":
		return "container:" + rest + "-" + t.AllocID, nil
	case ok && (kind == "ns" || kind == "pod") || ok && kind == "task":
		return "", berth.Errorf(berth.Invalid, "config.network_mode: must be bridge, host, none, slirp4netns, container:NAME, task:NAME or the name of a network, got %q", berth.Clip(mode, 64))
	case mode == "" && t.Network == nil:
		return "default", nil
	}
	return mode, nil
}

// inGroup reports whether the container is in the network of its group.
func inGroup(t *driver.Task, v driverconfig.Values) bool {
	return t.Network != nil && v.String("network_mode") == ""
}

// devices says the devices of a job in Docker's words.
func devices(all []string) (out []any) {
	for _, s := range all {
		parts := strings.Split(s, ":")
		d := map[string]any{"host_path": parts[0]}
		for _, p := range parts[1:] {
			if path.IsAbs(p) {
				d["container_path"] = p
			} else {
				d["cgroup_permissions"] = p
			}
		}
		out = append(out, d)
	}
	return out
}

// security returns the security options of a job, among them those that podman
// has keys of their own for.
func security(v driverconfig.Values) []string {
	out := v.Strings("security_opt")
	if p := v.String("apparmor_profile"); p != "" {
		out = append(out, "apparmor="+p)
	}
	for _, o := range v.Strings("selinux_opts") {
		out = append(out, "label="+o)
	}
	return out
}

// complete implements [docker.Kind]'s Complete.
func complete(opts *client.ContainerCreateOptions, t *driver.Task) error {
	v, err := driverconfig.Podman.Read(t.Config)
	if err != nil {
		return err
	}
	host := opts.HostConfig
	host.UsernsMode = container.UsernsMode(v.String("userns"))
	for _, s := range v.Strings("tmpfs") {
		if host.Tmpfs == nil {
			host.Tmpfs = map[string]string{}
		}
		at, options, _ := strings.Cut(s, ":")
		host.Tmpfs[at] = options
	}
	if err := memory(&host.Resources, v); err != nil {
		return err
	}
	if host.LogConfig.Type == "json-file" { // podman's name of it; it keeps one file
		host.LogConfig.Type = "k8s-file"
		host.LogConfig.Config = maps.Clone(host.LogConfig.Config)
		delete(host.LogConfig.Config, "max-file")
	}
	if inGroup(t, v) { // the group's ports lead there already
		opts.Config.ExposedPorts, host.PortBindings = nil, nil
		opts.Config.Hostname = t.Network.Hostname
	}
	return nil
}

// memory sets the limits of memory that Docker's words do not have.
func memory(r *container.Resources, v driverconfig.Values) error {
	if s := v.String("memory_reservation"); s != "" {
		n, err := units.RAMInBytes(s)
		if err != nil || r.Memory > 0 && n > r.Memory {
			return berth.Errorf(berth.Invalid, "config.memory_reservation: must be at most the task's memory, %d bytes, got %q", r.Memory, s)
		}
		r.MemoryReservation = n
	}
	if s := v.String("memory_swap"); s == "-1" {
		r.MemorySwap = -1
	} else if s != "" {
		n, err := units.RAMInBytes(s)
		if err != nil || n < r.Memory {
			return berth.Errorf(berth.Invalid, "config.memory_swap: must be at least the task's memory, %d bytes, got %q", r.Memory, s)
		}
		r.MemorySwap = n
	}
	if v.Has("memory_swappiness") {
		n := v.Integer("memory_swappiness")
		r.MemorySwappiness = &n
	}
	return nil
}
