package agent

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	miekg "github.com/miekg/dns"

	"berth"
	"berth/internal/agent/dns"
	"berth/op"
)

// DNSConfig says which names an agent answers. The zero value is: none.
type DNSConfig struct {
	Enabled bool
	Addrs   []string // host:port to listen on, besides the bridge's port 53
	Domain  string
	TTL     time.Duration
	// Recursors are the resolvers for other names, as host:port; nil: those of
	// /etc/resolv.conf.
	Recursors []string
}

// listenDNS opens the addresses of the DNS server, if there shall be one. Tasks on
// the bridge reach it at the bridge's address.
func (a *Agent) listenDNS() (err error) {
	c := a.c.DNS
	if !c.Enabled {
		return nil
	}
	addrs := c.Addrs
	var recurse []netip.Prefix
	if a.networks != nil && a.c.Networks.Resolver {
		addrs = append(slices.Clip(addrs), net.JoinHostPort(a.c.Networks.Gateway().String(), "53"))
		if p, err := netip.ParsePrefix(a.c.Networks.Subnet); err == nil {
			recurse = append(recurse, p)
		}
	}
	recursors := c.Recursors
	if recursors == nil {
		recursors = hostResolvers(addrs)
	}
	a.dns, err = dns.Listen(dns.Config{
		Domain: c.Domain, TTL: c.TTL, Lookup: a.resolve, Recursors: recursors, Recurse: recurse, Log: a.log,
	}, addrs...)
	if err == nil {
		a.log.Info("names of services are answered", "domain", c.Domain, "addresses", a.dns.Addrs(), "recursors", recursors)
	}
	return err
}

// hostResolvers returns the resolvers of this machine, without the addresses that
// the agent itself listens on.
func hostResolvers(own []string) (out []string) {
	conf, err := miekg.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil {
		return nil
	}
	for _, s := range conf.Servers {
		if addr := net.JoinHostPort(s, conf.Port); !slices.Contains(own, addr) {
			out = append(out, addr)
		}
	}
	return out
}

// serveDNS answers queries until ctx ends.
func (a *Agent) serveDNS(ctx context.Context) error {
	if a.dns == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.dns.Run(ctx)
}

// resolve asks servers for the instances of a service.
func (a *Agent) resolve(ctx context.Context, namespace, name string) ([]berth.ServiceRegistration, error) {
	out, err := op.Call(ctx, a.c.Servers, op.ServiceResolve, &op.ServiceLookup{NodeID: a.id, Space: namespace, ServiceName: name, Query: a.query()})
	if err != nil {
		return nil, err
	}
	return out.Services, nil
}
