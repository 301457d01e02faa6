package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Options say what an agent proves itself with, and whom it believes.
type Options struct {
	// Files, in PEM. CA may hold several authorities, Cert those between it and
	// them. Without CA nobody else's certificate is taken.
	CA, Cert, Key string

	// CheckNames is whether those who are dialled must have the name that is
	// wanted of them. The chain is checked in any case.
	CheckNames bool

	// Of the HTTP API: whether people must show a certificate, and the least
	// version, tls.VersionTLS13 if 0. Between agents it is always 1.3.
	VerifyHTTPS bool
	MinHTTPS    uint16
}

// Material is the certificates of an agent. What it was made into goes on to
// use the newest that were read. It is safe for use by many goroutines.
type Material struct {
	options Options
	now     atomic.Pointer[files]
}

// files are what stood in the files at one time.
type files struct {
	own   tls.Certificate
	leaf  *x509.Certificate
	roots *x509.CertPool
	ca    string // where the roots stood
}

// Load reads the files.
func Load(o Options) (*Material, error) {
	m := &Material{options: o}
	return m, m.Reload()
}

// Reload reads the files again. If something is wrong with them, what was read
// before stays. Connections that are open stay as they are.
func (m *Material) Reload() error {
	f, err := read(m.options)
	if err != nil {
		return err
	}
	m.now.Store(f)
	return nil
}

// Leaf is the agent's own certificate.
func (m *Material) Leaf() *x509.Certificate { return m.now.Load().leaf }

// fileMost is how large a file of certificates may be.
const fileMost = 1 << 20

func readFile(what, path string) ([]byte, error) {
	if path == "" {
		return nil, fmt.Errorf("%s is missing", what)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileMost+1))
	if err == nil && len(text) > fileMost {
		err = fmt.Errorf("more than %d bytes", fileMost)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", what, path, err)
	}
	return text, nil
}

func read(o Options) (*files, error) {
	f := &files{ca: o.CA}
	if o.CA != "" {
		authorities, err := readFile("ca_file", o.CA)
		if err != nil {
			return nil, err
		}
		if f.roots, err = Pool(authorities); err != nil {
			return nil, fmt.Errorf("ca_file: %s: %w", o.CA, err)
		}
	}
	cert, err := readFile("cert_file", o.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readFile("key_file", o.Key)
	if err != nil {
		return nil, err
	}
	if f.own, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("cert_file %s and key_file %s: %w", o.Cert, o.Key, err)
	}
	f.leaf = f.own.Leaf
	chain := []*x509.Certificate{f.leaf}
	for _, der := range f.own.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("cert_file: %s: %w", o.Cert, err)
		}
		chain = append(chain, c)
	}
	if f.roots == nil {
		return f, nil
	}
	// Whether its time has come is for others to judge: it may yet.
	if err := f.check(chain, x509.ExtKeyUsageAny, "", f.leaf.NotBefore.Add(time.Second)); err != nil {
		return nil, fmt.Errorf("cert_file: %s: %w", o.Cert, err)
	}
	return f, nil
}

// Pool returns the authorities in a PEM text, of which there must be one at
// least.
func Pool(text []byte) (*x509.CertPool, error) {
	all, err := Parse(text)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool, nil
}

// Parse returns the certificates in a PEM text, of which there must be one at
// least. Other blocks are passed over.
func Parse(text []byte) (all []*x509.Certificate, err error) {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	if all == nil {
		return nil, errors.New("no certificate in PEM is in it")
	}
	return all, nil
}

// check says what is wrong with a chain that somebody shows, if anything. name
// may be empty.
func (f *files) check(chain []*x509.Certificate, usage x509.ExtKeyUsage, name string, now time.Time) error {
	switch {
	case len(chain) == 0:
		return errors.New("no certificate is shown")
	case f.roots == nil: // which would mean those of the system
		return errors.New("ca_file is missing: no authority is believed")
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: f.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case err == nil:
	case isInvalid && invalid.Reason == x509.Expired && now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is %s: it is not valid before %s", Describe(leaf), leaf.NotBefore.UTC().Format(time.RFC3339))
	case isInvalid && invalid.Reason == x509.Expired && now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate is %s: it expired at %s", Describe(leaf), leaf.NotAfter.UTC().Format(time.RFC3339))
	case isInvalid && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("the certificate is %s: its key usage does not allow this side of a connection", Describe(leaf))
	case isUnknown:
		return fmt.Errorf("the certificate is %s: it is signed by %.80q, which is none of the authorities in %s (ca_file)", Describe(leaf), leaf.Issuer.CommonName, f.ca)
	default:
		return fmt.Errorf("the certificate is %s: %w", Describe(leaf), err)
	}
	if name != "" && !hasName(leaf, name) {
		return fmt.Errorf("the certificate is %s: wanted is %s", Describe(leaf), name)
	}
	return nil
}

// Warnings says what an operator should know of the agent's own certificate.
func (m *Material) Warnings(now time.Time) []string {
	leaf := m.Leaf()
	switch left := leaf.NotAfter.Sub(now); {
	case now.Before(leaf.NotBefore):
		return []string{fmt.Sprintf("tls: the certificate in %s is not valid before %s", m.options.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))}
	case left < 0:
		return []string{fmt.Sprintf("tls: the certificate in %s expired at %s; nobody takes it", m.options.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))}
	case left < 14*24*time.Hour:
		return []string{fmt.Sprintf("tls: the certificate in %s expires at %s", m.options.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))}
	}
	return nil
}

// A connection that is taken up again by a ticket would not be checked by what
// was read since. Connections between agents are few and long, and those of
// people few.
func (m *Material) base() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &m.now.Load().own, nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.now.Load().own, nil },
	}
}

// Accept is for connections of agents: each must show a certificate of an
// authority.
func (m *Material) Accept() *tls.Config {
	c := m.base()
	m.wantClient(c)
	return c
}

func (m *Material) wantClient(c *tls.Config) {
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(s tls.ConnectionState) error {
		return m.now.Load().check(s.PeerCertificates, x509.ExtKeyUsageClientAuth, "", time.Now())
	}
}

// Dial is for connections to agents. Whoever dials sets ServerName to what the
// far end must be.
func (m *Material) Dial() *tls.Config {
	c := m.base()
	c.InsecureSkipVerify = true // VerifyConnection does it, with what was read last
	c.VerifyConnection = func(s tls.ConnectionState) error {
		name := s.ServerName
		if !m.options.CheckNames {
			name = ""
		} else if name == "" {
			return errors.New("nobody said what the far end must be")
		}
		return m.now.Load().check(s.PeerCertificates, x509.ExtKeyUsageServerAuth, name, time.Now())
	}
	return c
}

// HTTPS is for the HTTP API. It speaks HTTP/1.1 alone, so that what bounds
// connections bounds requests.
func (m *Material) HTTPS() *tls.Config {
	c := m.base()
	c.NextProtos = []string{"http/1.1"}
	if m.options.MinHTTPS != 0 {
		c.MinVersion = m.options.MinHTTPS
	}
	if m.options.VerifyHTTPS {
		m.wantClient(c)
	}
	return c
}

// Roles checks that the agent's own certificate says what others will want of
// it: that of a server of the region, or at least that of an agent.
func (m *Material) Roles(region string, server bool) error {
	wanted := []string{ClientName(region), ServerName(region)}
	if server {
		wanted = wanted[1:]
	}
	leaf := m.Leaf()
	if slices.ContainsFunc(wanted, func(name string) bool { return hasName(leaf, name) }) {
		return nil
	}
	return fmt.Errorf("the certificate in %s is %s: wanted is %s", m.options.Cert, Describe(leaf), wanted[0])
}
