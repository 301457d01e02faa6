// Package fingerprint finds out what a machine is and has: the attributes that
// constraints look at (${attr.*}), and the resources that allocations are given
// of. Names and units of attributes are those that Nomad documents. Nothing
// here fails: what cannot be found out is left out, or guessed low and said so
// in a warning.
package fingerprint

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sys/unix"

	"berth"
	"berth/agent/driver"
	"berth/internal/saferoot"
)

// Config is what the agent's configuration says of the node. Zero values leave
// it to what is found.
type Config struct {
	ID                         berth.NodeID
	Secret                     string
	Name, Datacenter           string // "" is the host's name, and dc1
	NodeClass, NodePool        string
	Meta                       map[string]string
	HTTPAddr                   string
	Version                    string // of this program
	CgroupParent               string
	Interface                  string // the network interface whose address ports are given on; "" is that of the default route
	Loopback                   bool   // ports are given on 127.0.0.1 only
	CPUTotalCompute            int    // MHz
	MemoryTotalMB, DiskTotalMB int
	Reserved                   berth.NodeReservedResources
	MinDynamicPort             int
	MaxDynamicPort             int
	NomadVersion               string // of the release whose jobs ask for ${attr.nomad.version}
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
		HTTPAddr: c.HTTPAddr, CgroupParent: c.CgroupParent, Meta: maps.Clone(c.Meta),
		Attributes: map[string]string{"unique.hostname": host}, Links: map[string]string{},
		NodeResources: &berth.NodeResources{
			MinDynamicPort: or(c.MinDynamicPort, berth.MinDynamicPort), MaxDynamicPort: or(c.MaxDynamicPort, berth.MaxDynamicPort),
		},
		Status: berth.NodeInit, SchedulingEligibility: berth.NodeEligible,
	}
	n.Name, n.Datacenter, n.NodePool = or(n.Name, host), or(n.Datacenter, "dc1"), or(n.NodePool, berth.DefaultNodePool)
	reserved := c.Reserved
	n.ReservedResources = &reserved
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
	n.Drivers = Drivers(ctx, drivers)
	for _, d := range n.Drivers {
		maps.Copy(attr, d.Attributes)
	}
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

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// guessedMHz is taken for a core whose speed nothing tells: too low wastes a
// little, too high would promise what is not there.
const guessedMHz = 1000

func processors(ctx context.Context, c *Config, n *berth.Node, log *slog.Logger) {
	cores := runtime.NumCPU()
	mhz, model := 0.0, ""
	infos, err := cpu.InfoWithContext(ctx)
	if err != nil {
		log.Warn("processors cannot be looked at", "error", err)
	}
	for _, i := range infos {
		mhz = max(mhz, i.Mhz)
		model = or(model, i.ModelName)
	}
	if mhz < 1 {
		log.Warn("the processors' speed is not known; set cpu_total_compute if it matters", "guess_mhz", guessedMHz)
		mhz = guessedMHz
	}
	total := int64(mhz) * int64(cores)
	if c.CPUTotalCompute > 0 {
		total = int64(c.CPUTotalCompute)
	}
	a := n.Attributes
	a["cpu.arch"], a["cpu.modelname"] = runtime.GOARCH, model
	a["cpu.numcores"], a["cpu.reservablecores"] = strconv.Itoa(cores), strconv.Itoa(cores)
	a["cpu.frequency"] = strconv.Itoa(int(mhz))
	a["cpu.totalcompute"] = strconv.FormatInt(total, 10)
	a["cpu.usablecompute"] = strconv.FormatInt(max(0, total-int64(n.ReservedResources.Cpu.CpuShares)), 10)
	r := n.NodeResources
	r.Cpu = berth.NodeCpuResources{CpuShares: total, TotalCpuCores: uint16(min(cores, 1<<16-1))}
	topology := &berth.Topology{Nodes: []uint8{0}, Distances: [][]uint8{{10}}, OverrideTotalCompute: uint64(max(0, c.CPUTotalCompute))}
	for i := range r.Cpu.TotalCpuCores {
		r.Cpu.ReservableCpuCores = append(r.Cpu.ReservableCpuCores, i)
		topology.Cores = append(topology.Cores, berth.Core{ID: i, BaseSpeed: uint64(mhz), MaxSpeed: uint64(mhz), GuessSpeed: uint64(mhz)})
	}
	r.Processors.Topology = topology
}

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

func networks(c *Config, n *berth.Node, log *slog.Logger) {
	ifaces, err := net.Interfaces()
	if err != nil {
		log.Warn("network interfaces cannot be looked at", "error", err)
	}
	want := c.Interface
	if c.Loopback {
		want = loopback(ifaces)
	} else if want == "" {
		want = defaultInterface(ifaces)
	}
	r := n.NodeResources
	for i := range ifaces {
		nw := describe(&ifaces[i])
		if nw == nil {
			continue
		}
		r.NodeNetworks = append(r.NodeNetworks, *nw)
		if nw.Device != want {
			continue
		}
		ip := pick(nw.Addresses)
		if c.Loopback {
			ip = "127.0.0.1"
		}
		if ip == "" {
			log.Warn("the network interface has no address", "interface", want)
			continue
		}
		n.Attributes["unique.network.ip-address"] = ip
		r.Networks = append(r.Networks, berth.NetworkResource{Mode: berth.NetworkHost, Device: want, IP: ip, CIDR: prefix(ip), MBits: nw.Speed})
	}
	if len(r.Networks) == 0 {
		if c.Interface != "" {
			log.Warn("there is no such network interface, or it is down; ports are given on 127.0.0.1", "interface", want)
		}
		n.Attributes["unique.network.ip-address"] = "127.0.0.1"
		r.Networks = []berth.NetworkResource{{Mode: berth.NetworkHost, Device: or(want, "lo"), IP: "127.0.0.1", CIDR: "127.0.0.1/32"}}
	}
	// The node's own address comes first, also among the aliases that jobs may
	// name.
	slices.SortStableFunc(r.NodeNetworks, func(a, b berth.NodeNetwork) int {
		switch {
		case a.Device == want && b.Device != want:
			return -1
		case b.Device == want && a.Device != want:
			return 1
		}
		return 0
	})
	for i := range r.NodeNetworks {
		for j := range r.NodeNetworks[i].Addresses {
			if r.NodeNetworks[i].Addresses[j].Address == r.Networks[0].IP {
				r.NodeNetworks[i].Addresses[j].Alias = "default"
			}
		}
	}
}

// describe returns nil for an interface that is down or has no address.
func describe(i *net.Interface) *berth.NodeNetwork {
	addrs, err := i.Addrs()
	if err != nil || i.Flags&net.FlagUp == 0 {
		return nil
	}
	nw := &berth.NodeNetwork{Mode: berth.NetworkHost, Device: i.Name, MacAddress: i.HardwareAddr.String(), Speed: speed(i.Name)}
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		family := "ipv6"
		if ip.IP.To4() != nil {
			family = "ipv4"
		}
		nw.Addresses = append(nw.Addresses, berth.NodeNetworkAddress{Family: family, Address: ip.IP.String()})
	}
	if len(nw.Addresses) == 0 {
		return nil
	}
	return nw
}

// speed returns Mbit/s, 0 if the interface does not say.
func speed(name string) int {
	b, err := os.ReadFile("/sys/class/net/" + name + "/speed")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// pick prefers IPv4, and any address over one that is good on its link only.
func pick(addrs []berth.NodeNetworkAddress) string {
	best, rank := "", -1
	for _, a := range addrs {
		ip, err := netip.ParseAddr(a.Address)
		if err != nil {
			continue
		}
		r := 1
		if ip.IsLinkLocalUnicast() {
			r = 0
		} else if ip.Is4() {
			r = 2
		}
		if r > rank {
			best, rank = a.Address, r
		}
	}
	return best
}

func prefix(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%d", a, a.BitLen())
}

func loopback(ifaces []net.Interface) string {
	for _, i := range ifaces {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	return "lo"
}

// defaultInterface returns that of the default route, or else the first that
// is up and not loopback.
func defaultInterface(ifaces []net.Interface) string {
	if b, err := os.ReadFile("/proc/net/route"); err == nil {
		if name := defaultRoute(string(b)); name != "" {
			return name
		}
	}
	for _, i := range ifaces {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 && describe(&i) != nil {
			return i.Name
		}
	}
	return loopback(ifaces)
}

// defaultRoute reads /proc/net/route: the route to 0.0.0.0/0 with the lowest
// metric.
func defaultRoute(table string) (name string) {
	best := -1
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		metric, err := strconv.Atoi(f[6])
		if err == nil && (best < 0 || metric < best) {
			name, best = f[0], metric
		}
	}
	return name
}
