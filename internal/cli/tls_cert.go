package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"berth"
	"berth/internal/wire/certs"
)

// tlsCertCreateCommand creates the certificate of an agent or a user.
func tlsCertCreateCommand() *command {
	return &command{
		name: "tls cert create", synopsis: "Create certificates for servers, clients and users", local: true,
		example: "tls cert create -server -client -cli",
		help: `Creates an ECDSA P-256 key and a certificate signed by the CA of "tls ca create", and writes them to the current directory: with
			-server to global-server-nomad.pem and global-server-nomad-key.pem, and similarly with -client and -cli, which can be combined.
			Existing files are not overwritten. The output ends with the agent configuration and the environment that use the files.

			The name in a certificate determines its role: server.<region>.nomad is a server of the region, client.<region>.nomad an agent
			that runs jobs, and cli.<region>.nomad a user of the HTTP API.`,
		setup: func(f *flags) action {
			server := f.Bool("server", "Create a server certificate.")
			client := f.Bool("client", "Create a certificate for an agent that runs jobs.")
			person := f.Bool("cli", "Create a certificate for a user.")
			region := f.String("region", "The `region` of the certificate. Defaults to global.")
			cluster := f.String("cluster-region", "Alias of -region, naming the same `region`.")
			domain := f.FlagSet.String("domain", "nomad", "The `domain` that the name ends with and after which the CA's files are named. Agents only accept names that end with nomad.")
			days := f.Int("days", 365, "The number of `days` for which the certificate is valid.")
			names := f.List("additional-dnsname", "Another DNS `name` for the certificate. localhost is always included. Can be repeated.")
			addrs := f.List("additional-ipaddress", "An IP `address` for the certificate. 127.0.0.1 is always included, except with -cli. Can be repeated.")
			ca := f.String("ca", "The CA certificate `file`. Defaults to <domain>-agent-ca.pem.")
			key := f.String("key", "The CA key `file`. Defaults to <domain>-agent-ca-key.pem.")
			return func(_ context.Context, c *call) error {
				// The order of certRoles is that of the flags.
				r := certRequest{domain: *domain, region: *region, days: *days, names: *names, addrs: *addrs, ca: *ca, key: *key}
				for i, chosen := range []bool{*server, *client, *person} {
					if chosen {
						r.roles = append(r.roles, certRoles[i])
					}
				}
				switch {
				case len(r.roles) == 0:
					return c.usagef("at least one of -server, -client and -cli is required")
				case r.region != "" && *cluster != "" && r.region != *cluster:
					return c.usagef("-region and -cluster-region differ")
				case r.region == "":
					r.region = *cluster
				}
				if r.region == "" {
					r.region = "global"
				}
				return c.createCerts(&r)
			}
		},
	}
}

// certRole is a role that a certificate can have.
type certRole struct{ name, title string }

// certRoles are those of the flags -server, -client and -cli.
var certRoles = []certRole{{"server", "Server Certificate"}, {"client", "Client Certificate"}, {"cli", "Cli Certificate"}}

// certRequest is what the flags ask for.
type certRequest struct {
	roles          []certRole
	region, domain string
	days           int
	names, addrs   []string
	ca, key        string
}

// file returns the name of a role's certificate, without its ending.
func (r *certRequest) file(role certRole) string { return r.region + "-" + role.name + "-" + r.domain }

// issue turns the flags into a request to the CA for one of the roles.
func (r *certRequest) issue(c *call, role certRole) (out certs.Request, err error) {
	if err := c.checkDays(r.days); err != nil {
		return out, err
	}
	for _, n := range append([]string{r.region, r.domain}, r.names...) {
		if !isDomain(strings.TrimPrefix(n, "*.")) {
			return out, c.usagef("%.100q is not a valid name for a certificate", n)
		}
	}
	out = certs.Request{
		Name: role.name + "." + r.region + "." + r.domain, Names: append([]string{"localhost"}, r.names...), Life: certs.Days(c.Now(), r.days),
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if role.name == "cli" {
		out.Usages = out.Usages[1:]
	} else {
		out.IPs = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	for _, a := range r.addrs {
		ip := net.ParseIP(a)
		if ip == nil {
			return out, c.usagef("flag -additional-ipaddress must be an IP address, got %.60q", a)
		}
		out.IPs = append(out.IPs, ip)
	}
	return out, nil
}

// createCerts creates the certificates of all roles, or none.
func (c *call) createCerts(r *certRequest) error {
	r.ca = cmp.Or(r.ca, r.domain+"-agent-ca.pem")
	r.key = cmp.Or(r.key, r.domain+"-agent-ca-key.pem")
	// All requests are checked before the CA's key is read.
	var requests []certs.Request
	for _, role := range r.roles {
		request, err := r.issue(c, role)
		if err != nil {
			return err
		}
		requests = append(requests, request)
	}
	a, err := c.readAuthority(r.ca, r.key)
	if err != nil {
		return err
	}
	var out []keyPair
	for i, role := range r.roles {
		// A certificate is useless once its CA has expired.
		if requests[i].Life.To.After(a.Cert.NotAfter) {
			return berth.Errorf(berth.Invalid, "the CA in %s expires on %s, before the certificate would: use fewer -days",
				r.ca, a.Cert.NotAfter.UTC().Format("2006-01-02"))
		}
		cert, key, err := a.Issue(requests[i])
		if err != nil {
			return berth.Errorf(berth.Invalid, "the CA in %s: %w", r.ca, err)
		}
		out = append(out, keyPair{role.title, r.file(role), cert, key})
		if role.name == "server" {
			fmt.Fprintln(c.Err, "==> WARNING: anyone who has a server certificate can read and change everything in the cluster. Keep it on servers.")
		}
		if r.domain != "nomad" {
			fmt.Fprintf(c.Err, "==> WARNING: agents only accept names that end with nomad, and %s does not.\n", requests[i].Name)
		}
	}
	fmt.Fprintf(c.Out, "==> Using CA file %s and CA key %s\n", r.ca, r.key)
	if err := c.saveCerts(out...); err != nil {
		return err
	}
	if r.domain != "nomad" {
		return nil
	}
	return c.showUse(r)
}

// showUse shows how each of the certificates is used.
func (c *call) showUse(r *certRequest) error {
	p := c.page()
	// An agent is started in another directory than this.
	dir, err := filepath.Abs(c.path("."))
	if err != nil {
		return err
	}
	at := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	ca := at(r.ca)
	for _, role := range r.roles {
		file := at(r.file(role))
		p.linef("")
		if role.name == "cli" {
			p.linef("# Environment of a user:")
			p.linef("export BERTH_ADDR=https://127.0.0.1:4646")
			p.linef("export BERTH_CACERT=%s", ca)
			p.linef("export BERTH_CLIENT_CERT=%s.pem", file)
			p.linef("export BERTH_CLIENT_KEY=%s-key.pem", file)
			continue
		}
		p.linef("# Agent configuration of a %s:", role.name)
		p.linef("tls {")
		p.linef("  http                = true")
		p.linef("  rpc                 = true")
		p.linef("  ca_file             = %q", ca)
		p.linef("  cert_file           = %q", file+".pem")
		p.linef("  key_file            = %q", file+"-key.pem")
		p.linef("  verify_https_client = true")
		p.linef("}")
	}
	return c.show(p)
}

// readAuthority returns the CA of two PEM files. It fails if the key does not
// belong to the certificate.
func (c *call) readAuthority(ca, key string) (*certs.Authority, error) {
	cert, err := os.ReadFile(c.path(ca))
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%w (set the file with -ca, or create a CA with \"tls ca create\")", err)
	}
	secret, err := os.ReadFile(c.path(key))
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%w (set the file with -key)", err)
	}
	a, err := certs.ReadAuthority(cert, secret)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s and %s: %w", ca, key, err)
	}
	return a, nil
}

// tlsCertInfoCommand shows a certificate.
func tlsCertInfoCommand() *command {
	return &command{
		name: "tls cert info", args: "<certificate file>", synopsis: "Show a certificate", min: 1, max: 1, local: true,
		example: "tls cert info global-server-nomad.pem",
		help:    "Shows the certificate of a server, an agent or a user.",
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				cert, err := c.readCert(c.args[0])
				if err != nil {
					return err
				}
				return c.showCert(cert, "DNS Names", fmt.Sprint(cert.DNSNames), "IP Addresses", fmt.Sprint(cert.IPAddresses))
			}
		},
	}
}
