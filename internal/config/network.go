package config

import (
	"net/netip"
	"path/filepath"

	"berth/internal/pattern"
)

// GroupNetworks says how networks of groups are made.
type GroupNetworks struct {
	Bridge     string // name of the bridge of networks in mode bridge
	Subnet     string // their IPv4 addresses, as a CIDR
	SubnetIPv6 string // their IPv6 addresses; "" for none
	Hairpin    bool   // tasks reach their own ports by the host's address
	Plugins    string // directories of CNI plugins, separated by colons
	ConfigDir  string // of CNI networks
}

// groupNetworks are the defaults. Debian has the plugins in /usr/lib/cni.
var groupNetworks = GroupNetworks{Bridge: "nomad", Subnet: "172.26.64.0/20", Plugins: "/opt/cni/bin:/usr/lib/cni", ConfigDir: "/opt/cni/config"}

// groupNetworkKeys are keys of the client block.
var groupNetworkKeys = table{
	"bridge_network_name":         text(func(c *Config) *string { return &c.Client.GroupNetworks.Bridge }),
	"bridge_network_subnet":       text(func(c *Config) *string { return &c.Client.GroupNetworks.Subnet }),
	"bridge_network_subnet_ipv6":  text(func(c *Config) *string { return &c.Client.GroupNetworks.SubnetIPv6 }),
	"bridge_network_hairpin_mode": flag(func(c *Config) *bool { return &c.Client.GroupNetworks.Hairpin }),
	"cni_path":                    text(func(c *Config) *string { return &c.Client.GroupNetworks.Plugins }),
	"cni_config_dir":              text(func(c *Config) *string { return &c.Client.GroupNetworks.ConfigDir }),
}

// interfaceName is the form of the name of a network interface: Linux allows at
// most 15 bytes.
var interfaceName = pattern.New(`^[A-Za-z0-9._-]{1,15}$`)

// groupNetworks checks how networks of groups are made.
func (d *decoder) groupNetworks() {
	c := &d.to.Client.GroupNetworks
	if !interfaceName.MatchString(c.Bridge) {
		d.fail("client.bridge_network_name", "%.40q must be 1 to 15 letters, digits, dots, hyphens or underscores", c.Bridge)
	}
	if p, err := netip.ParsePrefix(c.Subnet); err != nil || !p.Addr().Is4() || p.Bits() > 30 {
		d.fail("client.bridge_network_subnet", "%.40q must be an IPv4 network such as %s, with at most 30 bits", c.Subnet, groupNetworks.Subnet)
	}
	if p, err := netip.ParsePrefix(c.SubnetIPv6); c.SubnetIPv6 != "" && (err != nil || !p.Addr().Is6() || p.Bits() > 126) {
		d.fail("client.bridge_network_subnet_ipv6", "%.60q must be an IPv6 network such as fd00:a110:c8::/120, with at most 126 bits", c.SubnetIPv6)
	}
	for _, dir := range filepath.SplitList(c.Plugins) {
		if !filepath.IsAbs(dir) {
			d.fail("client.cni_path", "%.100q must be an absolute path", dir)
		}
	}
	if c.ConfigDir != "" && !filepath.IsAbs(c.ConfigDir) {
		d.fail("client.cni_config_dir", "%.100q must be an absolute path", c.ConfigDir)
	}
}
