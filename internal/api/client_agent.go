package api

import (
	"context"
	"log/slog"
	"net/http"

	"berth"
	"berth/internal/acl"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/op"
)

// AgentConfig configures the HTTP API of an agent that is not a server.
type AgentConfig struct {
	Region  string // of this agent
	Logger  *slog.Logger
	Self    func() op.AgentSelf
	Health  func() op.AgentHealth
	Metrics MetricsSource
	// Authorize reports whether a caller may see this agent; nil: everybody
	// may, as in a cluster without access control.
	Authorize func(Caller, acl.Capability, string) error
	// Has reports whether this agent has an allocation; Logs streams the output
	// of those it has.
	Has  func(alloc string) bool
	Logs LogStreamer
	Node func() berth.NodeID // the node of this agent
	// Agents calls the agent itself, for what is asked of its own node.
	Agents Agents
	// Servers is the list of servers that the node knows.
	Servers ServerList
	// Connect returns a way to a server.
	Connect func(context.Context) (peer.Conn, error)
}

// NewAgent returns the HTTP API of an agent that is no server: it answers for
// itself, and has a server answer everything else, with the caller's own rights
// and no more.
func NewAgent(c AgentConfig) http.Handler {
	s := empty(Config{
		Region: c.Region, Logger: c.Logger, Self: c.Self, Health: c.Health, Metrics: c.Metrics, Servers: c.Servers, Cluster: noCluster{}, Store: state.New(),
		Authorize: c.Authorize, Agents: c.Agents,
	})
	s.server, s.self = c.Connect, &self{c.Has, c.Node}
	// Every route exists here too, so that any request can be passed on.
	s.all()
	for _, info := range []*op.Info{op.ReadSelf.Info, op.AgentServers.Info, op.ChangeServers.Info} {
		s.operations[info.Name].own = func(any) bool { return true }
	}
	// Logs of its own allocations need no server; all others are asked of one.
	logs := s.operations[op.ReadLogs.Name]
	logs.own = func(in any) bool { return c.Has(in.(*op.LogsQuery).AllocID) }
	logs.stream = func(ctx context.Context, _ Caller, in any, x *exchange) error {
		q := in.(*op.LogsQuery)
		if err := checkLogs(q); err != nil {
			return err
		}
		return sendLogs(ctx, x.w, q, c.Logs, c.Node())
	}
	return s
}

// noCluster is the cluster of an agent that is no server.
type noCluster struct{}

// Leader implements Cluster.
func (noCluster) Leader() (Leader, error) { return nil, state.ErrLost }

// Sync implements Cluster.
func (noCluster) Sync(context.Context) error { return state.ErrLost }

// Address implements Cluster.
func (noCluster) Address() string { return "" }
