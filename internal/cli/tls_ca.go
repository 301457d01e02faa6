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

// lifeMost is how many days a certificate may be good for.
const lifeMost = 100 * 365

// tlsCACreateCommand makes an authority for the certificates of agents.
func tlsCACreateCommand() *command {
	return &command{
		name: "tls ca create", synopsis: "Make an authority for the certificates of agents", local: true,
		help: `Makes an authority that signs itself, with a new key (ECDSA P-256), and writes nomad-agent-ca.pem and nomad-agent-ca-key.pem to the
			folder it is called in, or files named for another -domain. Files that are there are left as they are. Every agent needs the first; whoever has the second can be any agent and any server, so keep it off them.`,
		setup: func(f *flags) action {
			days := f.Int("days", 1825, "How many `days` the authority is good for.")
			domain := f.FlagSet.String("domain", "nomad", "The `domain` that files are named for and, with -name-constraint, all names end with.")
			constrain := f.Bool("name-constraint", "Let the authority sign for names in the domain, in those of -additional-domain, and localhost alone.")
			domains := f.List("additional-domain", "Another `domain` that names may end with; may be given many times, with -name-constraint.")
			name := f.FlagSet.String("common-name", "Berth Agent CA", "The `name` of the authority. Its serial number is put behind it.")
			var subject [7]*string
			for i, n := range []string{"country", "postal-code", "province", "locality", "street-address", "organization", "organizational-unit"} {
				subject[i] = f.String(n, "The `"+strings.ReplaceAll(n, "-", " ")+"` of whoever runs the authority.")
			}
			return func(_ context.Context, c *call) error {
				if len(*domains) > 0 && !*constrain {
					return c.usagef("the flag -additional-domain needs -name-constraint")
				}
				if err := c.checkDays(*days); err != nil {
					return err
				}
				var allowed []string
				if *constrain {
					allowed = append([]string{*domain, "localhost"}, *domains...)
				}
				for _, d := range append([]string{*domain}, *domains...) {
					if !isDomain(d) {
						return c.usagef("%.100q is not a domain", d)
					}
				}
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
				return c.saveCert("CA Certificate", *domain+"-agent-ca", cert, key)
			}
		},
	}
}

func (c *call) checkDays(n int) error {
	if n < 1 || n > lifeMost {
		return c.usagef("the flag -days: %d is out of range; allowed are 1 to %d", n, lifeMost)
	}
	return nil
}

// isDomain says whether s can be part of a name in a certificate, and of a file.
func isDomain(s string) bool {
	for _, label := range strings.Split(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(s) <= 200
}

// saveCert writes a certificate and its key, neither over a file that is there.
func (c *call) saveCert(what, name string, cert, key []byte) error {
	files := []struct {
		name, what string
		text       []byte
		mode       os.FileMode
	}{{name + "-key.pem", what + " key", key, 0o600}, {name + ".pem", what, cert, 0o644}}
	for _, f := range files {
		if _, err := os.Lstat(c.path(f.name)); err == nil {
			return berth.Errorf(berth.Invalid, "%s is there already; nothing was written", f.name)
		}
	}
	for _, f := range files {
		if err := writeNewMode(c.path(f.name), f.text, f.mode); err != nil {
			return berth.Errorf(berth.Invalid, "write %s: %w", f.name, err)
		}
	}
	p := c.page()
	p.linef("==> %s saved to: %s", files[1].what, files[1].name)
	p.linef("==> %s saved to: %s", files[0].what, files[0].name)
	return c.show(p)
}

func writeNewMode(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// tlsCAInfoCommand shows an authority.
func tlsCAInfoCommand() *command {
	return &command{
		name: "tls ca info", args: "<CA file>", synopsis: "Show an authority", min: 1, max: 1, local: true,
		help: "Shows what the certificate of an authority says.",
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				cert, err := c.readCert(c.args[0])
				if err != nil {
					return err
				}
				if !cert.IsCA {
					return berth.Errorf(berth.Invalid, "%s is not the certificate of an authority: see tls cert info", c.args[0])
				}
				return c.showCert(cert, "Permitted DNS Domains", fmt.Sprint(cert.PermittedDNSDomains))
			}
		},
	}
}

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

// showCert shows what certificates have in common, and more.
func (c *call) showCert(cert *x509.Certificate, more ...string) error {
	p := c.page()
	p.pairs(append([]string{
		"Serial Number", cert.SerialNumber.String(), "Issuer CN", cert.Issuer.CommonName, "Common Name", cert.Subject.String(),
		"Expiry Date", cert.NotAfter.UTC().String(),
	}, more...)...)
	return c.show(p)
}
