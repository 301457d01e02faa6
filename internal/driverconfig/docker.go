package driverconfig

import (
	"math"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Docker is the config of docker, which runs a container of a Docker engine. The
// keys and their meaning are those that Nomad documents for this driver.
var Docker = &Schema{"docker", slices.Concat(image, dockerImage, networking, dockerNetworking, files, dockerFiles, rights, resources, dockerRest)}

const forWindows = "it is for Windows containers, and agents run on Linux"

// image are the keys about the image and the program in it.
var image = []Setting{
	{Key: "image", Kind: String, Required: true, Doc: "Image of the container, with a tag or a digest: `redis:7`, `registry.example:5000/app@sha256:…`. Default tag: `latest`."},
	{Key: "command", Kind: String, Doc: "Command of the container. Default: the image's."},
	{Key: "args", Kind: Strings, Doc: "Arguments of the command, or of the entrypoint if there is no command."},
	{Key: "entrypoint", Kind: Strings, Doc: "Replaces the image's entrypoint."},
	{Key: "force_pull", Kind: Bool, Doc: "Pull the image though the engine has it. An image with the tag `latest` is always pulled."},
	{Key: "image_pull_timeout", Kind: Duration, Doc: "How long a pull may take. Default: 5m."},
	{Key: "auth_soft_fail", Kind: Bool, Doc: "Pull without credentials if none can be found."},
	{Key: "hostname", Kind: String, Doc: "Host name of the container."},
	{Key: "labels", Kind: Map, Doc: "Labels of the container."},
	{Key: "tty", Kind: Bool, Doc: "Give the command a terminal."},
	{Key: "init", Kind: Bool, Doc: "Run the command below an init process, which reaps orphans."},
}

var dockerImage = []Setting{
	{Key: "load", Kind: String, Doc: "Load the image from this tar archive in the task's `local` directory and pull nothing."},
	{Key: "auth", Kind: Block, Doc: "Credentials for the registry.", Settings: []Setting{
		{Key: "username", Kind: String, Doc: "User."},
		{Key: "password", Kind: String, Doc: "Password or token."},
		{Key: "email", Kind: String, Doc: "Has no effect: engines do not ask for it any more."},
		{Key: "server_address", Kind: String, Doc: "Registry that the credentials are for. Default: that of the image."},
	}},
	{Key: "work_dir", Kind: String, Want: absolute, Doc: "Working directory in the container. Default: the image's."},
	{Key: "interactive", Kind: Bool, Doc: "Keep stdin of the command open."},
}

// networking are the keys about networks and ports.
var networking = []Setting{
	{Key: "ports", Kind: Strings, Doc: "Labels of ports of the group's `network` block to publish. Inside the container they are the port's `to`, or the same number."},
	{Key: "port_map", Kind: Map, Want: port, Doc: "Old form of `ports`: the number inside the container for labels of ports."},
	{Key: "network_mode", Kind: String, Doc: "`bridge`, `host`, `none`, `container:NAME` or the name of a network. Default: the network of the group if it has one, else `bridge`."},
	{Key: "extra_hosts", Kind: Strings, Want: hostLine, Doc: "Lines for /etc/hosts, each `NAME:ADDRESS`."},
}

var dockerNetworking = []Setting{
	{Key: "network_aliases", Kind: Strings, Doc: "Names of the container in a network that `network_mode` names."},
	{Key: "ipv4_address", Kind: String, Want: ipv4, Doc: "Address in such a network."},
	{Key: "ipv6_address", Kind: String, Want: ipv6, Doc: "IPv6 address in such a network."},
	{Key: "mac_address", Kind: String, Want: hardware, Doc: "Hardware address of the container."},
	{Key: "advertise_ipv6_address", Kind: Bool, Doc: "Tell others the container's IPv6 address rather than its IPv4 address where services use `address_mode = \"driver\"`."},
	{Key: "dns_servers", Kind: Strings, Want: address, Doc: "Addresses of DNS servers."},
	{Key: "dns_search_domains", Kind: Strings, Doc: "DNS search domains."},
	{Key: "dns_options", Kind: Strings, Doc: "DNS options, as in resolv.conf."},
}

// files are the keys about what the container sees of the host's files.
var files = []Setting{
	{Key: "volumes", Kind: Strings, Want: volume, Doc: "Directories to mount, each `SOURCE:DESTINATION` with `:ro`, `:rw` or other options. A relative source is below the task's directory; others need `volumes.enabled` in the agent's configuration."},
	{Key: "readonly_rootfs", Kind: Bool, Doc: "Mount the image read-only."},
}

// mountBlock are the keys of a mount.
var mountBlock = []Setting{
	{Key: "type", Kind: String, Want: oneOf("bind", "volume", "tmpfs"), Doc: "`bind`, `volume` or `tmpfs`. Default: `volume`."},
	{Key: "target", Kind: String, Required: true, Want: absolute, Doc: "Path in the container."},
	{Key: "source", Kind: String, Doc: "Path on the host, or name of the volume. A relative path is below the task's directory."},
	{Key: "readonly", Kind: Bool, Doc: "Mount it read-only."},
	{Key: "bind_options", Kind: Block, Doc: "Options of a bind mount.", Settings: []Setting{
		{Key: "propagation", Kind: String, Want: oneOf("private", "rprivate", "shared", "rshared", "slave", "rslave"), Doc: "Propagation of mounts below it."},
	}},
	{Key: "tmpfs_options", Kind: Block, Doc: "Options of a tmpfs.", Settings: []Setting{
		{Key: "size", Kind: Integer, High: math.MaxInt64, Doc: "Size in bytes."},
		{Key: "mode", Kind: Integer, High: 0o7777, Doc: "Permissions, as a decimal number."},
	}},
	{Key: "volume_options", Kind: Block, Doc: "Options of a volume.", Settings: []Setting{
		{Key: "no_copy", Kind: Bool, Doc: "Do not fill a new volume with the image's files."},
		{Key: "labels", Kind: Map, Doc: "Labels of a new volume."},
		{Key: "driver_config", Kind: Block, Doc: "Volume driver.", Settings: []Setting{
			{Key: "name", Kind: String, Doc: "Name of the driver."},
			{Key: "options", Kind: Map, Doc: "Options of the driver."},
		}},
	}},
}

var dockerFiles = []Setting{
	{Key: "mount", Kind: Blocks, Settings: mountBlock, Doc: "A mount. It may be repeated."},
	{Key: "mounts", Kind: Blocks, Settings: mountBlock, Doc: "Old form of `mount`: a list of objects."},
	{Key: "volume_driver", Kind: String, Doc: "Volume driver for `volumes` whose source is a name."},
	{Key: "devices", Kind: Blocks, Doc: "Devices of the host.", Settings: []Setting{
		{Key: "host_path", Kind: String, Required: true, Want: absolute, Doc: "Path on the host."},
		{Key: "container_path", Kind: String, Want: absolute, Doc: "Path in the container. Default: as on the host."},
		{Key: "cgroup_permissions", Kind: String, Want: permissions, Doc: "Any of `r`, `w` and `m`. Default: `rwm`."},
	}},
	{Key: "storage_opt", Kind: Map, Doc: "Options of the engine's storage driver, such as `size`."},
}

// rights are the keys about what the container may do.
var rights = []Setting{
	{Key: "cap_add", Kind: Strings, Doc: "Capabilities to add. The agent's configuration says which may be: `allow_caps`."},
	{Key: "cap_drop", Kind: Strings, Doc: "Capabilities to take away."},
	{Key: "privileged", Kind: Bool, Doc: "Give the container all rights on the host. Needs `allow_privileged` in the agent's configuration."},
	{Key: "security_opt", Kind: Strings, Doc: "Security options, such as `no-new-privileges` or `seccomp=unconfined`. Those that take protection away need `allow_privileged`."},
	{Key: "sysctl", Kind: Map, Doc: "Kernel parameters of the container's namespaces."},
	{Key: "ulimit", Kind: Map, Want: ulimit, Doc: "Resource limits, each `SOFT` or `SOFT:HARD`: `ulimit { nofile = \"1024:2048\" }`."},
}

// resources are the keys about limits.
var resources = []Setting{
	{Key: "cpu_hard_limit", Kind: Bool, Doc: "Limit the container to its share of the processors also while they are idle."},
	{Key: "cpu_cfs_period", Kind: Integer, High: 1_000_000, Doc: "Period of the hard limit in microseconds. Default: 100000."},
	{Key: "pids_limit", Kind: Integer, High: math.MaxInt32, Doc: "How many processes the container may have. Default and maximum: `pids_limit` of the agent's configuration."},
}

var dockerRest = []Setting{
	{Key: "memory_hard_limit", Kind: Integer, High: 1 << 40, Doc: "MiB above which the container is killed; `resources.memory` is then only promised."},
	{Key: "cpuset_cpus", Kind: String, Doc: "Processors that the container may use: `0-2,7`. Tasks with `cores` use those."},
	{Key: "oom_score_adj", Kind: Integer, High: 1000, Doc: "The larger, the sooner the kernel kills it when memory runs out."},
	{Key: "shm_size", Kind: Integer, High: math.MaxInt64, Doc: "Bytes of /dev/shm."},
	{Key: "pid_mode", Kind: String, Want: joins("host"), Doc: "`host`, which needs `allow_privileged`, or `container:NAME`."},
	{Key: "ipc_mode", Kind: String, Want: joins("host", "none", "private", "shareable"), Doc: "`none`, `private`, `shareable`, `container:NAME`, or `host`, which needs `allow_privileged`."},
	{Key: "userns_mode", Kind: String, Want: oneOf("host"), Doc: "`host`, where the engine maps users; needs `allow_privileged`."},
	{Key: "uts_mode", Kind: String, Want: oneOf("host"), Doc: "`host`, which needs `allow_privileged`."},
	{Key: "cgroupns", Kind: String, Want: oneOf("host", "private"), Doc: "Cgroup namespace: `host` or `private`."},
	{Key: "group_add", Kind: Strings, Doc: "Further groups of the command's user."},
	{Key: "runtime", Kind: String, Doc: "Runtime of the engine. The agent's configuration says which may be: `allow_runtimes`."},
	{Key: "logging", Kind: Block, Doc: "Log driver of the engine. With another than `json-file` and `local`, `alloc logs` shows nothing.", Settings: []Setting{
		{Key: "type", Kind: String, Doc: "Name of the log driver."},
		{Key: "driver", Kind: String, Doc: "The same."},
		{Key: "config", Kind: Map, Doc: "Options of the log driver."},
	}},
	{Key: "healthchecks", Kind: Block, Doc: "The image's own health check.", Settings: []Setting{
		{Key: "disable", Kind: Bool, Doc: "Do not run it."},
	}},
	{Key: "container_exists_attempts", Kind: Integer, High: 1000, Doc: "How often to try again if the container's name is taken. Default: 5."},
	{Key: "isolation", Kind: String, Refused: forWindows, Doc: "Not supported: " + forWindows + "."},
	{Key: "windows_allow_insecure_container_admin", Kind: Bool, Refused: forWindows, Doc: "Not supported: " + forWindows + "."},
}

// oneOf wants one of some words, or nothing.
func oneOf(words ...string) func(string) string {
	return func(s string) string {
		if s == "" || slices.Contains(words, s) {
			return ""
		}
		return "one of " + strings.Join(words, ", ")
	}
}

// joins wants one of some words or the name of a container.
func joins(words ...string) func(string) string {
	word := oneOf(words...)
	return func(s string) string {
		if name, ok := strings.CutPrefix(s, "container:"); ok && name != "" || word(s) == "" {
			return ""
		}
		return word(s) + " or container:NAME"
	}
}

func absolute(s string) string {
	if path.IsAbs(s) {
		return ""
	}
	return "an absolute path"
}

func port(s string) string {
	if n, err := strconv.ParseUint(s, 10, 16); err == nil && n > 0 {
		return ""
	}
	return "a port from 1 to 65535"
}

func address(s string) string {
	if net.ParseIP(s) != nil {
		return ""
	}
	return "an IP address"
}

func ipv4(s string) string {
	if ip := net.ParseIP(s); s == "" || ip != nil && ip.To4() != nil {
		return ""
	}
	return "an IPv4 address"
}

func ipv6(s string) string {
	if ip := net.ParseIP(s); s == "" || ip != nil && ip.To4() == nil {
		return ""
	}
	return "an IPv6 address"
}

func hardware(s string) string {
	if m, err := net.ParseMAC(s); s == "" || err == nil && len(m) == 6 {
		return ""
	}
	return "a hardware address such as 02:42:ac:11:00:02"
}

// hostLine wants NAME:ADDRESS. host-gateway stands for the host's own.
func hostLine(s string) string {
	name, addr, ok := strings.Cut(s, ":")
	if ok && name != "" && (addr == "host-gateway" || net.ParseIP(strings.Trim(addr, "[]")) != nil) {
		return ""
	}
	return "NAME:ADDRESS"
}

func volume(s string) string {
	parts := strings.Split(s, ":")
	if len(parts) > 3 || parts[0] == "" || len(parts) > 1 && !path.IsAbs(parts[1]) || len(parts) == 1 && !path.IsAbs(s) {
		return "SOURCE:DESTINATION or SOURCE:DESTINATION:OPTIONS with an absolute DESTINATION"
	}
	return ""
}

func permissions(s string) string {
	if len(s) <= 3 && strings.Trim(s, "rwm") == "" {
		return ""
	}
	return "any of r, w and m"
}

func ulimit(s string) string {
	soft, hard, both := strings.Cut(s, ":")
	for _, n := range []string{soft, hard} {
		if n == "" && !both && n == hard {
			continue
		}
		if v, err := strconv.ParseInt(n, 10, 64); err != nil || v < -1 {
			return "SOFT or SOFT:HARD, with -1 for no limit"
		}
	}
	return ""
}
