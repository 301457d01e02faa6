package daemon

import (
	"net"
	"os"
	"strings"

	"berth/internal/sameorigin"
)

// origins returns which requests the HTTP API answers: those to an IP address or
// to a name of this agent, unless a web page of another site sent them. The
// names are those of the machine, of the agent, those it advertises, the role
// names of its region, and those that the configuration adds.
func (d *Daemon) origins() *sameorigin.Policy {
	c := d.conf.Config
	names := []string{c.Name, c.Name + "." + c.Region}
	if host, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(host, ".")
		names = append(names, host, short)
	}
	for _, advertised := range []string{c.HTTP.Advertise, c.RPC.Advertise, c.Serf.Advertise} {
		if host, _, err := net.SplitHostPort(advertised); err == nil {
			names = append(names, host)
		}
	}
	for _, role := range []string{"server", "client"} {
		// Clients with TLS may call an agent by the role in its certificate.
		names = append(names, role+"."+c.Region+".nomad", role+"."+c.Region+".berth")
	}
	p := &sameorigin.Policy{Names: names, Configured: c.HTTPHosts, Key: "http_hosts"}
	if c.TLS.HTTP {
		p.Certificate = d.tls.Leaf
	}
	return p
}
