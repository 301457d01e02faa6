package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"berth/internal/wire/certs"
	"berth/internal/wire/certs/certstest"
)

// What a certificate says depends on its names alone, and on the region of who
// looks.
func TestRoles(t *testing.T) {
	for _, c := range []struct {
		names, region, want string
		unnamed             string
	}{
		{"server.global.nomad", "global", "server", "server"},
		{"localhost server.global.nomad", "global", "server", "server"},
		{"SERVER.Global.Nomad", "global", "server", "server"},
		{"client.global.nomad", "global", "client", "client"},
		{"server.global.nomad client.global.nomad", "global", "server and client", "server and client"},
		{"server.eu.nomad", "global", "server of another region", "server of another region"},
		{"server.eu.nomad server.global.nomad", "global", "server and server of another region", "server and server of another region"},
		{"server.eu.west.nomad", "eu.west", "server", "server"},
		{"client.eu.nomad", "global", "none", "none"},
		{"cli.global.nomad", "global", "none", "none"},
		{"server.global.consul", "global", "none", "server"},
		{"xserver.global.nomad", "global", "none", "server"},
		{"server.nomad", "global", "none", "server"},
		{"*.global.nomad", "global", "none", "server"},
		{"localhost", "global", "none", "server"},
		{"", "global", "none", "server"},
	} {
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: "server.global.nomad"}, DNSNames: strings.Fields(c.names)}
		if got := certs.RoleOf(cert, c.region, false).String(); got != c.want {
			t.Errorf("%s in %s: %s, not %s", c.names, c.region, got, c.want)
		}
		if got := certs.RoleOf(cert, c.region, true).String(); got != c.unnamed {
			t.Errorf("%s in %s, names not checked: %s, not %s", c.names, c.region, got, c.unnamed)
		}
	}
}

// Each side says of the other's certificate what is wrong, and whose it is.
func TestRefusals(t *testing.T) {
	ca, other := certstest.New(t), certstest.New(t)
	now := time.Now()
	server := ca.Issue("server.global.nomad")
	for _, c := range []struct {
		name string
		far  certstest.Files
		want string // of who dials
	}{
		{"right", server, ""},
		{"client", ca.Issue("client.global.nomad"), `the certificate is "client.global.nomad", which has the names client.global.nomad, localhost, 127.0.0.1: want server.global.nomad`},
		{"other region", ca.Issue("server.eu.nomad"), `the certificate is "server.eu.nomad", which has the names server.eu.nomad, localhost, 127.0.0.1: want server.global.nomad`},
		{"expired", ca.IssueFor("server.old.nomad", certs.Life{From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)}),
			"which has the names server.old.nomad, localhost, 127.0.0.1: it expired at " + now.Add(-time.Hour).UTC().Format(time.RFC3339)},
		{"wrong authority", other.Issue("server.global.nomad"), `the certificate is "server.global.nomad", which has the names server.global.nomad, localhost, 127.0.0.1: it is signed by "Test CA`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dialling, _ := handshake(t, server.Material(t), c.far.Material(t))
			switch {
			case c.want == "" && dialling != nil, c.want != "" && (dialling == nil || !strings.Contains(dialling.Error(), c.want)):
				t.Errorf("%v", dialling)
			}
			_, accepting := handshake(t, c.far.Material(t), server.Material(t))
			if good := c.far.CA == server.CA && c.name != "expired"; good != (accepting == nil) {
				t.Errorf("who accepts says %v", accepting)
			}
		})
	}
}

// handshake returns what each side says to the other.
func handshake(t *testing.T, dialler, acceptor *certs.Material) (dialling, accepting error) {
	near, far := net.Pipe()
	defer near.Close()
	ended := make(chan error, 1)
	go func() {
		defer far.Close()
		s := tls.Server(far, acceptor.Accept())
		err := s.Handshake()
		if err == nil && s.ConnectionState().Version != tls.VersionTLS13 {
			t.Error("not TLS 1.3")
		}
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		ended <- err
	}()
	cfg := dialler.Dial()
	cfg.ServerName = certs.ServerName("global")
	c := tls.Client(near, cfg)
	dialling = c.Handshake()
	if dialling == nil {
		_, dialling = c.Read(make([]byte, 1))
	}
	near.Close()
	return dialling, <-ended
}

// A certificate is replaced while the agent runs; a bad one is not taken.
func TestReload(t *testing.T) {
	ca := certstest.New(t)
	files := ca.Issue("server.global.nomad")
	m := files.Material(t)
	accept := m.Accept()
	shown := func() string {
		own, err := accept.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return own.Leaf.SerialNumber.String()
	}
	first := shown()
	again := ca.Issue("server.global.nomad") // the same files
	if err := m.Reload(); err != nil || shown() == first {
		t.Fatalf("still the first: %v", err)
	}
	second := shown()
	stranger := certstest.New(t).Issue("server.global.nomad")
	for _, c := range []struct{ from, to, want string }{
		{stranger.Key, again.Key, "private key does not match"},
		{stranger.Cert, again.Cert, "which is not an authority in"},
		{"", again.Cert, "no such file"},
	} {
		text, err := os.ReadFile(c.from)
		if c.from == "" {
			os.Remove(c.to)
		} else if err != nil {
			t.Fatal(err)
		} else if err := os.WriteFile(c.to, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.Reload(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v", err)
		}
		if shown() != second {
			t.Error("what was read before is gone")
		}
	}
}

// An agent whose own certificate others would refuse says so.
func TestOwnCertificate(t *testing.T) {
	ca := certstest.New(t)
	now := time.Now()
	client := ca.Issue("client.global.nomad").Material(t)
	if err := client.Roles("global", false); err != nil {
		t.Error(err)
	}
	if err := client.Roles("global", true); err == nil || !strings.HasSuffix(err.Error(), "want server.global.nomad") {
		t.Error(err)
	}
	if err := client.Roles("eu", false); err == nil || !strings.HasSuffix(err.Error(), "want client.eu.nomad") {
		t.Error(err)
	}
	server := ca.Issue("server.global.nomad").Material(t)
	for _, asServer := range []bool{true, false} {
		if err := server.Roles("global", asServer); err != nil {
			t.Error(err)
		}
	}
	for after, want := range map[time.Duration]string{0: "expires at", 2 * time.Hour: "expired at", -2 * time.Hour: "is not valid before"} {
		if w := server.Warnings(now.Add(after)); len(w) != 1 || !strings.Contains(w[0], want) {
			t.Errorf("after %v: %q", after, w)
		}
	}
}

// An authority with name constraints signs for no other names.
func TestConstraints(t *testing.T) {
	_, cert, key, err := certs.NewAuthority(pkix.Name{CommonName: "CA"}, certs.Days(time.Now(), 30), []string{"nomad", "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := certs.ReadAuthority(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for names, good := range map[string]bool{"server.global.nomad localhost": true, "server.global.nomad berth.example": false} {
		all := strings.Fields(names)
		_, _, err := a.Issue(certs.Request{Name: all[0], Names: all[1:], Life: certs.Days(time.Now(), 1)})
		if good != (err == nil) {
			t.Errorf("%s: %v", names, err)
		}
	}
	_, _, otherKey, err := certs.NewAuthority(pkix.Name{CommonName: "CA"}, certs.Days(time.Now(), 30), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certs.ReadAuthority(cert, otherKey); err == nil || !strings.Contains(err.Error(), "the key does not match the certificate") {
		t.Error(err)
	}
	leaf, leafKey, err := a.Issue(certs.Request{Name: "server.global.nomad", Life: certs.Days(time.Now(), 1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certs.ReadAuthority(leaf, leafKey); err == nil || !strings.Contains(err.Error(), "is not a CA certificate") {
		t.Error(err)
	}
}

// Whatever stands in a file of certificates, reading it ends in certificates or
// an error.
func FuzzParse(f *testing.F) {
	_, cert, key, err := certs.NewAuthority(pkix.Name{CommonName: "CA"}, certs.Days(time.Now(), 30), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(cert)
	f.Add(key)
	f.Add(append(key, cert...))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := certs.Parse(text)
		if (len(all) > 0) != (err == nil) {
			t.Errorf("%d certificates and %v", len(all), err)
		}
		for _, c := range all {
			certs.RoleOf(c, "global", false)
			certs.Describe(c)
		}
		certs.ReadAuthority(text, text)
	})
}
