package op

import (
	"slices"
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

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

// ChangeWorkers changes the workers of the server that is asked, until it is
// started again.
type ChangeWorkers struct {
	NumSchedulers     int      // 0: none
	EnabledSchedulers []string // none named: all that there are
	Write
}

// Shape gives the fields of a body, which are spelt as in its answer, their own
// names. Who sends an answer back says which server it was of.
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

// MostWorkers is how many workers a server can have.
const MostWorkers = 1024

// coreScheduler is what Nomad calls the system's own evaluations, which the
// leader decides whatever workers there are.
const coreScheduler = "_core"

// Types returns the types of evaluations that the workers are to take.
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

// Schedulers returns the types of evaluations that workers take which are to
// take those that are named, or a name that is none. No name is all. So are the
// four that Nomad has: who named those left none out.
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
