// Package certs is who is who by certificate: the names that say what an agent
// is, the files that an agent proves itself with, and the making of
// authorities and certificates.
//
// What it keeps true: TLS 1.3 between agents, and nothing below 1.2 anywhere;
// both ends of a connection between agents show a certificate of one of the
// authorities of the configuration; files are read whole or not at all, also
// when they are read again; an error says which certificate is meant, what is
// wanted of it, and what it has. The far end is told no more than that its
// certificate is bad.
//
// The names are those of Nomad's certificates, so that existing ones serve:
// server.<region>.nomad, client.<region>.nomad, cli.<region>.nomad.
package certs

import (
	"crypto/x509"
	"fmt"
	"net"
	"strings"
)

// domain is what every name of a role ends with. Nomad's agents want it
// whatever domain an authority was made for.
const domain = "nomad"

// ServerName is the name that the certificate of a server of the region has.
func ServerName(region string) string { return roleName("server", region) }

// ClientName is the name that the certificate of an agent of the region has.
func ClientName(region string) string { return roleName("client", region) }

func roleName(role, region string) string { return role + "." + region + "." + domain }

// Role is what a certificate says its holder is. It may say several things.
type Role uint8

// The roles, as a server of one region sees them.
const (
	Client  Role = 1 << iota // an agent of this region
	Server                   // a server of this region
	Foreign                  // a server of another region
	None    Role = 0         // none of these: a person's certificate, an agent of another region, a stranger's
)

// Is says whether r is all that want says.
func (r Role) Is(want Role) bool { return r&want == want }

func (r Role) String() string {
	var all []string
	for _, x := range []struct {
		is   Role
		text string
	}{{Server, "server"}, {Client, "client"}, {Foreign, "server of another region"}} {
		if r.Is(x.is) {
			all = append(all, x.text)
		}
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, " and ")
}

// RoleOf returns what the certificate says to a server of the region. With
// unnamed, a certificate without the name of any role is a server's: so it was
// for agents that do not check names.
func RoleOf(cert *x509.Certificate, region string, unnamed bool) (r Role) {
	named := false
	for _, name := range cert.DNSNames {
		role, of, ok := splitRole(strings.ToLower(name))
		named = named || ok
		switch here := of == strings.ToLower(region); {
		case role == "server" && here:
			r |= Server
		case role == "server":
			r |= Foreign
		case role == "client" && here:
			r |= Client
		}
	}
	if !named && unnamed {
		return Server
	}
	return r
}

func splitRole(name string) (role, region string, ok bool) {
	rest, ok := strings.CutSuffix(name, "."+domain)
	if !ok {
		return "", "", false
	}
	role, region, ok = strings.Cut(rest, ".")
	if !ok || region == "" || role != "server" && role != "client" && role != "cli" {
		return "", "", false
	}
	return role, region, true
}

// Describe names a certificate for a person: whose it is, the names it has.
func Describe(c *x509.Certificate) string {
	var names []string
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	has := "no names"
	if len(names) > 0 {
		has = "the names " + strings.Join(names[:min(len(names), 8)], ", ")
	}
	return fmt.Sprintf("%.80q, which has %.400s", c.Subject.CommonName, has)
}

// hasName says whether the certificate has the name or address.
func hasName(c *x509.Certificate, name string) bool {
	if net.ParseIP(name) != nil {
		name = "[" + name + "]"
	}
	return c.VerifyHostname(name) == nil
}
