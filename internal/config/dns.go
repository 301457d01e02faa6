package config

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"berth/internal/pattern"
)

// DNS configures the DNS server of an agent. Nomad has none: this is an extension.
type DNS struct {
	Enabled   bool
	Addresses []string // IP addresses, besides the one of the bridge for tasks
	Port      int      // of Addresses; on the bridge it is 53
	Domain    string
	TTL       time.Duration
	// Recursors are the resolvers for other names, as host:port; nil: those of
	// /etc/resolv.conf.
	Recursors []string
}

// dnsDefaults are the defaults.
var dnsDefaults = DNS{Addresses: []string{"127.0.0.1"}, Port: 8653, Domain: "berth", TTL: 5 * time.Second}

// dnsKeys are the keys of the dns block.
var dnsKeys = table{
	"enabled":   flag(func(c *Config) *bool { return &c.DNS.Enabled }),
	"addresses": texts(func(c *Config) *[]string { return &c.DNS.Addresses }),
	"port":      whole(func(c *Config) *int { return &c.DNS.Port }),
	"domain":    text(func(c *Config) *string { return &c.DNS.Domain }),
	"ttl":       span(func(c *Config) *duration { return &c.DNS.TTL }),
	"recursors": texts(func(c *Config) *[]string { return &c.DNS.Recursors }),
}

// domainForm is the form of a domain: labels of letters, digits and hyphens.
var domainForm = pattern.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// dns checks the dns block. Recursors without a port get 53.
func (d *decoder) dns() {
	c := &d.to.DNS
	if c.Enabled && !d.to.Client.Enabled {
		d.fail("dns.enabled", "needs client.enabled: agents that run no tasks have no DNS server")
	}
	for _, a := range c.Addresses {
		if _, err := netip.ParseAddr(a); err != nil {
			d.fail("dns.addresses", "%.60q must be an IP address", a)
		}
	}
	d.between("dns.port", c.Port, 0, 65535)
	c.Domain = strings.ToLower(strings.Trim(c.Domain, "."))
	if len(c.Domain) > 100 || !domainForm.MatchString(c.Domain) {
		d.fail("dns.domain", "%.120q must be a domain such as berth or svc.example.com, with at most 100 characters", c.Domain)
	}
	d.period("dns.ttl", c.TTL, time.Second, time.Hour)
	for i, r := range c.Recursors {
		if a, err := netip.ParseAddr(r); err == nil {
			c.Recursors[i] = net.JoinHostPort(a.String(), "53")
		} else if _, err := netip.ParseAddrPort(r); err != nil {
			d.fail("dns.recursors", "%.60q must be an IP address, or one with a port such as 10.0.0.2:53", r)
		}
	}
}
