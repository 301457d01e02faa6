package cli

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"strings"

	"berth"
	"berth/internal/wire/certs"
)

// lifeMost is the longest validity of a certificate in days.
const lifeMost = 100 * 365

// tlsCACreateCommand creates a CA for the certificates of agents.
func tlsCACreateCommand() *command {
	return &command{
		name: "tls ca create", synopsis: "Create a certificate authority for agents", local: true,
		example: "tls ca create -days 3650",
		help: `Creates a self-signed CA with a new ECDSA P-256 key, and writes nomad-agent-ca.pem and nomad-agent-ca-key.pem to the current
			directory. With -domain, the files are named after the domain. Existing files are not overwritten. Every agent needs the
			certificate. Do not copy the key to agents: anyone who has it can impersonate any agent or server.`,
		setup: func(f *flags) action {
			days := f.Int("days", 1825, "The number of `days` for which the CA is valid.")
			domain := f.FlagSet.String("domain", "nomad", "The `domain` after which the files are named. With -name-constraint, all names must end with it.")
			constrain := f.Bool("name-constraint", "Restrict the CA to names in the domain, in -additional-domain, and to localhost.")
			domains := f.List("additional-domain", "Another `domain` that names may end with. Requires -name-constraint. Can be repeated.")
			name := f.FlagSet.String("common-name", "Berth Agent CA", "The common `name` of the CA. Its serial number is appended.")
			var subject [7]*string
			for i, n := range []string{"country", "postal-code", "province", "locality", "street-address", "organization", "organizational-unit"} {
				subject[i] = f.String(n, "The `"+strings.ReplaceAll(n, "-", " ")+"` in the CA's subject.")
			}
			return func(_ context.Context, c *call) error {
				if len(*domains) > 0 && !*constrain {
					return c.usagef("-additional-domain requires -name-constraint")
				}
				if err := c.checkDays(*days); err != nil {
					return err
				}
				var allowed []string
				if *constrain {
					allowed = append([]string{*domain, "localhost"}, *domains...)
				}
				// The domain is part of file names, so it must not have a
				// slash.
				for _, d := range append([]string{*domain}, *domains...) {
					if !isDomain(d) {
						return c.usagef("%.100q is not a valid domain", d)
					}
				}
				// An empty part must be absent from the subject, not empty.
				some := func(i int) []string {
					if *subject[i] == "" {
						return nil
					}
					return []string{*subject[i]}
				}
				_, cert, key, err := certs.NewAuthority(pkix.Name{
					CommonName: *name, Country: some(0), PostalCode: some(1), Province: some(2), Locality: some(3), StreetAddress: some(4),
					Organization: some(5), OrganizationalUnit: some(6),
				}, certs.Days(c.Now(), *days), allowed)
				if err != nil {
					return err
				}
				return c.saveCerts(keyPair{"CA Certificate", *domain + "-agent-ca", cert, key})
			}
		},
	}
}

// checkDays returns a usage error for a validity that is not between 1 and
// lifeMost days.
func (c *call) checkDays(n int) error {
	if n < 1 || n > lifeMost {
		return c.usagef("flag -days must be between 1 and %[2]d, got %[1]d", n, lifeMost)
	}
	return nil
}

// isDomain reports whether s can be part of a certificate's name and of a file
// name.
func isDomain(s string) bool {
	for _, label := range strings.Split(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(s) <= 200
}

// keyPair is a certificate and its key, in PEM.
type keyPair struct {
	title, file string
	cert, key   []byte
}

// saveCerts writes certificates and their keys to new files, or nothing if one
// of the files exists.
func (c *call) saveCerts(pairs ...keyPair) error {
	for _, p := range pairs {
		// All files are checked before the first is written.
		for _, name := range []string{p.file + "-key.pem", p.file + ".pem"} {
			if _, err := os.Lstat(c.path(name)); err == nil {
				return berth.Errorf(berth.Invalid, "%s already exists; nothing was written", name)
			}
		}
	}
	out := c.page()
	for _, p := range pairs {
		// Only the owner may read the key.
		if err := c.saveNew(p.file+"-key.pem", p.key, 0o600); err != nil {
			return err
		}
		if err := c.saveNew(p.file+".pem", p.cert, 0o644); err != nil {
			return err
		}
		out.linef("==> %s saved to: %s.pem", p.title, p.file)
		out.linef("==> %s key saved to: %s-key.pem", p.title, p.file)
	}
	return c.show(out)
}

// saveNew writes a file, whose name is relative to the program's directory. It
// fails if the file exists.
func (c *call) saveNew(name string, text []byte, mode os.FileMode) error {
	if err := writeNewMode(c.path(name), text, mode); err != nil {
		return berth.Errorf(berth.Invalid, "write %s: %w", name, err)
	}
	return nil
}

// writeNewMode creates a file with mode and has it written to disk before it
// returns: a lost CA key cannot be made again.
func writeNewMode(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// tlsCAInfoCommand shows a CA.
func tlsCAInfoCommand() *command {
	return &command{
		name: "tls ca info", args: "<CA file>", synopsis: "Show a certificate authority", min: 1, max: 1, local: true,
		example: "tls ca info nomad-agent-ca.pem",
		help:    "Shows the certificate of a CA.",
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				cert, err := c.readCert(c.args[0])
				if err != nil {
					return err
				}
				if !cert.IsCA {
					return berth.Errorf(berth.Invalid, "%s is not a CA certificate: see \"tls cert info\"", c.args[0])
				}
				return c.showCert(cert, "Permitted DNS Domains", fmt.Sprint(cert.PermittedDNSDomains))
			}
		},
	}
}

// readCert returns the first certificate of a PEM file.
func (c *call) readCert(name string) (*x509.Certificate, error) {
	text, err := os.ReadFile(c.path(name))
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%w", err)
	}
	all, err := certs.Parse(text)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: %w", name, err)
	}
	return all[0], nil
}

// showCert shows what all certificates have in common, and more.
func (c *call) showCert(cert *x509.Certificate, more ...string) error {
	p := c.page()
	p.pairs(append([]string{
		"Serial Number", cert.SerialNumber.String(), "Issuer CN", cert.Issuer.CommonName, "Common Name", cert.Subject.String(),
		"Expiry Date", cert.NotAfter.UTC().String(),
	}, more...)...)
	return c.show(p)
}
