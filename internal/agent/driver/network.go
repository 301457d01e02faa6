package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
)

// Network is the network of a group, which its tasks share.
type Network struct {
	Mode      string            // "bridge", "none" or "cni/NAME"
	Namespace string            // path of its network namespace
	Hostname  string            // "" for the driver's default
	DNS       *berth.DNSConfig  // nil for the host's
	Hosts     map[string]string // names for /etc/hosts and their addresses
}

// HostsFile returns the text of /etc/hosts for a network of its own, "" for the
// host's.
func (n *Network) HostsFile() string {
	if len(n.Hosts) == 0 && n.Hostname == "" {
		return ""
	}
	b := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	for _, name := range slices.Sorted(maps.Keys(n.Hosts)) {
		b += n.Hosts[name] + "\t" + name + "\n"
	}
	if _, ok := n.Hosts[n.Hostname]; !ok && n.Hostname != "" {
		b += "127.0.1.1\t" + n.Hostname + "\n"
	}
	return b
}

// ResolvFile returns the text of /etc/resolv.conf for the DNS block of a
// network, "" for the host's.
func (n *Network) ResolvFile() string {
	if n.DNS == nil {
		return ""
	}
	var b strings.Builder
	for _, s := range n.DNS.Servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(n.DNS.Searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(n.DNS.Searches, " "))
	}
	if len(n.DNS.Options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(n.DNS.Options, " "))
	}
	return b.String()
}
