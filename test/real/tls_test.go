package real

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/test/bed"
)

// secured is TLS everywhere, with the certificate that is named.
func secured(cert string) string {
	return `tls {
		http = true
		rpc  = true
		ca_file   = "DIR/nomad-agent-ca.pem"
		cert_file = "DIR/` + cert + `.pem"
		key_file  = "DIR/` + cert + `-key.pem"
		verify_server_hostname = true
		verify_https_client    = true
	}`
}

// With certificates that the command line made, a server and an agent trust
// each other, a person who has one is served, and nobody else is.
func TestTLSEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var printed string // what the second of the two commands of docs/tls.md shows
	for i, args := range []string{
		"ca create", "cert create -server -client -cli", "cert create -client -region eu",
		"ca create -domain stranger", "cert create -cli -region stranger -ca stranger-agent-ca.pem -key stranger-agent-ca-key.pem",
		"cert create -client -domain nomad -region global2 -ca stranger-agent-ca.pem -key stranger-agent-ca-key.pem",
	} {
		s := w.command("berth", nil, append([]string{"tls"}, strings.Fields(args)...)...)
		if s.Code != 0 {
			t.Fatalf("tls %s: %v", args, s)
		}
		if i == 1 {
			printed = s.Out
		}
	}
	use := func(of string) string {
		_, text, ok := strings.Cut(printed, "\n# "+of+":\n")
		if text, _, _ = strings.Cut(text, "\n\n"); !ok {
			t.Fatalf("no %s is printed:\n%s", of, printed)
		}
		return text
	}
	server := w.agent("server", "server { enabled = true bootstrap_expect = 1 }", use("Agent configuration of a server"))
	node := w.agent("node", `client {
		enabled = true
		servers = ["`+server.rpc+`"]
	}`, use("Agent configuration of a client"))
	if !strings.HasPrefix(server.addr, "https://") || !strings.HasPrefix(node.addr, "https://") {
		t.Fatalf("they are at %s and %s", server.addr, node.addr)
	}
	shows := func(cert string) []string {
		return []string{"BERTH_CACERT=nomad-agent-ca.pem", "BERTH_CLIENT_CERT=" + cert + ".pem", "BERTH_CLIENT_KEY=" + cert + "-key.pem"}
	}
	call := func(a *agent, env []string, args ...string) bed.Result {
		return w.command("berth", append([]string{"BERTH_ADDR=" + a.addr}, env...), args...)
	}
	var person []string
	for _, line := range strings.Split(strings.TrimSpace(use("Environment of a user")), "\n") {
		if variable := strings.TrimPrefix(line, "export "); !strings.HasPrefix(variable, "BERTH_ADDR=") {
			person = append(person, variable)
		}
	}
	until := func(what, text string, a *agent, args ...string) (s bed.Result) {
		t.Helper()
		w.until(what, func() string {
			if s = call(a, person, args...); s.Code == 0 && strings.Contains(s.Out, text) {
				return ""
			}
			return s.String()
		})
		return s
	}
	until("the node is ready", "ready", server, "node", "status")

	job := w.file("hello.nomad", `job "hello" {
		group "g" {
			task "t" {
				driver = "raw_exec"
				config {
					command = "/bin/sh"
					args    = ["-c", "echo hello over TLS; exec sleep 1000"]
				}
			}
		}
	}`)
	// Asked of the agent, which passes it on to the server; and the output of a
	// task of the server, which asks the agent.
	if s := call(node, person, "job", "run", "-detach", job); s.Code != 0 {
		t.Fatalf("%v", s)
	}
	for _, a := range []*agent{node, server} {
		until("the task has spoken", "hello over TLS", a, "alloc", "logs", "-job", "hello")
	}

	// Nobody else is served.
	for _, c := range []struct {
		env  []string
		want string
	}{
		{nil, `cannot be believed: its certificate is "server.global.nomad", which has the names server.global.nomad, localhost, 127.0.0.1, signed by "Berth Agent CA`},
		{person[:1], "requires a client certificate"},
		{shows("stranger-cli-nomad"), "takes no calls with this certificate"},
		{shows("global-client-nomad"), "takes no calls with this certificate"},
	} {
		if s := call(server, c.env, "job", "status"); s.Code != 1 || !strings.Contains(s.Err, c.want) {
			t.Errorf("with %q: %v\nwant %q", c.env, s, c.want)
		}
	}
	plain := &agent{w: w, addr: strings.Replace(server.addr, "https:", "http:", 1)}
	if s := call(plain, nil, "job", "status"); s.Code != 1 || !strings.Contains(s.Err, "HTTP request to an HTTPS server") {
		t.Errorf("%v", s)
	}

	// An agent that others would refuse refuses to start; one of another
	// authority finds no server, and both sides say why.
	for cert, want := range map[string]string{
		"eu-client-nomad":      "want client.global.nomad",
		"global-cli-nomad":     "want client.global.nomad",
		"global2-client-nomad": "it is signed by",
	} {
		words := strings.NewReplacer("DIR", w.Dir).Replace(secured(cert))
		s := w.command("berth", nil, "agent", "-data-dir", w.Dir+"/never", "-client", "-servers", server.rpc, "-config", w.file(cert+".hcl", words))
		if s.Code != 1 || !strings.Contains(s.Err, want) || !strings.Contains(s.Err, "tls: ") {
			t.Errorf("%s: %v\nwant %q", cert, s, want)
		}
	}
	stranger := w.agent("stranger", `region = "global"
		client {
			enabled = true
			servers = ["`+server.rpc+`"]
		}`, strings.NewReplacer(
		"DIR/nomad-agent-ca.pem", "DIR/stranger-agent-ca.pem", "verify_server_hostname = true", "verify_server_hostname = false",
	).Replace(secured("global2-client-nomad")))
	w.until("the stranger says why it finds no server", func() string {
		if text := stranger.Said(); !strings.Contains(text, "which is not an authority in") {
			return bed.Got(text)
		}
		return ""
	})
	stranger.Kill()

	// A certificate is replaced while the server runs.
	for _, name := range []string{"global-server-nomad.pem", "global-server-nomad-key.pem"} {
		if err := os.Remove(filepath.Join(w.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if s := w.command("berth", nil, "tls", "cert", "create", "-server", "-days", "5"); s.Code != 0 {
		t.Fatal(s)
	}
	if err := server.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.until("the certificate is read again", func() string {
		if text := server.Said(); !strings.Contains(text, "certificates reloaded") || !strings.Contains(text, "global-server-nomad.pem expires at") {
			return bed.Got(text)
		}
		return ""
	})
	until("the API answers", "hello", server, "job", "status")
}
