package api_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/api"
	"berth/internal/sameorigin"
)

// A page of another site can use no route: the refusal comes before routes,
// methods and bodies.
func TestPagesOfOtherSitesAreRefusedFirst(t *testing.T) {
	const job = `{"Job": {"ID": "evil", "Datacenters": ["dc1"], "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/id"}}]}]}}`
	s, log := serve(t, nil)
	before := log.Store.Snapshot().Index
	p, stop := listen(t, s, api.Limits{})
	defer stop()
	for _, c := range []struct {
		name, head string
		code       int
	}{
		{"a form", "POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:4646\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n", 403},
		{"a rebound name", "POST /v1/jobs HTTP/1.1\r\nHost: evil.example:4646\r\nContent-Type: application/json\r\n", 403},
		{"an event stream", "GET /v1/event/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n", 403},
		{"a websocket", "GET /v1/client/allocation/x/exec HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n", 403},
		{"a path that does not exist", "GET /v1/nothing HTTP/1.1\r\nHost: evil.example\r\n", 403},
		{"a preflight", "OPTIONS /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: PUT\r\n", 403},
		{"plain text of a page of the agent", "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Type: text/plain\r\n", 415},
	} {
		conn := p.dial()
		body := ""
		if strings.HasPrefix(c.head, "POST") {
			body = job
		}
		go io.WriteString(conn, c.head+"Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		code, header, text, err := answer(conn)
		if err != nil || code != c.code || text == "" {
			t.Errorf("%s: %d %q %v", c.name, code, text, err)
		}
		for name := range header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the answer has %s", c.name, name)
			}
		}
		conn.Close()
	}
	if now := log.Store.Snapshot().Index; now != before {
		t.Errorf("the state changed from index %d to %d", before, now)
	}
	conn := p.dial()
	defer conn.Close()
	// What curl -d sends.
	go io.WriteString(conn, "POST /v1/jobs HTTP/1.1\r\nHost: localhost:4646\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: "+strconv.Itoa(len(job))+"\r\n\r\n"+job)
	if code, _, text, err := answer(conn); code != 200 {
		t.Errorf("a program without headers of a browser: %d %s %v", code, text, err)
	}
}

// Refusals are logged at most once a minute, as a page can send any number.
func TestRefusalsAreLoggedSparsely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s, _ := serve(t, nil)
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- api.Serve(ctx, p, s, api.Limits{Origins: &sameorigin.Policy{Key: "http_hosts"}}, slog.New(slog.NewTextHandler(&out, nil)))
		}()
		var conn net.Conn
		for range 50 {
			conn = p.dial()
			go io.WriteString(conn, "GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n")
			if code, _, _, err := answer(conn); code != 403 {
				t.Fatal(code, err)
			}
			conn.Close()
		}
		cancel()
		<-ended
		if n := strings.Count(out.String(), "level=WARN"); n != 1 || !strings.Contains(out.String(), "evil.example") {
			t.Errorf("%d lines:\n%s", n, out.String())
		}
	})
}
