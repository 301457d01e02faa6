package sameorigin_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"berth/internal/sameorigin"
)

// policy is that of an agent called web1 with two configured names.
var policy = &sameorigin.Policy{
	Names:      []string{"web1", "server.global.nomad"},
	Configured: []string{"nomad.example.com", "ops.example.com:8443", "*.lb.example.com"},
	Certificate: func() *x509.Certificate {
		return &x509.Certificate{DNSNames: []string{"cert.example.com", "*.dc1.example.com"}}
	},
	Key: "http_hosts",
}

// request parses the text of a request. Lines end in \n for readability.
func request(t *testing.T, text string) *http.Request {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return r
}

// Requests that browsers send for pages of other sites, and what programs send
// that are not browsers.
func TestWhoMaySendRequests(t *testing.T) {
	const json = "\nContent-Type: application/json\nContent-Length: 2\n\n{}"
	for _, c := range []struct {
		name, text string
		want       sameorigin.Reason // "": it is answered
	}{
		// Programs.
		{"curl", "GET /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nUser-Agent: curl/8.5.0\nAccept: */*", ""},
		{"curl -d", "POST /v1/jobs HTTP/1.1\nHost: localhost:4646\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 2\n\n{}", ""},
		{"a client without a content type", "PUT /v1/jobs HTTP/1.1\nHost: 10.0.0.5:4646\nContent-Length: 2\n\n{}", ""},
		{"a health check of HTTP/1.0", "GET /v1/agent/health HTTP/1.0", ""},
		{"a client of the machine's name", "GET /v1/jobs HTTP/1.1\nHost: web1:4646", ""},
		{"a client of the role name", "GET /v1/jobs HTTP/1.1\nHost: server.global.nomad:4646", ""},
		{"a name in capitals with a final dot", "GET /v1/jobs HTTP/1.1\nHost: WEB1.:4646", ""},
		{"IPv6", "GET /v1/jobs HTTP/1.1\nHost: [::1]:4646", ""},
		{"IPv6 without a port", "GET /v1/jobs HTTP/1.1\nHost: [fd00::5]", ""},
		{"a configured name", "GET /v1/jobs HTTP/1.1\nHost: nomad.example.com", ""},
		{"a configured name on another port", "GET /v1/jobs HTTP/1.1\nHost: ops.example.com:4646", ""},
		{"a name below a configured domain", "GET /v1/jobs HTTP/1.1\nHost: a.b.lb.example.com", ""},
		{"a name of the certificate", "GET /v1/jobs HTTP/1.1\nHost: cert.example.com:4646", ""},
		{"a name that its wildcard covers", "GET /v1/jobs HTTP/1.1\nHost: web2.dc1.example.com:4646", ""},
		{"a websocket of a program", "GET /v1/client/allocation/x/exec HTTP/1.1\nHost: 127.0.0.1:4646\nUpgrade: websocket\nConnection: Upgrade", ""},

		// Pages of the agent, and what users do.
		{"a page of the agent", "POST /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://127.0.0.1:4646\nSec-Fetch-Site: same-origin" + json, ""},
		{"a page by IPv6", "POST /v1/jobs HTTP/1.1\nHost: [::1]:4646\nOrigin: http://[::1]:4646" + json, ""},
		{"a page on the default port", "POST /v1/jobs HTTP/1.1\nHost: nomad.example.com:80\nOrigin: http://nomad.example.com" + json, ""},
		{"a page behind a proxy that takes off TLS", "POST /v1/jobs HTTP/1.1\nHost: nomad.example.com\nOrigin: https://nomad.example.com" + json, ""},
		{"a page behind a proxy with an address of its own", "POST /v1/jobs HTTP/1.1\nHost: 10.0.0.5:4646\nOrigin: https://nomad.example.com" + json, ""},
		{"a page behind a proxy on a port", "POST /v1/jobs HTTP/1.1\nHost: 10.0.0.5:4646\nOrigin: https://ops.example.com:8443" + json, ""},
		{"an address typed by the user", "GET /v1/jobs HTTP/1.1\nHost: localhost:4646\nSec-Fetch-Site: none\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document", ""},
		{"a link on another page", "GET /v1/jobs HTTP/1.1\nHost: localhost:4646\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document", ""},
		{"JSON with a charset", "POST /v1/jobs HTTP/1.1\nHost: localhost:4646\nOrigin: http://localhost:4646\nContent-Type: application/json; charset=utf-8\nContent-Length: 2\n\n{}", ""},
		{"a DELETE without a body", "DELETE /v1/job/x HTTP/1.1\nHost: localhost:4646\nOrigin: http://localhost:4646", ""},

		// DNS rebinding.
		{"a rebound name", "GET /v1/jobs HTTP/1.1\nHost: evil.example", sameorigin.UnknownHost},
		{"a rebound name with the port", "GET /v1/jobs HTTP/1.1\nHost: evil.example:4646", sameorigin.UnknownHost},
		{"a rebound name whose page is of the same origin", "POST /v1/jobs HTTP/1.1\nHost: evil.example:4646\nOrigin: http://evil.example:4646\nSec-Fetch-Site: same-origin" + json, sameorigin.UnknownHost},
		{"a name that begins like an address", "GET /v1/jobs HTTP/1.1\nHost: 127.0.0.1.evil.example:4646", sameorigin.UnknownHost},
		{"a name that begins like ours", "GET /v1/jobs HTTP/1.1\nHost: localhost.evil.example", sameorigin.UnknownHost},
		{"a name that ends like ours", "GET /v1/jobs HTTP/1.1\nHost: xlb.example.com", sameorigin.UnknownHost},
		{"the bare domain of a pattern", "GET /v1/jobs HTTP/1.1\nHost: lb.example.com", sameorigin.UnknownHost},
		{"a user in front of the name", "GET /v1/jobs HTTP/1.1\nHost: localhost@evil.example", sameorigin.UnknownHost},
		{"a name in the request line", "GET http://evil.example/v1/jobs HTTP/1.1\nHost: localhost", sameorigin.UnknownHost},
		{"a rebound event stream", "GET /v1/event/stream HTTP/1.1\nHost: evil.example\nAccept: text/event-stream", sameorigin.UnknownHost},

		// Pages of other sites.
		{"a form", "POST /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://evil.example\nContent-Type: text/plain\nContent-Length: 2\n\n{}", sameorigin.ForeignPage},
		{"a script", "POST /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://evil.example\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors" + json, sameorigin.ForeignPage},
		{"a preflight", "OPTIONS /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://evil.example\nAccess-Control-Request-Method: PUT", sameorigin.ForeignPage},
		{"a sandboxed frame", "POST /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: null" + json, sameorigin.ForeignPage},
		{"an empty origin", "POST /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: " + json, sameorigin.ForeignPage},
		{"a browser extension", "POST /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: chrome-extension://abc" + json, sameorigin.ForeignPage},
		{"two origins", "POST /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://127.0.0.1:4646\nOrigin: http://evil.example" + json, sameorigin.ForeignPage},
		{"another program on this machine", "POST /v1/jobs HTTP/1.1\nHost: localhost:4646\nOrigin: http://localhost:3000\nSec-Fetch-Site: same-site" + json, sameorigin.ForeignPage},
		{"another name of the same machine", "POST /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://localhost:4646" + json, sameorigin.ForeignPage},
		{"another program on a configured name", "POST /v1/jobs HTTP/1.1\nHost: 10.0.0.5:4646\nOrigin: http://nomad.example.com:8080" + json, sameorigin.ForeignPage},
		{"a configured name on another port than configured", "POST /v1/jobs HTTP/1.1\nHost: 10.0.0.5:4646\nOrigin: https://ops.example.com" + json, sameorigin.ForeignPage},
		{"an image", "GET /v1/jobs HTTP/1.1\nHost: localhost:4646\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image", sameorigin.ForeignPage},
		{"a frame", "GET /v1/jobs HTTP/1.1\nHost: localhost:4646\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: iframe", sameorigin.ForeignPage},
		{"a form that becomes the page", "POST /v1/jobs HTTP/1.1\nHost: localhost:4646\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document" + json, sameorigin.ForeignPage},
		{"a read with fetch", "GET /v1/jobs HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://evil.example", sameorigin.ForeignPage},
		{"a websocket", "GET /v1/client/allocation/x/exec HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://evil.example\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13", sameorigin.ForeignPage},
		{"a websocket without an origin", "GET /v1/client/allocation/x/exec HTTP/1.1\nHost: 127.0.0.1:4646\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: websocket\nUpgrade: websocket", sameorigin.ForeignPage},
		{"an event stream", "GET /v1/event/stream HTTP/1.1\nHost: 127.0.0.1:4646\nOrigin: http://evil.example\nAccept: text/event-stream", sameorigin.ForeignPage},
		{"a site that the browser has no word for", "GET /v1/jobs HTTP/1.1\nHost: localhost:4646\nSec-Fetch-Site: elsewhere", sameorigin.ForeignPage},

		// Bodies that a page of any site could send, should the rest be fooled.
		{"plain text", "POST /v1/jobs HTTP/1.1\nHost: localhost:4646\nOrigin: http://localhost:4646\nContent-Type: text/plain\nContent-Length: 2\n\n{}", sameorigin.SimpleContent},
		{"no type", "POST /v1/jobs HTTP/1.1\nHost: localhost:4646\nSec-Fetch-Site: same-origin\nContent-Length: 2\n\n{}", sameorigin.SimpleContent},
		{"a form of the agent's own page", "POST /v1/jobs HTTP/1.1\nHost: localhost:4646\nOrigin: http://localhost:4646\nContent-Type: multipart/form-data; boundary=x\nTransfer-Encoding: chunked\n\n0\r\n\r\n", sameorigin.SimpleContent},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal := policy.Check(request(t, c.text))
			switch {
			case refusal == nil && c.want != "":
				t.Errorf("it is answered; want %s", c.want)
			case refusal != nil && refusal.Reason != c.want:
				t.Errorf("it is refused for %s: %s; want %q", refusal.Reason, refusal.Text, c.want)
			}
		})
	}
}

// With TLS, a page without it is another site: anyone on the way can write it.
func TestAPageWithoutTLSIsForeign(t *testing.T) {
	for origin, want := range map[string]bool{"https://localhost:4646": true, "http://localhost:4646": false, "https://localhost": false} {
		r := request(t, "POST /v1/jobs HTTP/1.1\nHost: localhost:4646\nOrigin: "+origin+"\nContent-Type: application/json\nContent-Length: 2\n\n{}")
		r.TLS = &tls.ConnectionState{}
		if refusal := policy.Check(r); (refusal == nil) != want {
			t.Errorf("%s: %v", origin, refusal)
		}
	}
}

// A refusal says what to do about it.
func TestRefusalsSayWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"GET / HTTP/1.1\nHost: lb.corp:4646":                                     `the Host header of this request is "lb.corp:4646", which is not a known name of this agent: use an IP address, or add the name to http_hosts in the agent's configuration`,
		"GET / HTTP/1.1\nHost: localhost\nOrigin: https://ui.corp":               `a web page of "https://ui.corp" sent this request, and only pages of this agent may use its API; if that is a proxy in front of this agent, add its name to http_hosts in the agent's configuration`,
		"GET / HTTP/1.1\nHost: localhost\nSec-Fetch-Site: cross-site":            `a web page of another site sent this request, and only pages of this agent may use its API; if that is a proxy in front of this agent, add its name to http_hosts in the agent's configuration`,
		"POST / HTTP/1.1\nHost: x.example\nContent-Length: 1\nOrigin: null\n\nx": `the Host header of this request is "x.example", which is not a known name of this agent: use an IP address, or add the name to http_hosts in the agent's configuration`,
	} {
		if refusal := policy.Check(request(t, text)); refusal == nil || refusal.Text != want || refusal.Status != http.StatusForbidden {
			t.Errorf("%q: %v", text, refusal)
		}
	}
}

// Every name is accepted as a Host with "*", and still no foreign page.
func TestEveryHost(t *testing.T) {
	p := &sameorigin.Policy{Configured: []string{"*"}}
	if refusal := p.Check(request(t, "GET / HTTP/1.1\nHost: lb.corp")); refusal != nil {
		t.Error(refusal)
	}
	if refusal := p.Check(request(t, "GET / HTTP/1.1\nHost: lb.corp\nOrigin: https://evil.example")); refusal == nil || refusal.Reason != sameorigin.ForeignPage {
		t.Error(refusal)
	}
}

func TestConfiguredNames(t *testing.T) {
	for s, want := range map[string]bool{
		"nomad.example.com": true, "nomad": true, "nomad.example.com:8443": true, "*.example.com": true, "*.example.com:80": true, "*": true, "under_score.corp": true,
		"": false, "https://nomad.example.com": false, "nomad.example.com/": false, "a b": false, "*.": false, "*x.com": false, "a.*.com": false, "nomad:": false, "nomad:port": false,
	} {
		if sameorigin.Valid(s) != want {
			t.Errorf("Valid(%q) is %v", s, !want)
		}
	}
}
