package client_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth"
	"berth/client"
	"berth/internal/wire/certs"
	"berth/internal/wire/certs/certstest"
	"berth/op"
)

// Who is believed, by whom, and what is said if nobody is.
func TestHTTPS(t *testing.T) {
	ca, other := certstest.New(t), certstest.New(t)
	own, person, stranger := ca.Issue("server.global.nomad"), ca.Issue("cli.global.nomad"), other.Issue("cli.global.nomad")
	m, err := certs.Load(certs.Options{CA: own.CA, Cert: own.Cert, Key: own.Key, VerifyHTTPS: true})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `"10.0.0.1:4647"`)
	}))
	s.Listener = tls.NewListener(s.Listener, m.HTTPS())
	s.Start()
	defer s.Close()
	address := "https://" + s.Listener.Addr().String()
	folder, empty := filepath.Join(t.TempDir(), "cas"), t.TempDir()
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, from := range []string{other.File, ca.File} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, string('a'+rune(i))), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, x := range map[string]struct {
		tls  client.TLS
		want string
	}{
		"a file":                 {client.TLS{CACert: ca.File, ClientCert: person.Cert, ClientKey: person.Key}, ""},
		"a folder":               {client.TLS{CAPath: folder, ClientCert: person.Cert, ClientKey: person.Key}, ""},
		"the file counts":        {client.TLS{CACert: ca.File, CAPath: empty, ClientCert: person.Cert, ClientKey: person.Key}, ""},
		"a name":                 {client.TLS{CACert: ca.File, ServerName: "server.global.nomad", ClientCert: person.Cert, ClientKey: person.Key}, ""},
		"whoever answers":        {client.TLS{SkipVerify: true, ClientCert: person.Cert, ClientKey: person.Key}, ""},
		"the system's":           {client.TLS{ClientCert: person.Cert, ClientKey: person.Key}, `cannot be believed: its certificate is "server.global.nomad", which has the names`},
		"another authority":      {client.TLS{CACert: other.File, ClientCert: person.Cert, ClientKey: person.Key}, "cannot be believed"},
		"another name":           {client.TLS{CACert: ca.File, ServerName: "berth.example", ClientCert: person.Cert, ClientKey: person.Key}, "not berth.example"},
		"nothing is shown":       {client.TLS{CACert: ca.File}, "requires a client certificate"},
		"a stranger's is shown":  {client.TLS{CACert: ca.File, ClientCert: stranger.Cert, ClientKey: stranger.Key}, "takes no calls with this certificate"},
		"no key":                 {client.TLS{CACert: ca.File, ClientCert: person.Cert}, "both needed"},
		"the key of another":     {client.TLS{CACert: ca.File, ClientCert: person.Cert, ClientKey: stranger.Key}, "private key does not match"},
		"no authority in a file": {client.TLS{CACert: person.Key}, "no PEM certificate"},
		"an empty folder":        {client.TLS{CAPath: empty}, "no file is in"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := client.New(client.Config{Address: address, TLS: x.tls})
			var leader string
			if err == nil {
				defer c.Close()
				leader, _, err = client.Call(t.Context(), c, op.ReadLeader, op.Query{})
			} else if berth.KindOf(err) != berth.Invalid {
				t.Errorf("the error is of kind %q", berth.KindOf(err))
			}
			want := x.want
			if want == "" && (err != nil || leader != "10.0.0.1:4647") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%q, %v", leader, err)
			}
		})
	}
	if _, err := client.New(client.Config{Address: "http://127.0.0.1:1", TLS: client.TLS{CACert: ca.File}}); berth.KindOf(err) != berth.Invalid {
		t.Errorf("TLS without https: %v", err)
	}
}
