package op

import "berth/acl"

// AgentSelf is what an agent tells of itself.
type AgentSelf struct {
	Config map[string]any               `json:"config"`
	Member AgentMember                  `json:"member"`
	Stats  map[string]map[string]string `json:"stats"`
}

// AgentMember is an agent as a member of the cluster.
type AgentMember struct {
	Name        string
	Addr        string
	Port        uint16
	Tags        map[string]string
	Status      string
	ProtocolMin uint8
	ProtocolMax uint8
	ProtocolCur uint8
	DelegateMin uint8
	DelegateMax uint8
	DelegateCur uint8
}

// HealthQuery asks for the health of one side of an agent, or of both.
type HealthQuery struct {
	Type string `query:"type"` // client or server; "" is both
	Query
}

// AgentHealth is the health of an agent's sides; nil for a side it lacks.
type AgentHealth struct {
	Client *Health `json:"client,omitempty"`
	Server *Health `json:"server,omitempty"`
}

// Health is how one side is.
type Health struct {
	Ok      bool   `json:"ok"`
	Message string `json:"message"`
}

// MetricsQuery asks for metrics.
type MetricsQuery struct {
	Format string `query:"format"` // prometheus, or "" for JSON
	Query
}

// WorkerConfig is how many workers a server has that decide evaluations, and
// the types that they take.
type WorkerConfig struct {
	ServerID          string   `json:"server_id"` // the name of the server
	NumSchedulers     int      `json:"num_schedulers"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
}

// Workers are those of a server that run now.
type Workers struct {
	ServerID   string   `json:"server_id"`
	Schedulers []Worker `json:"schedulers"`
}

// Worker decides evaluations.
type Worker struct {
	ID                string   `json:"id"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
	Started           string   `json:"started"` // RFC 3339
	Status            string   `json:"status"`  // Started
	WorkloadStatus    string   `json:"workload_status"`
}

// The operations about agents and their cluster. Metrics answers in two
// formats; the type here is the JSON one.
var (
	ReadSelf         = define[Nothing, AgentSelf]("agent.self", "GET /v1/agent/self", "", acl.AgentRead, acl.NoSpace, local)
	ReadHealth       = define[HealthQuery, AgentHealth]("agent.health", "GET /v1/agent/health", "", acl.Open, acl.NoSpace, local)
	ReadLeader       = define[Query, string]("status.leader", "GET /v1/status/leader", "", acl.Open, acl.NoSpace)
	ReadPeers        = define[Query, []string]("status.peers", "GET /v1/status/peers", "Status.Peers", acl.Open, acl.NoSpace)
	Ping             = define[Nothing, Nothing]("status.ping", "", "Status.Ping", acl.Open, acl.NoSpace, local)
	Metrics          = define[MetricsQuery, map[string]any]("agent.metrics", "GET /v1/metrics", "", acl.Open, acl.NoSpace, local)
	Regions          = define[Query, []string]("region.list", "GET /v1/regions", "", acl.Open, acl.NoSpace)
	ReadWorkerConfig = define[Nothing, WorkerConfig]("agent.worker_config", "GET /v1/agent/schedulers/config", "", acl.AgentRead, acl.NoSpace, local)
	ReadWorkers      = define[Nothing, Workers]("agent.workers", "GET /v1/agent/schedulers", "", acl.AgentRead, acl.NoSpace, local)
	Tunnel           = define[Nothing, Nothing]("agent.tunnel", "", TunnelRPC, acl.Node, acl.NoSpace, local)
)

// TunnelRPC is the streaming method over which an agent that is no server
// passes HTTP requests on to one. Those are then asked for their own rights.
const TunnelRPC = "Berth.HTTP"
