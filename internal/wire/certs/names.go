// Package certs handles the certificates of agents: the names that give an agent
// its role, the files it loads, and creating authorities and certificates.
//
// It guarantees: TLS 1.3 between agents, and at least 1.2 for HTTPS; both ends of
// a connection between agents show a certificate of a configured authority; files
// are loaded, and loaded again, all or none; an error names the certificate, what
// it must have and what it has. The far end learns only that its certificate is
// bad.
//
// The names are those of Nomad's certificates, so that existing ones work:
// server.<region>.nomad, client.<region>.nomad, cli.<region>.nomad.
package certs

import (
	"crypto/x509"
	"fmt"
	"net"
	"strings"
)

// domain is the suffix of every role name. Nomad's agents require it, whatever
// the domain of the authority.
const domain = "nomad"

// ServerName returns the certificate name of a server of the region.
func ServerName(region string) string { return roleName("server", region) }

// ClientName returns the certificate name of a client agent of the region.
func ClientName(region string) string { return roleName("client", region) }

// roleName returns the name by which a certificate gives a role in a region.
func roleName(role, region string) string { return role + "." + region + "." + domain }

// Role is the set of roles that a certificate gives its holder.
type Role uint8

// The roles, as a server of one region sees them.
const (
	Client  Role = 1 << iota // an agent of this region
	Server                   // a server of this region
	Foreign                  // a server of another region
	None    Role = 0         // none of these: a person's certificate, an agent of another region, a stranger's
)

// Is reports whether r has all roles of want.
func (r Role) Is(want Role) bool { return r&want == want }

// String returns the roles in words, for messages.
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

// RoleOf returns the roles of a certificate, for a server of the region. With
// unnamed, a certificate without any role name counts as a server's, for agents
// that do not check names.
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

// onlyNode reports whether a certificate is that of a client agent, of any
// region, and of nobody else.
func onlyNode(cert *x509.Certificate) bool {
	node := false
	for _, name := range cert.DNSNames {
		role, _, ok := splitRole(strings.ToLower(name))
		if ok && role != "client" {
			return false
		}
		node = node || ok
	}
	return node
}

// splitRole takes a role name apart. It reports false for any other name,
// such as a host name; cli is a role name without any right.
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

// Describe returns a certificate's common name and other names, for messages.
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

// hasName reports whether the certificate has the name or address.
func hasName(c *x509.Certificate, name string) bool {
	if net.ParseIP(name) != nil {
		name = "[" + name + "]"
	}
	return c.VerifyHostname(name) == nil
}
