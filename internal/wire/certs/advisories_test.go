package certs_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"berth/internal/wire/certs/certstest"
)

// C49, a row of docs/advisories.md: neither side speaks anything older than TLS 1.3, whatever the other offers,
// on the RPC port and on the HTTP port.
func TestAdvisory_C49_OnlyTLS13(t *testing.T) {
	ca := certstest.New(t)
	m := ca.Issue("server.global.nomad").Material(t)
	try := func(client, server *tls.Config) (c, s error) {
		near, far := net.Pipe()
		defer near.Close()
		ended := make(chan error, 1)
		go func() {
			defer far.Close()
			ended <- tls.Server(far, server).Handshake()
		}()
		x := tls.Client(near, client)
		if c = x.Handshake(); c == nil {
			x.Close()
		}
		near.Close()
		return c, <-ended
	}
	old := func(c *tls.Config, most uint16) *tls.Config {
		c = c.Clone()
		c.MinVersion, c.MaxVersion = tls.VersionTLS10, most
		c.InsecureSkipVerify, c.VerifyConnection, c.VerifyPeerCertificate = true, nil, nil
		c.GetConfigForClient = nil
		return c
	}
	for _, most := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12} {
		for what, server := range map[string]*tls.Config{"RPC": m.Accept(), "HTTPS": m.HTTPS()} {
			if _, err := try(old(m.Dial(), most), server); err == nil || err == io.EOF {
				t.Errorf("%s is served over %s: %v", what, tls.VersionName(most), err)
			}
		}
		if err, _ := try(m.Dial(), old(m.Accept(), most)); err == nil {
			t.Errorf("it dials over %s", tls.VersionName(most))
		}
	}
}
