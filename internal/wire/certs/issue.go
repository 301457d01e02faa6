package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// An Authority signs certificates. Anyone with its key can make any certificate.
type Authority struct {
	Cert *x509.Certificate
	key  crypto.Signer // nil until sign makes the authority's own
}

// Life is the time in which a certificate is valid.
type Life struct{ From, To time.Time }

// Days returns a life of n days. It begins five minutes before now, for clocks
// that are behind.
func Days(now time.Time, n int) Life {
	now = now.UTC().Truncate(time.Second)
	return Life{now.Add(-5 * time.Minute), now.AddDate(0, 0, n)}
}

// NewAuthority makes an authority that signs itself, and returns it with its
// certificate and key in PEM. The serial number is appended to the subject's
// common name, so that two authorities can be told apart. With domains, it can
// only sign names in these domains.
func NewAuthority(subject pkix.Name, life Life, domains []string) (a *Authority, cert, key []byte, err error) {
	serial, err := newSerial()
	if err != nil {
		return nil, nil, nil, err
	}
	subject.CommonName = fmt.Sprintf("%s %s", subject.CommonName, serial)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: life.From, NotAfter: life.To,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		PermittedDNSDomains: domains, PermittedDNSDomainsCritical: len(domains) > 0,
	}
	a = &Authority{Cert: template}
	cert, key, err = a.sign(template)
	return a, cert, key, err
}

// ReadAuthority returns the authority whose certificate and key are given in
// PEM.
func ReadAuthority(cert, key []byte) (*Authority, error) {
	all, err := Parse(cert)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	a := &Authority{Cert: all[0]}
	if !a.Cert.IsCA {
		return nil, fmt.Errorf("the certificate is %s: it is not a CA certificate", Describe(a.Cert))
	}
	b, _ := pem.Decode(key)
	if b == nil {
		return nil, errors.New("key: contains no PEM key")
	}
	if a.key, err = parseKey(b.Bytes); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if public, ok := a.key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(a.Cert.PublicKey) {
		return nil, fmt.Errorf("the key does not match the certificate %s", Describe(a.Cert))
	}
	return a, nil
}

// parseKey returns a private key in one of the three usual encodings.
func parseKey(der []byte) (crypto.Signer, error) {
	if k, err := x509.ParseECPrivateKey(der); err == nil {
		return k, nil
	}
	if k, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if s, ok := k.(crypto.Signer); ok {
			return s, nil
		}
	}
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k, nil
	}
	return nil, errors.New("unknown key format: want EC, PKCS #8 or PKCS #1, without a password")
}

// Request describes a certificate to issue.
type Request struct {
	Name   string   // the common name, and the first of the names
	Names  []string // more names
	IPs    []net.IP
	Life   Life
	Usages []x509.ExtKeyUsage // sides of a connection it is for
}

// Issue makes a key, signs a certificate for it, and returns both in PEM.
func (a *Authority) Issue(r Request) (cert, key []byte, err error) {
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	return a.sign(&x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: r.Name}, NotBefore: r.Life.From, NotAfter: r.Life.To,
		DNSNames: append([]string{r.Name}, r.Names...), IPAddresses: r.IPs, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: r.Usages,
	})
}

// sign makes a key for the template and signs it, an authority's own with that
// key itself.
func (a *Authority) sign(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if a.key == nil {
		a.key = private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	if a.Cert == template {
		a.Cert = signed
	}
	// Find out now whether the authority may sign this, not when it is used.
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	_, err = signed.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: signed.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return nil, nil, fmt.Errorf("the certificate would not be accepted: %w", err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", secret), nil
}

// encode returns a PEM block of that kind.
func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// newSerial draws a serial number of 126 bits.
func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
}
