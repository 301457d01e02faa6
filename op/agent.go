package op

import (
	"slices"
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// AgentSelf describes the agent that answers.
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

// HealthQuery asks for the health of an agent's server, its client, or both.
type HealthQuery struct {
	Type string `query:"type"` // client or server; "" is both
	Query
}

// AgentHealth is the health of an agent's client and server; nil for the one it
// does not run.
type AgentHealth struct {
	Client *Health `json:"client,omitempty"`
	Server *Health `json:"server,omitempty"`
}

// Health is the health of a client or a server.
type Health struct {
	Ok      bool   `json:"ok"`
	Message string `json:"message"`
}

// MetricsQuery asks for metrics.
type MetricsQuery struct {
	Format string `query:"format"` // prometheus, or "" for JSON
	Query
}

// WorkerConfig is how many scheduling workers a server has, and the types of
// evaluations that they process.
type WorkerConfig struct {
	ServerID          string   `json:"server_id"` // the name of the server
	NumSchedulers     int      `json:"num_schedulers"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
}

// ChangeWorkers changes the workers of the server that answers, until it
// restarts.
type ChangeWorkers struct {
	NumSchedulers     int      // 0: none
	EnabledSchedulers []string // empty: all
	Write
}

// Shape renames the fields of a body, which are spelled as in the answer. A
// client that sends an answer back also sends server_id, which is dropped.
func (*ChangeWorkers) Shape(body decode.Tree) decode.Tree {
	out := decode.Tree{}
	for name, v := range body {
		switch name {
		case "num_schedulers":
			name = "NumSchedulers"
		case "enabled_schedulers":
			name = "EnabledSchedulers"
		case "server_id":
			continue
		}
		out[name] = v
	}
	return out
}

// MostWorkers is the largest number of workers of a server.
const MostWorkers = 1024

// coreScheduler is Nomad's name for the type of the system's own evaluations.
// The leader processes them itself, without workers.
const coreScheduler = "_core"

// Types returns the types of evaluations that the workers process.
func (c *ChangeWorkers) Types() ([]string, error) {
	if c.NumSchedulers < 0 || c.NumSchedulers > MostWorkers {
		return nil, berth.Errorf(berth.Invalid, "num_schedulers: must be 0 to %d, got %d", MostWorkers, c.NumSchedulers)
	}
	types, unknown := Schedulers(c.EnabledSchedulers)
	if unknown != "" {
		return nil, berth.Errorf(berth.Invalid, "enabled_schedulers: %.40q is not a scheduler; there are %s", unknown, strings.Join(berth.JobTypes, ", "))
	}
	return types, nil
}

// Schedulers returns the types of evaluations that the names stand for, or the
// first name that is unknown. No names stand for all types, and so do Nomad's
// four: a configuration for Nomad that lists those leaves out nothing.
func Schedulers(named []string) (types []string, unknown string) {
	nomad := 0
	for _, t := range named {
		switch {
		case t == coreScheduler:
			continue
		case !slices.Contains(berth.JobTypes, t):
			return nil, t
		case slices.Contains(types, t):
			continue
		case t != berth.TypeStream:
			nomad++
		}
		types = append(types, t)
	}
	if len(types) == 0 || nomad == len(berth.JobTypes)-1 {
		return berth.JobTypes, ""
	}
	return types, ""
}

// ShownTypes returns types of evaluations as Nomad's clients know them: all of them
// are Nomad's four.
func ShownTypes(types []string) []string {
	if len(types) < len(berth.JobTypes) {
		return types
	}
	return slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == berth.TypeStream })
}

// Workers are the workers that a server runs now.
type Workers struct {
	ServerID   string   `json:"server_id"`
	Schedulers []Worker `json:"schedulers"`
}

// Worker is one scheduling worker.
type Worker struct {
	ID                string   `json:"id"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
	Started           string   `json:"started"` // RFC 3339
	Status            string   `json:"status"`  // always Started
	WorkloadStatus    string   `json:"workload_status"`
}

// The operations on agents and their cluster. Metrics answers in two formats;
// the type here is for JSON.
var (
	ReadSelf          = define[Query, AgentSelf]("agent.self", "GET /v1/agent/self", "", acl.AgentRead, acl.NoSpace, local)
	ReadHealth        = define[HealthQuery, AgentHealth]("agent.health", "GET /v1/agent/health", "", acl.Open, acl.NoSpace, local)
	ReadLeader        = define[Query, string]("status.leader", "GET /v1/status/leader", "", acl.Open, acl.NoSpace)
	ReadPeers         = define[Query, []string]("status.peers", "GET /v1/status/peers", "Status.Peers", acl.Open, acl.NoSpace)
	Ping              = define[Nothing, Nothing]("status.ping", "", "Status.Ping", acl.Open, acl.NoSpace, local)
	Metrics           = define[MetricsQuery, map[string]any]("agent.metrics", "GET /v1/metrics", "", acl.Open, acl.NoSpace, local)
	Regions           = define[Query, []string]("region.list", "GET /v1/regions", "", acl.Open, acl.NoSpace)
	ReadWorkerConfig  = define[Query, WorkerConfig]("agent.worker_config", "GET /v1/agent/schedulers/config", "", acl.AgentRead, acl.NoSpace, local)
	WriteWorkerConfig = define[ChangeWorkers, WorkerConfig]("agent.set_worker_config", "PUT /v1/agent/schedulers/config", "", acl.AgentWrite, acl.NoSpace, local)
	ReadWorkers       = define[Query, Workers]("agent.workers", "GET /v1/agent/schedulers", "", acl.AgentRead, acl.NoSpace, local)
)
