package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/op"
)

// Diagnostics looks into the process of an agent.
type Diagnostics interface {
	// Monitor sends the log from now on until ctx ends; nil: a sign of life.
	Monitor(ctx context.Context, q *op.MonitorQuery, send func([]byte) error) error
	// Export sends what is in the log file.
	Export(ctx context.Context, q *op.ExportQuery, send func([]byte) error) error
	// Profile takes a profile.
	Profile(ctx context.Context, q *op.ProfileQuery) (*op.ProfileTaken, error)
	// Host describes the machine.
	Host() *op.AgentHost
	// Reload reads the configuration again, and puts in force what can be.
	Reload() error
	// Debug reports whether profiles need no right.
	Debug() bool
}

// errNoDiagnostics answers for an agent that nothing looks into.
var errNoDiagnostics = berth.Errorf(berth.Unavailable, "this agent does not show its log and its process")

// diagnostics registers the operations that look into an agent: this one, that of
// a node, or another server.
func (s *Server) diagnostics() {
	look(s, op.Monitor, op.AgentMonitor, (*op.MonitorQuery).Target, func(ctx context.Context, in *op.MonitorQuery, e *exchange) error {
		return sendLines(ctx, e, in.Plain, func(send func([]byte) error) error { return s.Diagnostics.Monitor(ctx, in, send) })
	}, func(in *op.MonitorQuery) bool { return in.Plain })
	look(s, op.MonitorExport, op.AgentExport, (*op.ExportQuery).Target, func(ctx context.Context, in *op.ExportQuery, e *exchange) error {
		return sendLines(ctx, e, in.Plain, func(send func([]byte) error) error { return s.Diagnostics.Export(ctx, in, send) })
	}, func(in *op.ExportQuery) bool { return in.Plain })
	look(s, op.Profile, op.AgentProfile, (*op.ProfileQuery).Target, func(ctx context.Context, in *op.ProfileQuery, e *exchange) error {
		got, err := s.Diagnostics.Profile(ctx, in)
		if err != nil {
			return err
		}
		return sendProfile(e, in, got)
	}, nil)
	look(s, op.ReadAgentHost, op.AgentTells, (*op.HostQuery).Target, func(_ context.Context, _ *op.HostQuery, e *exchange) error {
		s.reply(e.w, e.view, &answered{Meta: op.Meta{KnownLeader: true}, value: s.Diagnostics.Host()})
		return nil
	}, nil)
	x := act(s, op.Reload, func(context.Context, *op.ReloadAgent) (op.Nothing, error) {
		if s.Diagnostics == nil {
			return op.Nothing{}, errNoDiagnostics
		}
		return op.Nothing{}, s.Diagnostics.Reload()
	})
	x.own = func(any) bool { return s.self != nil }
}

// look registers an operation that looks into an agent. plain is nil if a node's
// agent answers once, and otherwise reports whether its lines come as they are.
func look[In, Out, Agents any](s *Server, o op.Op[In, Out], at op.Op[In, Agents], target func(*In) op.AgentTarget, here func(context.Context, *In, *exchange) error, plain func(*In) bool) {
	x := addStream(s, o, func(ctx context.Context, who Caller, in *In, e *exchange) error {
		if err := s.mayDebug(o.Info, who, queryOf(in)); err != nil {
			return err
		}
		t := target(in)
		switch {
		case t.NodeID != "" && t.ServerID != "":
			return berth.Errorf(berth.Invalid, "node_id, server_id: want at most one of them")
		case t.NodeID != "":
			return lookAtNode(ctx, s, t.NodeID, who, in, at, here, plain, e)
		case t.ServerID != "" && !s.isServer(t.ServerID):
			return s.lookAtServer(ctx, s.operations[o.Name], t.ServerID, who, in, e)
		case s.Diagnostics == nil:
			return errNoDiagnostics
		}
		return here(ctx, in, e)
	})
	x.regional = true
	x.own = func(in any) bool {
		t := target(in.(*In))
		return s.self != nil && t.ServerID == "" && (t.NodeID == "" || t.NodeID == s.self.node().String())
	}
}

// mayDebug asks for the right to look into an agent. Without access control, the
// operator must have enabled it for what shows more than the log.
func (s *Server) mayDebug(info *op.Info, who Caller, q *op.Query) error {
	if err := s.region(q.Region); err != nil {
		return err
	}
	if err := s.Authorize(who, info.Need, ""); err != nil {
		return err
	}
	guarded := s.guard != nil || s.self != nil && s.self.guarded
	if info.Need == acl.AgentRead && info != op.ReadAgentHost.Info || guarded || s.Diagnostics == nil || s.Diagnostics.Debug() {
		return nil
	}
	return berth.Errorf(berth.Denied, "Permission denied: without access control, enable_debug must be set in the configuration of this agent")
}

// lookAtNode has the agent of a node answer.
func lookAtNode[In, Out any](ctx context.Context, s *Server, id string, who Caller, in *In, at op.Op[In, Out], here func(context.Context, *In, *exchange) error, plain func(*In) bool, e *exchange) error {
	if s.self != nil || s.Diagnostics != nil && s.Node != nil && s.Node().String() == id { // this process
		return here(ctx, in, e)
	}
	n, err := s.newRead(who, queryOf(in)).node(id)
	if err != nil {
		return err
	}
	if s.Agents == nil {
		return unreachable(n.ID)
	}
	arg := *in
	queryOf(&arg).AuthToken = "" // agents are not told the caller's token
	if plain == nil {
		got, err := callAgent(ctx, s, n.ID, at, &arg)
		if err != nil {
			return err
		}
		switch got := any(got).(type) {
		case *op.ProfileTaken:
			return sendProfile(e, any(in).(*op.ProfileQuery), got)
		default:
			s.reply(e.w, e.view, &answered{Meta: op.Meta{KnownLeader: true}, value: got})
			return nil
		}
	}
	from, err := s.Agents.Open(ctx, n.ID, at.RPC, &arg)
	if err != nil {
		return err
	}
	defer from.Close()
	return sendFile(e.w, plain(in), from)
}

// isServer reports whether a name is that of this server.
func (s *Server) isServer(name string) bool {
	self := s.Self().Member.Name
	first, _, _ := strings.Cut(self, ".")
	if name == op.LeaderTarget {
		_, err := s.Cluster.Leader()
		return err == nil
	}
	return slices.Contains([]string{self, first, s.Cluster.Address()}, name) || slices.Contains(s.addressesOf(name), s.Cluster.Address())
}

// addressesOf returns the addresses of the servers of this region that have a name
// or an ID.
func (s *Server) addressesOf(name string) (out []string) {
	if s.Members == nil {
		return nil
	}
	for _, m := range s.Members.Members() {
		if m.Region == s.Region && m.RPC != "" && (m.ID == name || m.RPC == name || m.Name == name || m.Name == name+"."+s.Region) {
			out = append(out, m.RPC)
		}
	}
	return out
}

// lookAtServer has another server answer.
func (s *Server) lookAtServer(ctx context.Context, x *operation, name string, who Caller, in any, e *exchange) error {
	unknown := berth.Errorf(berth.NotFound, "unknown Nomad server %s", berth.Clip(name, 64))
	if s.Peers == nil || scopeOf(ctx) != op.ScopeAny {
		return unknown
	}
	addrs := s.addressesOf(name)
	if name == op.LeaderTarget {
		addrs = []string{s.Peers.Leading()}
	}
	if len(addrs) == 0 || addrs[0] == "" {
		return unknown
	}
	conn, err := s.Peers.Connect(ctx, addrs[0])
	if err != nil {
		return berth.Errorf(berth.Unavailable, "server %q: %w", berth.Clip(name, 64), err)
	}
	return s.passStream(ctx, x, conn, who, in, op.ScopeRegion, e)
}

// sendProfile answers with a profile.
func sendProfile(e *exchange, in *op.ProfileQuery, got *op.ProfileTaken) error {
	h := e.w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "application/octet-stream")
	if in.Debug > 0 || in.Profile == "cmdline" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	http.NewResponseController(e.w).SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := e.w.Write(got.Payload)
	return err
}

// sendLines streams a log to a caller, as frames or as lines.
func sendLines(ctx context.Context, e *exchange, plain bool, run func(send func([]byte) error) error) error {
	out := &frames{w: e.w, flush: http.NewResponseController(e.w), plain: plain}
	err := run(func(b []byte) error {
		if !out.began {
			out.begin()
		}
		if b == nil {
			return nil
		}
		return out.send(&op.StreamFrame{Data: b})
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // the caller is gone, or this agent ends
	}
	if err == nil && !out.began {
		out.begin()
	}
	return err
}
