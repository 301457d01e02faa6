package fingerprint

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"berth"
)

// networks sets the node's interfaces and the one network that ports are given
// on. There is always one: 127.0.0.1 if nothing better is found.
func networks(c *Config, n *berth.Node, log *slog.Logger) {
	ifaces, err := net.Interfaces()
	if err != nil {
		log.Warn("network interfaces cannot be looked at", "error", err)
	}
	// The interface that ports are given on: asked for, or that of the default
	// route.
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
		ip := pick(nw.Addresses, c.PreferIPv6)
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
	// A node without a network would take no job with ports at all.
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
		r.NodeNetworks[i].Addresses = aliases(c.HostNetworks, &r.NodeNetworks[i], r.Networks[0].IP)
	}
	groupNetworks(c, n)
	for _, name := range slices.Sorted(maps.Keys(c.HostNetworks)) {
		if !hasAlias(r.NodeNetworks, name) {
			log.Warn("no address of this machine is in the host network; jobs that ask for it find no port here", "host_network", name,
				"cidr", c.HostNetworks[name].CIDR, "interface", c.HostNetworks[name].Interface)
		}
	}
}

// groupNetworks says which networks groups can have here: a network of each mode,
// as schedulers look for it, and the versions of the plugins.
func groupNetworks(c *Config, n *berth.Node) {
	o := c.Groups
	if o == nil {
		return
	}
	r := n.NodeResources
	if o.Bridge {
		r.NodeNetworks = append(r.NodeNetworks, berth.NodeNetwork{Mode: berth.NetworkBridge, Device: c.Bridge})
	}
	for _, name := range o.CNI {
		r.NodeNetworks = append(r.NodeNetworks, berth.NodeNetwork{Mode: berth.NetworkCNI + name})
	}
	if c.Bridge != "" { // it needs no plugin
		r.NodeNetworks = append(r.NodeNetworks, berth.NodeNetwork{Mode: berth.NetworkNone})
	}
	for name, version := range o.Plugins {
		n.Attributes["plugins.cni.version."+name] = version
	}
}

// defaultAlias is the host network of the node's own address, unless the
// configuration means other addresses by it.
const defaultAlias = "default"

// aliases returns the addresses of an interface by the host networks that they
// are in: one that is in several is there for each, one that is in none is
// there without a name.
func aliases(networks map[string]berth.HostNetworkInfo, on *berth.NodeNetwork, own string) (out []berth.NodeNetworkAddress) {
	for _, a := range on.Addresses {
		var names []string
		if _, ok := networks[defaultAlias]; !ok && a.Address == own {
			names = append(names, defaultAlias)
		}
		for _, name := range slices.Sorted(maps.Keys(networks)) {
			if inNetwork(networks[name], on.Device, a.Address) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			out = append(out, a)
		}
		for _, name := range names {
			a.Alias, a.ReservedPorts = name, networks[name].ReservedPorts
			out = append(out, a)
		}
	}
	return out
}

// inNetwork reports whether an address of the device belongs to the host
// network: both its interface and its CIDR must match, if it has them.
func inNetwork(n berth.HostNetworkInfo, device, address string) bool {
	if n.Interface != "" && n.Interface != device {
		return false
	}
	if n.CIDR == "" {
		return true
	}
	p, err := netip.ParsePrefix(n.CIDR)
	ip, err2 := netip.ParseAddr(address)
	return err == nil && err2 == nil && p.Contains(ip)
}

// hasAlias reports whether an address of any interface is in the host network.
func hasAlias(networks []berth.NodeNetwork, name string) bool {
	for _, n := range networks {
		if slices.ContainsFunc(n.Addresses, func(a berth.NodeNetworkAddress) bool { return a.Alias == name }) {
			return true
		}
	}
	return false
}

// describe returns nil for an interface that is down or has no address.
func describe(i *net.Interface) *berth.NodeNetwork {
	addrs, err := i.Addrs()
	if err != nil || i.Flags&net.FlagUp == 0 {
		return nil
	}
	nw := &berth.NodeNetwork{Mode: berth.NetworkHost, Device: i.Name, MacAddress: i.HardwareAddr.String(), Speed: linkSpeed(i.Name)}
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

// linkSpeed returns Mbit/s, 0 if the interface does not say.
func linkSpeed(name string) int {
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

// pick prefers IPv4, or IPv6 if six is set, and any address over one that is good
// on its link only.
func pick(addrs []berth.NodeNetworkAddress, six bool) string {
	best, rank := "", -1
	for _, a := range addrs {
		ip, err := netip.ParseAddr(a.Address)
		if err != nil {
			continue
		}
		r := 1
		if ip.IsLinkLocalUnicast() {
			r = 0
		} else if ip.Is4() != six {
			r = 2
		}
		if r > rank {
			best, rank = a.Address, r
		}
	}
	return best
}

// prefix returns the CIDR of the address alone, "" if it is no address.
func prefix(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%d", a, a.BitLen())
}

// loopback returns the name of the loopback interface.
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
