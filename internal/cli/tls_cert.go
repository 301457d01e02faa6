package cli

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"

	"berth"
	"berth/internal/wire/certs"
)

// tlsCertCreateCommand makes the certificate of an agent or a person.
func tlsCertCreateCommand() *command {
	return &command{
		name: "tls cert create", synopsis: "Make the certificate of a server, an agent or a person", local: true,
		help: `Makes a key (ECDSA P-256) and a certificate for it, signed by the authority that "tls ca create" made, and writes them to the folder it is
			called in: global-server-nomad.pem and global-server-nomad-key.pem with -server, and the like with -client and -cli. Files that are there are left as they are.

			The name in a certificate says who its holder is: server.<region>.nomad may be a server of the region, client.<region>.nomad an agent that runs jobs, cli.<region>.nomad
			a person who calls the HTTP API.`,
		setup: func(f *flags) action {
			server := f.Bool("server", "Make the certificate of a server.")
			client := f.Bool("client", "Make the certificate of an agent that runs jobs.")
			person := f.Bool("cli", "Make the certificate of a person.")
			region := f.String("region", "The `region` of whoever holds the certificate; global if nothing is said.")
			cluster := f.String("cluster-region", "The `region`, as -region says it.")
			domain := f.FlagSet.String("domain", "nomad", "The `domain` that the name ends with, and the authority's files are named for. Agents go by names that end with nomad.")
			days := f.Int("days", 365, "How many `days` the certificate is good for.")
			names := f.List("additional-dnsname", "Another `name` of the certificate; may be given many times. localhost is always there.")
			addrs := f.List("additional-ipaddress", "An `address` of the certificate; may be given many times. 127.0.0.1 is always there, except with -cli.")
			ca := f.String("ca", "The `file` of the authority; <domain>-agent-ca.pem if nothing is said.")
			key := f.String("key", "The `file` of the authority's key; <domain>-agent-ca-key.pem if nothing is said.")
			return func(_ context.Context, c *call) error {
				r := certRequest{domain: *domain, region: *region, days: *days, names: *names, addrs: *addrs, ca: *ca, key: *key}
				for role, chosen := range map[string]bool{"server": *server, "client": *client, "cli": *person} {
					switch {
					case chosen && r.role != "":
						return c.usagef("one of -server, -client and -cli is wanted, not more")
					case chosen:
						r.role = role
					}
				}
				switch {
				case r.role == "":
					return c.usagef("one of -server, -client and -cli is wanted")
				case r.region != "" && *cluster != "" && r.region != *cluster:
					return c.usagef("the flags -region and -cluster-region say different things")
				case r.region == "":
					r.region = *cluster
				}
				if r.region == "" {
					r.region = "global"
				}
				return c.createCert(&r)
			}
		},
	}
}

// certRequest is what somebody asks of a certificate.
type certRequest struct {
	role, region, domain string
	days                 int
	names, addrs         []string
	ca, key              string
}

// issue turns it into what an authority needs.
func (r *certRequest) issue(c *call) (out certs.Request, err error) {
	if err := c.checkDays(r.days); err != nil {
		return out, err
	}
	for _, n := range append([]string{r.region, r.domain}, r.names...) {
		if !isDomain(strings.TrimPrefix(n, "*.")) {
			return out, c.usagef("%.100q is not a name that a certificate can have", n)
		}
	}
	out = certs.Request{
		Name: r.role + "." + r.region + "." + r.domain, Names: append([]string{"localhost"}, r.names...), Life: certs.Days(c.Now(), r.days),
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if r.role == "cli" {
		out.Usages = out.Usages[1:]
	} else {
		out.IPs = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	for _, a := range r.addrs {
		ip := net.ParseIP(a)
		if ip == nil {
			return out, c.usagef("the flag -additional-ipaddress: %.60q is not an IP address", a)
		}
		out.IPs = append(out.IPs, ip)
	}
	return out, nil
}

func (c *call) createCert(r *certRequest) error {
	wanted, err := r.issue(c)
	if err != nil {
		return err
	}
	if r.ca == "" {
		r.ca = r.domain + "-agent-ca.pem"
	}
	if r.key == "" {
		r.key = r.domain + "-agent-ca-key.pem"
	}
	a, err := c.readAuthority(r.ca, r.key)
	if err != nil {
		return err
	}
	if wanted.Life.To.After(a.Cert.NotAfter) {
		return berth.Errorf(berth.Invalid, "the authority in %s is good until %s, which is before the certificate ends; ask for fewer -days",
			r.ca, a.Cert.NotAfter.UTC().Format("2006-01-02"))
	}
	cert, key, err := a.Issue(wanted)
	if err != nil {
		return berth.Errorf(berth.Invalid, "the authority in %s: %w", r.ca, err)
	}
	if r.role == "server" {
		fmt.Fprintln(c.Err, "==> WARNING: whoever has a server's certificate can read and change everything in the cluster. Keep it on servers.")
	}
	if r.domain != "nomad" {
		fmt.Fprintf(c.Err, "==> WARNING: agents go by names that end with nomad; %s is none of them.\n", wanted.Name)
	}
	fmt.Fprintf(c.Out, "==> Using CA file %s and CA key %s\n", r.ca, r.key)
	what := map[string]string{"server": "Server Certificate", "client": "Client Certificate", "cli": "Cli Certificate"}[r.role]
	return c.saveCert(what, r.region+"-"+r.role+"-"+r.domain, cert, key)
}

func (c *call) readAuthority(ca, key string) (*certs.Authority, error) {
	cert, err := os.ReadFile(c.path(ca))
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%w (the flag -ca names another; \"tls ca create\" makes one)", err)
	}
	secret, err := os.ReadFile(c.path(key))
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%w (the flag -key names another)", err)
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
		help: "Shows what the certificate of a server, an agent or a person says.",
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
