package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth"
	"berth/internal/wire/certs"
)

// TLS configures how agent and caller authenticate each other over https. All
// files are PEM.
type TLS struct {
	CACert     string // file of trusted CAs
	CAPath     string // directory of such files, if CACert is empty; without either, the system's CAs are trusted
	ClientCert string // the caller's certificate
	ClientKey  string
	ServerName string // name that the agent's certificate must have; "" is the host of the address
	SkipVerify bool   // skip certificate verification (insecure)
}

// check returns an error for settings that would have no effect, so that nobody
// relies on protection that is not there.
func (t TLS) check(base string) error {
	if t == (TLS{}) || strings.HasPrefix(base, "https:") {
		return nil
	}
	return berth.Errorf(berth.Invalid, "TLS is configured, but the address %q does not begin with https", berth.Clip(base, 128))
}

// config returns the TLS configuration of the transport.
func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	if (t.ClientCert == "") != (t.ClientKey == "") {
		return nil, berth.Errorf(berth.Invalid, "a client's certificate and its key are both needed, or neither")
	}
	if t.ClientCert != "" {
		own, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
		if err != nil {
			return nil, berth.Errorf(berth.Invalid, "client certificate %s, key %s: %w", t.ClientCert, t.ClientKey, err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	roots, err := t.roots()
	c.RootCAs = roots
	return c, err
}

// roots returns the trusted CAs, nil for the system's.
func (t TLS) roots() (*x509.CertPool, error) {
	files := []string{t.CACert}
	if t.CACert == "" {
		if t.CAPath == "" {
			return nil, nil
		}
		var err error
		if files, err = filesIn(t.CAPath); err != nil {
			return nil, berth.Errorf(berth.Invalid, "authorities: %w", err)
		}
	}
	pool := x509.NewCertPool()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, berth.Errorf(berth.Invalid, "authority: %w", err)
		}
		all, err := certs.Parse(text)
		if err != nil {
			return nil, berth.Errorf(berth.Invalid, "authority %s: %w", f, err)
		}
		for _, c := range all {
			pool.AddCert(c)
		}
	}
	return pool, nil
}

// filesIn returns all files below a directory. A directory without files is an
// error: a CA path that trusts nobody is a mistake.
func filesIn(dir string) (all []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err == nil && all == nil {
		err = fmt.Errorf("no file is in %s", dir)
	}
	return all, err
}

// distrust returns a readable reason why the TLS handshake failed, "" if err is
// about something else.
func distrust(err error) string {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(e.UnverifiedCertificates) > 0 {
		leaf := e.UnverifiedCertificates[0]
		return fmt.Sprintf("cannot be believed: its certificate is %s, signed by %.80q", certs.Describe(leaf), leaf.Issuer.CommonName)
	}
	switch text := err.Error(); {
	case strings.Contains(text, "tls: certificate required"):
		return "requires a client certificate"
	case strings.Contains(text, "remote error: tls: bad certificate"):
		return "takes no calls with this certificate, or wants one"
	}
	return ""
}
