package dockertest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
)

// Proxy returns the endpoint of a proxy before an engine that serves on a unix
// socket. It calls before with each request before the engine gets it.
func Proxy(t testing.TB, socket string, before func(*http.Request)) (endpoint string) {
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
			before(r.In)
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
		FlushInterval: -1,
	})
	t.Cleanup(server.Close)
	return "tcp://" + server.Listener.Addr().String()
}

// Creates reports whether a request creates a container.
func Creates(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/containers/create")
}
