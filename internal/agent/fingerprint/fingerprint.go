// Package fingerprint finds out what a machine is and has: the attributes that
// constraints look at (${attr.*}), and the resources that allocations are given
// of. Names and units of attributes are those that Nomad documents. Nothing
// here fails: what cannot be found out is left out, or guessed low and said so
// in a warning.
package fingerprint

import (
	"bufio"
	"context"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/network"
	"berth/internal/saferoot"
)

// Config is what the agent's configuration says of the node. Zero values leave
// it to what is found.
type Config struct {
	ID                         berth.NodeID
	Secret                     string // the node's, by which servers know it again
	Name, Datacenter           string // "" is the host's name, and dc1
	NodeClass, NodePool        string
	Meta                       map[string]string
	HTTPAddr                   string // where the agent's HTTP API is reached
	TLSEnabled                 bool
	Version                    string // of this program
	CgroupParent               string // of the tasks' cgroups
	Interface                  string // the network interface whose address ports are given on; "" is that of the default route
	Loopback                   bool   // ports are given on 127.0.0.1 only
	MaxAllocs                  int    // 0 is any number
	CPUTotalCompute            int    // MHz
	MemoryTotalMB, DiskTotalMB int
	DiskFreeMB                 int                              // unless DiskTotalMB is set
	PreferIPv6                 bool                             // for the address that ports are given on
	Reserved                   berth.NodeReservedResources      // kept back from tasks
	ReservableCores            []uint16                         // nil is all
	HostVolumes                map[string]berth.HostVolumeInfo  // by name
	HostNetworks               map[string]berth.HostNetworkInfo // by name
	MinDynamicPort             int                              // 0 is the default
	MaxDynamicPort             int                              // 0 is the default
	Groups                     *network.Offer                   // for networks of groups
	Bridge                     string                           // name of the bridge of mode bridge
	NomadVersion               string                           // of the release whose jobs ask for ${attr.nomad.version}
}

// Node describes this machine. allocs is the directory whose disk allocations
// use.
func Node(ctx context.Context, c *Config, allocs *saferoot.Root, drivers map[string]driver.Driver, log *slog.Logger) *berth.Node {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	n := &berth.Node{
		ID: c.ID, SecretID: c.Secret, Name: c.Name, Datacenter: c.Datacenter, NodeClass: c.NodeClass, NodePool: c.NodePool,
		HTTPAddr: c.HTTPAddr, TLSEnabled: c.TLSEnabled, CgroupParent: c.CgroupParent, NodeMaxAllocs: c.MaxAllocs, Meta: maps.Clone(c.Meta),
		Attributes: map[string]string{"unique.hostname": host}, Links: map[string]string{},
		NodeResources: &berth.NodeResources{
			MinDynamicPort: or(c.MinDynamicPort, berth.MinDynamicPort), MaxDynamicPort: or(c.MaxDynamicPort, berth.MaxDynamicPort),
		},
		Status: berth.NodeInit, SchedulingEligibility: berth.NodeEligible,
	}
	n.Name, n.Datacenter, n.NodePool = or(n.Name, host), or(n.Datacenter, "dc1"), or(n.NodePool, berth.DefaultNodePool)
	reserved := c.Reserved
	n.ReservedResources = &reserved
	n.HostVolumes, n.HostNetworks = maps.Clone(c.HostVolumes), maps.Clone(c.HostNetworks)
	if n.Meta == nil {
		n.Meta = map[string]string{}
	}
	attr := n.Attributes
	processors(ctx, c, n, log)
	memory(ctx, c, n, log)
	disk(c, n, allocs, log)
	system(attr)
	networks(c, n, log)
	attr["cgroups.version"] = cgroupVersion()
	if attr["nomad.version"] = c.NomadVersion; c.NomadVersion == "" {
		delete(attr, "nomad.version")
	}
	attr["berth.version"] = c.Version
	attr["unique.advertise.address"] = c.HTTPAddr
	attr["nomad.service_discovery"] = "true" // Nomad's servers place jobs with services only there
	n.Drivers = Drivers(ctx, drivers)
	for _, d := range n.Drivers {
		maps.Copy(attr, d.Attributes)
	}
	// An attribute that is not known is not set, so that constraints see it so.
	maps.DeleteFunc(attr, func(_, v string) bool { return v == "" })
	return n
}

// Drivers asks each driver how it is.
func Drivers(ctx context.Context, drivers map[string]driver.Driver) map[string]*berth.DriverInfo {
	out := map[string]*berth.DriverInfo{}
	for name, d := range drivers {
		info := d.Fingerprint(ctx)
		out[name] = &info
	}
	return out
}

// or returns v, or def if v is the zero value.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// memory sets the node's memory in MiB and its attribute in bytes. The
// configuration comes before what is found.
func memory(ctx context.Context, c *Config, n *berth.Node, log *slog.Logger) {
	var total uint64
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		log.Warn("memory cannot be looked at; set memory_total_mb", "error", err)
	} else {
		total = m.Total
	}
	if c.MemoryTotalMB > 0 {
		total = uint64(c.MemoryTotalMB) << 20
	}
	n.Attributes["memory.totalbytes"] = strconv.FormatUint(total, 10)
	n.NodeResources.Memory.MemoryMB = int64(total >> 20)
}

// disk sets the node's disk in MiB: what is free now, unless the configuration
// names a total. The attributes always show what was found.
func disk(c *Config, n *berth.Node, allocs *saferoot.Root, log *slog.Logger) {
	free, total, err := allocs.Room()
	if err != nil {
		log.Warn("the disk cannot be looked at; set disk_total_mb", "error", err)
	}
	a := n.Attributes
	a["unique.storage.volume"] = volume(allocs.Path())
	a["unique.storage.bytestotal"] = strconv.FormatUint(total, 10)
	a["unique.storage.bytesfree"] = strconv.FormatUint(free, 10)
	n.NodeResources.Disk.DiskMB = int64(free >> 20)
	if c.DiskFreeMB > 0 {
		n.NodeResources.Disk.DiskMB = int64(c.DiskFreeMB)
	}
	if c.DiskTotalMB > 0 {
		n.NodeResources.Disk.DiskMB = int64(c.DiskTotalMB)
	}
}

// volume returns the device that a directory is on.
func volume(dir string) string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	// Of the mounts that the directory is below, the longest is its own.
	best, device := "", ""
	for s := bufio.NewScanner(f); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			continue
		}
		mount := left[4]
		inside := mount == "/" || dir == mount || strings.HasPrefix(dir, mount+"/")
		if inside && len(mount) >= len(best) {
			best, device = mount, right[1]
		}
	}
	return device
}

// system sets the attributes of the kernel and the distribution. The
// architecture is the machine's, which may differ from that of this program.
func system(a map[string]string) {
	a["kernel.name"] = runtime.GOOS
	a["kernel.arch"] = runtime.GOARCH
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		a["kernel.version"] = unix.ByteSliceToString(u.Release[:])
		a["kernel.arch"] = unix.ByteSliceToString(u.Machine[:])
	}
	a["os.name"], a["os.version"] = osRelease()
	a["os.signals"] = strings.Join(signals(), ",")
}

// osRelease reads the distribution's name and version.
func osRelease() (name, version string) {
	for _, p := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			v = strings.Trim(v, `"'`)
			switch k {
			case "ID":
				name = v
			case "VERSION_ID":
				version = v
			}
		}
		return name, version
	}
	return runtime.GOOS, ""
}

// signals lists the signals that a task can be sent here.
func signals() (out []string) {
	for i := unix.Signal(1); i < 32; i++ {
		if name := unix.SignalName(i); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// cgroupVersion says which hierarchy the machine is run with.
func cgroupVersion() string {
	var st unix.Statfs_t
	if unix.Statfs("/sys/fs/cgroup", &st) != nil {
		return ""
	}
	if int64(st.Type) == unix.CGROUP2_SUPER_MAGIC {
		return "2"
	}
	return "1"
}
