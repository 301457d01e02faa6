package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// AgentConfig is what the HTTP API of an agent that is no server serves with.
type AgentConfig struct {
	Region  string
	Logger  *slog.Logger
	Self    func() op.AgentSelf
	Health  func() op.AgentHealth
	Metrics MetricsSource
	// Authorize says whether a caller may be told of this agent; nil is the
	// check of a cluster without access control.
	Authorize func(Caller, acl.Capability, string) error
	// Has says whether this agent holds an allocation; Logs streams the output
	// of those it holds.
	Has  func(alloc string) bool
	Logs LogStreamer
	Node func() berth.NodeID
	// Servers is where the node looks for servers.
	Servers ServerList
	// Dial opens a way to a server.
	Dial func(context.Context) (net.Conn, error)
}

// NewAgent returns the HTTP API of an agent that is no server: it answers for
// itself, and passes everything else on to a server, with the caller's own
// rights and no more.
func NewAgent(c AgentConfig) http.Handler {
	s := empty(Config{
		Region: c.Region, Logger: c.Logger, Self: c.Self, Health: c.Health, Metrics: c.Metrics, Cluster: noCluster{}, Store: state.New(),
		Authorize: c.Authorize,
	})
	read(s, op.ReadSelf, func(r *Read, _ *op.Nothing) (op.AgentSelf, error) { return s.Self(), nil })
	s.servers(c.Servers)
	s.health()
	s.metrics()
	s.routes.add(op.ReadLogs.Info, c.logs(s))
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "server"
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) },
			DisableCompression: true, IdleConnTimeout: idleTime / 2, // before the server closes it
		},
		FlushInterval: -1, // streams are handed on as they come
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				return
			}
			s.fail(w, berth.Errorf(berth.Unavailable, "no server could be reached: %w", err))
		},
	}
	s.routes.fallback = func(w http.ResponseWriter, r *http.Request, _ values) { pass.ServeHTTP(w, r) }
	return s
}

// logs serves the output of this agent's own tasks, and asks a server for that
// of others.
func (c *AgentConfig) logs(s *Server) handler {
	return func(w http.ResponseWriter, r *http.Request, path values) {
		if !c.Has(path["AllocID"]) {
			s.routes.fallback(w, r, path)
			return
		}
		in, _, err := decodeQuery[op.LogsQuery](r, path, c.Region)
		if err == nil {
			err = checkLogs(in)
		}
		if err == nil {
			err = s.send(w, r, in, c.Logs, c.Node())
		}
		if err != nil {
			s.fail(w, err)
		}
	}
}

// noCluster is the cluster of an agent that is no server.
type noCluster struct{}

// Leader implements Cluster.
func (noCluster) Leader() (Leader, error) { return nil, state.ErrLost }

// Address implements Cluster.
func (noCluster) Address() string { return "" }
