package docker

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/cpuset"
	"berth/internal/driverconfig"
)

// Labels of our containers. The first is what users know from Nomad.
const (
	labelAllocID = "com.hashicorp.nomad.alloc_id"
	labelNode    = "berth.node_id"
	labelTask    = "berth.task"
	labelLaunch  = "berth.launch"
)

// create returns what the engine is asked to create for a task. image is the ID
// of its image, and mode the network that it joins.
func (d *Driver) create(t *driver.Task, v driverconfig.Values, image string, mode container.NetworkMode) (*client.ContainerCreateOptions, error) {
	if err := d.allowed(v); err != nil {
		return nil, err
	}
	if err := checkNetwork(t, v); err != nil {
		return nil, err
	}
	host := &container.HostConfig{
		NetworkMode: mode, Privileged: v.Bool("privileged"), ReadonlyRootfs: v.Bool("readonly_rootfs"),
		CapAdd: v.Strings("cap_add"), CapDrop: d.drop(v), SecurityOpt: v.Strings("security_opt"), Sysctls: v.Map("sysctl"),
		ExtraHosts: v.Strings("extra_hosts"), DNSSearch: v.Strings("dns_search_domains"), DNSOptions: v.Strings("dns_options"),
		PidMode: container.PidMode(v.String("pid_mode")), IpcMode: container.IpcMode(v.String("ipc_mode")), UTSMode: container.UTSMode(v.String("uts_mode")),
		UsernsMode: container.UsernsMode(v.String("userns_mode")), CgroupnsMode: container.CgroupnsMode(v.String("cgroupns")),
		GroupAdd: v.Strings("group_add"), Runtime: v.String("runtime"), StorageOpt: v.Map("storage_opt"), ShmSize: v.Integer("shm_size"),
		OomScoreAdj: int(v.Integer("oom_score_adj")), VolumeDriver: v.String("volume_driver"), LogConfig: d.logConfig(t, v),
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
	}
	if inGroup(t, v) {
		host.ExtraHosts = nil // see networkFiles
	}
	if v.Bool("init") {
		on := true
		host.Init = &on
	}
	for _, s := range v.Strings("dns_servers") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, berth.Errorf(berth.Invalid, "config.dns_servers: %q must be an IP address", s)
		}
		host.DNS = append(host.DNS, a)
	}
	if err := d.limit(&host.Resources, t, v); err != nil {
		return nil, err
	}
	if err := d.mount(host, t, v); err != nil {
		return nil, err
	}
	conf := &container.Config{
		Image: image, Hostname: v.String("hostname"), User: t.User, Env: t.Env, Labels: d.labels(t, v), WorkingDir: v.String("work_dir"),
		Tty: v.Bool("tty"), OpenStdin: v.Bool("interactive"), Entrypoint: v.Strings("entrypoint"), Cmd: command(v),
	}
	if t.KillSignal != 0 {
		conf.StopSignal = unix.SignalName(t.KillSignal)
	}
	grace := seconds(t.Grace)
	conf.StopTimeout = &grace
	if v.Block("healthchecks").Bool("disable") {
		conf.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	if err := publish(conf, host, t, v); err != nil {
		return nil, err
	}
	ends, err := endpoints(host.NetworkMode, v)
	if err != nil {
		return nil, err
	}
	opts := &client.ContainerCreateOptions{Config: conf, HostConfig: host, NetworkingConfig: ends, Name: t.Name + "-" + t.AllocID}
	if d.kind.Complete != nil {
		return opts, d.kind.Complete(opts, t)
	}
	return opts, nil
}

// command returns the command and its arguments; nil leaves the image's.
func command(v driverconfig.Values) []string {
	if c := v.String("command"); c != "" {
		return append([]string{c}, v.Strings("args")...)
	}
	return v.Strings("args")
}

// seconds rounds a duration up, since the engine counts in seconds.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// networkMode returns the network that the container joins.
func networkMode(v driverconfig.Values) container.NetworkMode {
	if m := v.String("network_mode"); m != "" {
		return container.NetworkMode(m)
	}
	return network.NetworkBridge
}

// endpoints returns the settings of a network that network_mode names.
func endpoints(mode container.NetworkMode, v driverconfig.Values) (*network.NetworkingConfig, error) {
	ip4, ip6, mac := v.String("ipv4_address"), v.String("ipv6_address"), v.String("mac_address")
	aliases := v.Strings("network_aliases")
	if ip4 == "" && ip6 == "" && mac == "" && len(aliases) == 0 {
		return nil, nil
	}
	if !mode.IsUserDefined() && (ip4 != "" || ip6 != "" || len(aliases) > 0) {
		return nil, berth.Errorf(berth.Invalid, "config.network_mode: addresses and network_aliases need the name of a network, got %q", string(mode))
	}
	end := &network.EndpointSettings{Aliases: aliases}
	if ip4 != "" || ip6 != "" {
		end.IPAMConfig = &network.EndpointIPAMConfig{}
		end.IPAMConfig.IPv4Address, _ = netip.ParseAddr(ip4) // the schema has checked both
		end.IPAMConfig.IPv6Address, _ = netip.ParseAddr(ip6)
	}
	if mac != "" {
		if err := end.MacAddress.UnmarshalText([]byte(mac)); err != nil {
			return nil, berth.Errorf(berth.Invalid, "config.mac_address: %w", err)
		}
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{string(mode): end}}, nil
}

// publish publishes the ports that the config names. A container that shares
// the network of the host or of another has nothing to publish.
func publish(conf *container.Config, host *container.HostConfig, t *driver.Task, v driverconfig.Values) error {
	inside := map[string]int{}
	for _, label := range v.Strings("ports") {
		inside[label] = 0
	}
	for label, n := range v.Map("port_map") {
		inside[label], _ = strconv.Atoi(n) // the schema has checked it
	}
	// Ports of the task's own resources are published without being named, as
	// they were before groups had networks.
	if len(inside) == 0 {
		for _, m := range t.Ports[:t.OwnPorts] {
			inside[m.Label] = 0
		}
	}
	if len(inside) == 0 || host.NetworkMode.IsHost() || host.NetworkMode.IsNone() || host.NetworkMode.IsContainer() {
		return nil
	}
	conf.ExposedPorts, host.PortBindings = network.PortSet{}, network.PortMap{}
	for _, label := range slices.Sorted(maps.Keys(inside)) {
		m := t.Ports[slices.IndexFunc(t.Ports, func(p berth.PortMapping) bool { return p.Label == label })] // checkNetwork has looked
		to := inside[label]
		if to == 0 && m.To > 0 {
			to = m.To
		}
		if to == 0 {
			to = m.Value
		}
		b := network.PortBinding{HostPort: strconv.Itoa(m.Value)}
		if m.HostIP != "" {
			a, err := netip.ParseAddr(m.HostIP)
			if err != nil {
				return berth.Errorf(berth.Invalid, "the host address of port %q, %q, must be an IP address", label, m.HostIP)
			}
			b.HostIP = a
		}
		for _, proto := range []network.IPProtocol{network.TCP, network.UDP} {
			p, _ := network.PortFrom(uint16(to), proto)
			conf.ExposedPorts[p] = struct{}{}
			host.PortBindings[p] = append(host.PortBindings[p], b)
		}
	}
	return nil
}

// limit sets what the container may use.
func (d *Driver) limit(r *container.Resources, t *driver.Task, v driverconfig.Values) error {
	const mib = 1 << 20
	if t.Limits.CPUShares > 0 {
		r.CPUShares = max(2, t.Limits.CPUShares)
	}
	if v.Bool("cpu_hard_limit") && t.Limits.CPUTotal > 0 {
		r.CPUPeriod = v.Integer("cpu_cfs_period")
		if r.CPUPeriod == 0 {
			r.CPUPeriod = 100_000
		}
		if r.CPUPeriod < 1000 {
			return berth.Errorf(berth.Invalid, "config.cpu_cfs_period: must be 1000 to 1000000, got %d", r.CPUPeriod)
		}
		r.CPUQuota = max(1000, r.CPUPeriod*int64(processors())*t.Limits.CPUShares/t.Limits.CPUTotal)
	}
	r.CpusetCpus = v.String("cpuset_cpus")
	if len(t.Cores) > 0 {
		r.CpusetCpus = cpuset.Format(t.Cores)
	}
	r.Memory = t.Limits.Memory
	if most := max(t.Limits.MemoryMax, v.Integer("memory_hard_limit")*mib); most > t.Limits.Memory {
		r.Memory, r.MemoryReservation = most, t.Limits.Memory
	}
	r.MemorySwap = r.Memory // no swap beside it
	pids := v.Integer("pids_limit")
	if d.c.PidsLimit > 0 && pids > d.c.PidsLimit {
		return berth.Errorf(berth.Invalid, "config.pids_limit: must be at most %d, which plugin.%s.config.pids_limit allows, got %d", d.c.PidsLimit, d.kind.Plugin, pids)
	}
	if pids == 0 {
		pids = d.c.PidsLimit
	}
	if t.Limits.MaxProcesses > 0 && (pids == 0 || t.Limits.MaxProcesses < pids) {
		pids = t.Limits.MaxProcesses
	}
	if pids > 0 {
		r.PidsLimit = &pids
	}
	for _, name := range slices.Sorted(maps.Keys(v.Map("ulimit"))) {
		u, err := units.ParseUlimit(name + "=" + v.Map("ulimit")[name])
		if err != nil {
			return berth.Errorf(berth.Invalid, "config.ulimit.%s: %w", name, err)
		}
		r.Ulimits = append(r.Ulimits, u)
	}
	for _, dev := range v.Blocks("devices") {
		m := container.DeviceMapping{PathOnHost: dev.String("host_path"), PathInContainer: dev.String("container_path"), CgroupPermissions: dev.String("cgroup_permissions")}
		if m.PathInContainer == "" {
			m.PathInContainer = m.PathOnHost
		}
		if m.CgroupPermissions == "" {
			m.CgroupPermissions = "rwm"
		}
		r.Devices = append(r.Devices, m)
	}
	for _, m := range t.Devices { // of device plugins
		r.Devices = append(r.Devices, container.DeviceMapping{PathOnHost: m.Source, PathInContainer: m.Destination, CgroupPermissions: m.Permissions})
	}
	return nil
}

// labels returns the labels by which containers are found again, those of the
// job, and those that the agent's configuration asks for.
func (d *Driver) labels(t *driver.Task, v driverconfig.Values) map[string]string {
	out := maps.Clone(v.Map("labels"))
	if out == nil {
		out = map[string]string{}
	}
	env := map[string]string{}
	for _, e := range t.Env {
		k, v, _ := strings.Cut(e, "=")
		env[k] = v
	}
	for name, value := range map[string]string{
		"job_name": env["NOMAD_JOB_NAME"], "job_id": env["NOMAD_JOB_ID"], "task_group_name": env["NOMAD_GROUP_NAME"], "task_name": t.Name,
		"namespace": env["NOMAD_NAMESPACE"], "node_id": d.c.Node,
	} {
		if slices.ContainsFunc(d.c.ExtraLabels, func(p string) bool { ok, err := path.Match(p, name); return err == nil && ok }) {
			out["com.hashicorp.nomad."+name] = value
		}
	}
	out[labelAllocID], out[labelTask], out[labelNode], out[labelLaunch] = t.AllocID, t.Name, d.c.Node, strconv.FormatUint(t.Launch, 10)
	return out
}

// logConfig returns the engine's log driver. Where we read the log ourselves,
// the engine keeps as much of it as the task's own files, so that an agent that
// was away finds all of it.
func (d *Driver) logConfig(t *driver.Task, v driverconfig.Values) container.LogConfig {
	l := v.Block("logging")
	kind := l.String("type")
	if kind == "" {
		kind = l.String("driver")
	}
	if kind != "" || len(l.Map("config")) > 0 {
		return container.LogConfig{Type: kind, Config: l.Map("config")}
	}
	if d.c.LoggingDefaults.Type != "" {
		return container.LogConfig{Type: d.c.LoggingDefaults.Type, Config: d.c.LoggingDefaults.Config}
	}
	if t.Logs.Disabled || d.c.NoLogs {
		return container.LogConfig{Type: "none"}
	}
	size := max(10<<20, t.Logs.MaxSize*int64(max(1, t.Logs.MaxFiles)))
	return container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": fmt.Sprint(size), "max-file": "2"}}
}

// collects reports whether the driver copies the container's output.
func (d *Driver) collects(t *driver.Task, logging string) bool {
	return !t.Logs.Disabled && !d.c.NoLogs && (logging == "json-file" || logging == "k8s-file" || logging == "local" || logging == "journald" || logging == "")
}
