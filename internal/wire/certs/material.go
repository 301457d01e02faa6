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

// Options configure an agent's certificate and the authorities it trusts.
type Options struct {
	// Files, in PEM. CA may hold several authorities; Cert may hold intermediate
	// certificates. Without CA no other agent's certificate is accepted.
	CA, Cert, Key string

	// CheckNames is whether the certificate of a dialed agent must have the
	// expected name. The chain is checked in any case.
	CheckNames bool

	// For the HTTP API: whether callers need a certificate, and the lowest TLS
	// version, tls.VersionTLS13 if 0. Between agents it is always 1.3.
	VerifyHTTPS bool
	MinHTTPS    uint16
}

// Material holds the certificates of an agent. The tls.Configs made from it
// always use the certificates that were loaded last. It is safe for concurrent
// use.
type Material struct {
	options Options
	now     atomic.Pointer[files] // loaded last
}

// files is the content of the files when they were read.
type files struct {
	own   tls.Certificate   // with its key and intermediate certificates
	leaf  *x509.Certificate // the first of own
	roots *x509.CertPool    // nil: no authority is trusted
	ca    string            // path of the roots
}

// Load reads the files.
func Load(o Options) (*Material, error) {
	m := &Material{options: o}
	return m, m.Reload()
}

// Reload reads the files again. After an error the previous certificates stay in
// use. Open connections are not affected.
func (m *Material) Reload() error {
	f, err := read(m.options)
	if err != nil {
		return err
	}
	m.now.Store(f)
	return nil
}

// Leaf returns the agent's own certificate.
func (m *Material) Leaf() *x509.Certificate { return m.now.Load().leaf }

// fileMost is the size limit of a certificate file, in bytes.
const fileMost = 1 << 20

// readFile returns the content of a file of at most fileMost bytes. what is its
// name in the configuration, for errors.
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

// read reads all files and checks that they belong together: the key to the
// certificate, and the certificate to an authority.
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
	// An agent whose own certificate its peers cannot accept fails now, not at
	// its first connection.
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
	// The dates are not checked here: a certificate may become valid later.
	if err := f.check(chain, x509.ExtKeyUsageAny, "", f.leaf.NotBefore.Add(time.Second)); err != nil {
		return nil, fmt.Errorf("cert_file: %s: %w", o.Cert, err)
	}
	return f, nil
}

// Pool returns the authorities in a PEM text. There must be at least one.
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

// Parse returns the certificates in a PEM text. There must be at least one. Other
// blocks are skipped.
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
		return nil, errors.New("contains no PEM certificate")
	}
	return all, nil
}

// check verifies the chain of a peer's certificates. name may be empty.
func (f *files) check(chain []*x509.Certificate, usage x509.ExtKeyUsage, name string, now time.Time) error {
	switch {
	case len(chain) == 0:
		return errors.New("the peer has no certificate")
	case f.roots == nil: // Verify would use the roots of the system
		return errors.New("ca_file is missing: no authority is trusted")
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: f.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
	// The library's texts name neither the certificate nor what to do, so the
	// common mistakes get their own.
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
		return fmt.Errorf("the certificate is %s: it is signed by %.80q, which is not an authority in %s (ca_file)", Describe(leaf), leaf.Issuer.CommonName, f.ca)
	default:
		return fmt.Errorf("the certificate is %s: %w", Describe(leaf), err)
	}
	if name != "" && !hasName(leaf, name) {
		return fmt.Errorf("the certificate is %s: want %s", Describe(leaf), name)
	}
	return nil
}

// Warnings returns warnings about the dates of the agent's own certificate.
func (m *Material) Warnings(now time.Time) []string {
	leaf := m.Leaf()
	switch left := leaf.NotAfter.Sub(now); {
	case now.Before(leaf.NotBefore):
		return []string{fmt.Sprintf("tls: the certificate in %s is not valid before %s", m.options.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))}
	case left < 0:
		return []string{fmt.Sprintf("tls: the certificate in %s expired at %s and is not accepted any more", m.options.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))}
	case left < 14*24*time.Hour:
		return []string{fmt.Sprintf("tls: the certificate in %s expires at %s", m.options.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))}
	}
	return nil
}

// Session tickets are off: a resumed connection would not be checked against
// certificates loaded since. There are few connections, so resuming saves little.
func (m *Material) base() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &m.now.Load().own, nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.now.Load().own, nil },
	}
}

// Accept returns a configuration for incoming connections of agents: each must
// show a certificate of a trusted authority.
func (m *Material) Accept() *tls.Config {
	c := m.base()
	m.wantClient(c)
	return c
}

// wantClient makes a configuration require a certificate of the client. Its
// chain is checked against the roots loaded last.
func (m *Material) wantClient(c *tls.Config) {
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(s tls.ConnectionState) error {
		return m.now.Load().check(s.PeerCertificates, x509.ExtKeyUsageClientAuth, "", time.Now())
	}
}

// Dial returns a configuration for connections to agents. The caller sets
// ServerName to the name that the far end must have.
func (m *Material) Dial() *tls.Config {
	c := m.base()
	c.InsecureSkipVerify = true // VerifyConnection verifies, with the certificates loaded last
	c.VerifyConnection = func(s tls.ConnectionState) error {
		name := s.ServerName
		if !m.options.CheckNames {
			name = ""
		} else if name == "" {
			return errors.New("ServerName is missing: the far end cannot be checked")
		}
		return m.now.Load().check(s.PeerCertificates, x509.ExtKeyUsageServerAuth, name, time.Now())
	}
	return c
}

// HTTPS returns a configuration for the HTTP API. It allows HTTP/1.1 only, so
// that the limit of connections is also one of requests. Where it requires a
// certificate, that of a client agent is refused: it is for RPC alone.
func (m *Material) HTTPS() *tls.Config {
	c := m.base()
	c.NextProtos = []string{"http/1.1"}
	if m.options.MinHTTPS != 0 {
		c.MinVersion = m.options.MinHTTPS
	}
	if m.options.VerifyHTTPS {
		m.wantClient(c)
		trusted := c.VerifyConnection
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if err := trusted(s); err != nil {
				return err
			}
			if leaf := s.PeerCertificates[0]; onlyNode(leaf) {
				return fmt.Errorf("the certificate is %s: that of a client agent does not open the HTTP API", Describe(leaf))
			}
			return nil
		}
	}
	return c
}

// Roles checks that the agent's own certificate has the role that its peers will
// require: server of the region, or for a client either role.
func (m *Material) Roles(region string, server bool) error {
	wanted := []string{ClientName(region), ServerName(region)}
	if server {
		wanted = wanted[1:]
	}
	leaf := m.Leaf()
	if slices.ContainsFunc(wanted, func(name string) bool { return hasName(leaf, name) }) {
		return nil
	}
	return fmt.Errorf("the certificate in %s is %s: want %s", m.options.Cert, Describe(leaf), wanted[0])
}
