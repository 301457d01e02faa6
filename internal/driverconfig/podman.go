package driverconfig

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/docker/go-units"
)

// Podman is the config of podman, which runs a container of podman through its
// socket. The keys and their meaning are those that Nomad documents for this
// driver.
var Podman = &Schema{"podman", slices.Concat(image, podmanImage, networking, podmanNetworking, files, podmanFiles, rights, podmanRights, resources, podmanRest)}

// socketDecides is why a path cannot be chosen by a job.
const socketDecides = "podman takes it from containers.conf of the node (init_path)"

var podmanImage = []Setting{
	{Key: "socket", Kind: String, Doc: "Name of a `socket` block in the agent's configuration: whose podman runs the container. Default: `default`."},
	{Key: "auth", Kind: Block, Doc: "Credentials for the registry.", Settings: []Setting{
		{Key: "username", Kind: String, Doc: "User."},
		{Key: "password", Kind: String, Doc: "Password or token."},
		{Key: "tls_verify", Kind: Bool, Doc: "Must not be `false`: a registry without a valid certificate is listed as insecure in registries.conf of the node."},
	}},
	{Key: "working_dir", Kind: String, Want: absolute, Doc: "Working directory in the container. Default: the image's."},
	{Key: "init_path", Kind: String, Refused: socketDecides, Doc: "Not supported: " + socketDecides + "."},
}

var podmanNetworking = []Setting{
	{Key: "dns", Kind: Strings, Want: ipAddress, Doc: "Addresses of DNS servers. Default: the `dns` block of the group's network, else the host's."},
}

var podmanFiles = []Setting{
	{Key: "tmpfs", Kind: Strings, Want: tmpfs, Doc: "Paths in the container that get a tmpfs each: `/scratch` or `/scratch:size=64m,noexec`."},
	{Key: "devices", Kind: Strings, Want: device, Doc: "Devices of the host, each `HOST`, `HOST:CONTAINER` or `HOST:CONTAINER:rwm`. They need `allow_privileged` or `volumes.enabled` in the agent's configuration."},
}

var podmanRights = []Setting{
	{Key: "userns", Kind: String, Want: userNamespace, Doc: "User namespace: `auto`, `host`, `keep-id` or `nomap`, the first and third also with options after a colon."},
	{Key: "apparmor_profile", Kind: String, Doc: "AppArmor profile. `unconfined` needs `allow_privileged`."},
	{Key: "selinux_opts", Kind: Strings, Doc: "SELinux labels of the processes, such as `type:spc_t`. `disable` needs `allow_privileged`."},
}

var podmanRest = []Setting{
	{Key: "memory_reservation", Kind: String, Want: size, Doc: "Memory that the container is pushed back to when the machine runs short: `100m`. Default: `resources.memory`."},
	{Key: "memory_swap", Kind: String, Want: sizeOrNone, Doc: "Memory and swap together: `180m`; `-1` for unlimited swap. Default: no swap."},
	{Key: "memory_swappiness", Kind: Integer, High: 100, Doc: "How readily the kernel swaps the container's memory out. Only with cgroups of version 1."},
	{Key: "shm_size", Kind: String, Want: size, Doc: "Size of /dev/shm: `64m`."},
	{Key: "logging", Kind: Block, Doc: "Log driver of podman.", Settings: []Setting{
		{Key: "driver", Kind: String, Want: oneOf("nomad", "k8s-file", "journald", "none"), Doc: "`nomad`, the default: the agent collects the output. Also with `journald` and `k8s-file`; with others `alloc logs` shows nothing."},
		{Key: "options", Kind: Map, Doc: "Options of the log driver."},
	}},
}

// ipAddress wants an IP address without a zone.
func ipAddress(s string) string {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return ""
	}
	return "an IP address"
}

// tmpfs wants PATH or PATH:OPTIONS.
func tmpfs(s string) string {
	if at, _, _ := strings.Cut(s, ":"); path.IsAbs(at) && path.Clean(at) != "/" {
		return ""
	}
	return "PATH or PATH:OPTIONS with an absolute PATH below the root"
}

// device wants the path of a device of the host, a path in the container and
// permissions; the last two may be absent.
func device(s string) string {
	parts := strings.Split(s, ":")
	if len(parts) == 2 && !path.IsAbs(parts[1]) { // HOST:PERMISSIONS
		parts = []string{parts[0], parts[0], parts[1]}
	}
	if len(parts) > 3 || !path.IsAbs(parts[0]) || len(parts) > 1 && !path.IsAbs(parts[1]) || len(parts) == 3 && (parts[2] == "" || permissions(parts[2]) != "") {
		return "HOST, HOST:CONTAINER or HOST:CONTAINER:PERMISSIONS with absolute paths and any of r, w and m"
	}
	return ""
}

// userNamespace wants a mode of podman that reaches no namespace of another.
func userNamespace(s string) string {
	mode, _, options := strings.Cut(s, ":")
	if s == "" || (mode == "auto" || mode == "keep-id") || (mode == "host" || mode == "nomap") && !options {
		return ""
	}
	return "auto, host, keep-id or nomap"
}

// size wants a number of bytes with or without a unit.
func size(s string) string {
	if n, err := units.RAMInBytes(s); s == "" || err == nil && n > 0 {
		return ""
	}
	return "a size such as 64m"
}

// sizeOrNone wants the same, or -1.
func sizeOrNone(s string) string {
	if s == "-1" || size(s) == "" {
		return ""
	}
	return "a size such as 64m, or -1"
}
