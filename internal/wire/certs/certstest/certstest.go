// Package certstest creates authorities and certificates for tests, in the
// temporary folder of the test.
package certstest

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/wire/certs"
)

// CA is an authority of a test.
type CA struct {
	t    testing.TB
	dir  string
	a    *certs.Authority
	File string // its certificate
}

// New makes an authority.
func New(t testing.TB) *CA {
	t.Helper()
	a, cert, _, err := certs.NewAuthority(pkix.Name{CommonName: "Test CA"}, certs.Life{From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(24 * time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ca := &CA{t: t, dir: t.TempDir(), a: a}
	ca.File = ca.write("ca.pem", cert)
	return ca
}

// write writes a file into the folder and returns its path.
func (ca *CA) write(name string, text []byte) string {
	ca.t.Helper()
	path := filepath.Join(ca.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		ca.t.Fatal(err)
	}
	return path
}

// Files are the paths of a certificate, its key and its authority.
type Files struct{ CA, Cert, Key string }

// Issue creates a certificate with the name, valid for an hour.
func (ca *CA) Issue(name string) Files {
	ca.t.Helper()
	return ca.IssueFor(name, certs.Life{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
}

// IssueFor creates a certificate with the name and validity. It replaces an
// earlier one with the same name.
func (ca *CA) IssueFor(name string, life certs.Life) Files {
	ca.t.Helper()
	cert, key, err := ca.a.Issue(certs.Request{
		Name: name, Names: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Life: life,
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		ca.t.Fatal(err)
	}
	return Files{ca.File, ca.write(name+".pem", cert), ca.write(name+"-key.pem", key)}
}

// Material loads the files, with CheckNames.
func (f Files) Material(t testing.TB) *certs.Material {
	t.Helper()
	m, err := certs.Load(certs.Options{CA: f.CA, Cert: f.Cert, Key: f.Key, CheckNames: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
