package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/msgpack"
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
	// ACL has a server decide what callers may see, instead of Authorize.
	ACL  bool
	Has  func(alloc string) bool // reports whether this agent has an allocation
	Node func() berth.NodeID     // the node of this agent
	// Agents calls the agent itself, for what is asked of its own node.
	Agents Agents
	// Servers is the list of servers that the node knows.
	Servers ServerList
	// Diagnostics looks into the process of this agent; nil: nothing does.
	Diagnostics Diagnostics
	// Connect returns a way to a server.
	Connect func(context.Context) (peer.Conn, error)
	Audit   *Audit // the audit log; nil: there is none
}

// NewAgent returns the HTTP API of an agent that is no server: it answers for
// itself, and has a server answer everything else, with the caller's own rights
// and no more.
func NewAgent(c AgentConfig) *Server {
	if c.ACL {
		c.Authorize = func(who Caller, need acl.Capability, namespace string) error {
			return askServer(c, who, need, namespace)
		}
	}
	s := empty(Config{
		Region: c.Region, Logger: c.Logger, Self: c.Self, Health: c.Health, Metrics: c.Metrics, Servers: c.Servers, Cluster: noCluster{}, Store: state.New(),
		Authorize: c.Authorize, Agents: c.Agents, Audit: c.Audit, Diagnostics: c.Diagnostics,
	})
	s.server, s.self = c.Connect, &self{c.Has, c.Node, c.ACL}
	// Every route exists here too, so that any request can be passed on.
	s.all()
	for _, info := range []*op.Info{op.ReadSelf.Info, op.AgentServers.Info, op.ChangeServers.Info, op.ReadAudit.Info} {
		s.operations[info.Name].own = func(any) bool { return true }
	}
	// Logs of its own allocations need no server; all others are asked of one.
	logs := s.operations[op.ReadLogs.Name]
	if c.ACL { // servers know the namespaces of allocations
		return s
	}
	logs.own = func(in any) bool { return c.Has(in.(*op.LogsQuery).AllocID) }
	logs.stream = func(ctx context.Context, _ Caller, in any, x *exchange) error {
		q := in.(*op.LogsQuery)
		if err := checkLogs(q); err != nil {
			return err
		}
		return s.sendLogs(ctx, x.w, q, c.Node())
	}
	return s
}

// noCluster is the cluster of an agent that is no server.
type noCluster struct{}

// Leader implements Cluster.
func (noCluster) Leader() (Leader, error) { return nil, state.ErrLost }

// Sync implements Cluster.
func (noCluster) Sync(context.Context, time.Duration) error { return state.ErrLost }

// Address implements Cluster.
func (noCluster) Address() string { return "" }

// askServer has a server decide whether a caller may do something.
func askServer(c AgentConfig, who Caller, need acl.Capability, namespace string) error {
	if need == acl.Open {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	arg, err := msgpack.Append(nil, &op.CanQuery{Capability: string(need), Query: op.Query{Region: c.Region, Namespace: namespace, AuthToken: who.Token, AllowStale: true}})
	if err != nil {
		return err
	}
	got, err := conn.Forward(ctx, &op.Forwarded{Name: op.AskACL.Name, In: arg, Remote: who.Remote})
	if err != nil {
		return err
	}
	var can op.Can
	if err := json.Unmarshal(got.Body, &can); err != nil {
		return err
	}
	if !can.Allowed {
		return berth.Errorf(berth.Denied, "Permission denied: %s %s", who.lacks(), need)
	}
	return nil
}

// askTimeout is how long a server may take to decide.
const askTimeout = 10 * time.Second
