package real

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A web page that somebody opens on the machine of an agent cannot use its API,
// neither by sending to loopback nor by giving its own name that address. Calls
// by the agent's names and addresses work.
func TestWebPagesCannotUseTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both, `http_hosts = ["nomad.example.com"]`)
	a.joined()
	port := a.addr[strings.LastIndexByte(a.addr, ':'):]
	const evil = `{"Job": {"ID": "evil", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}}`
	for _, c := range []struct {
		method, path, host, headers string
		code                        int
		want                        string // in the answer
	}{
		{"POST", "/v1/jobs", "127.0.0.1" + port, "Origin: http://evil.example\nContent-Type: text/plain", 403, `a web page of "http://evil.example" sent this request`},
		{"POST", "/v1/jobs", "evil.example" + port, "Origin: http://evil.example" + port + "\nContent-Type: application/json", 403, "add the name to http_hosts"},
		{"GET", "/v1/jobs", "evil.example" + port, "", 403, "add the name to http_hosts"},
		{"GET", "/v1/event/stream", "localhost" + port, "Sec-Fetch-Site: cross-site", 403, "a web page of another site"},
		{"GET", "/v1/jobs", "localhost" + port, "", 200, "[]"},
		{"GET", "/v1/jobs", "ONE" + port, "", 200, "[]"},
		{"GET", "/v1/jobs", "one.global" + port, "", 200, "[]"},
		{"GET", "/v1/jobs", "server.global.nomad", "", 200, "[]"},
		{"GET", "/v1/jobs", "nomad.example.com", "Origin: https://nomad.example.com", 200, "[]"},
		{"POST", "/v1/jobs", "localhost" + port, "Content-Type: application/x-www-form-urlencoded", 200, "EvalID"},
	} {
		var body io.Reader
		if c.method == "POST" {
			body = strings.NewReader(evil)
		}
		r, err := http.NewRequestWithContext(t.Context(), c.method, a.addr+c.path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		for line := range strings.SplitSeq(c.headers, "\n") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				r.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.code || !strings.Contains(string(said), c.want) {
			t.Errorf("%s %s of %s with %q: %d %s", c.method, c.path, c.host, c.headers, resp.StatusCode, said)
		}
	}
}
