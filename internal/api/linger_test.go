package api_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"berth/internal/api"
)

// A client that sends all of its request before it reads the answer gets one,
// however much too large the request is. The connection is not reset under it.
func TestTooLargeRequestsGetAnAnswer(t *testing.T) {
	s, _ := serve(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, stop := listenOn(t, ln, s, api.Limits{})
	defer stop()
	body := strings.Repeat(" ", 32<<20)
	for name, c := range map[string]struct {
		request string
		code    int
	}{
		"a body":              {"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33554432\r\n\r\n" + body, 413},
		"a body in chunks":    {"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2000000\r\n" + body + "\r\n0\r\n\r\n", 413},
		"a body of a page":    {"PUT /v1/jobs HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 33554432\r\n\r\n" + body, 403},
		"a body for a read":   {"PATCH /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33554432\r\n\r\n" + body, 405},
		"a URL":               {"GET /v1/jobs?" + strings.Repeat("x", 8<<20) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 431},
		"headers":             {"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", 8<<20) + "\r\n\r\n", 431},
		"a header never ends": {"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", 8<<20), 431},
	} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.request); err != nil {
			t.Errorf("%s: the request could not be sent: %v", name, err)
		}
		if code, _, text, err := answer(conn); code != c.code || err != nil || text == "" {
			t.Errorf("%s: %d %q %v", name, code, text, err)
		}
		conn.Close()
	}
}
