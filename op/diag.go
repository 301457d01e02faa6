package op

import (
	"berth"
	"berth/internal/acl"
)

// AgentTarget names the agent that a request about an agent is for: a node's, or
// that of a server. Empty: the agent that is asked. A server is named by its
// name, its ID in Raft, its address, or LeaderTarget.
type AgentTarget struct{ NodeID, ServerID string }

// LeaderTarget, as the ID of a server, is the one that leads.
const LeaderTarget = "leader"

// MonitorQuery asks for the log of an agent as it is written.
type MonitorQuery struct {
	LogLevel           string `query:"log_level"` // the lowest; "" is info
	LogJSON            bool   `query:"log_json"`
	LogIncludeLocation bool   `query:"log_include_location"` // add file and line of the code
	Plain              bool   `query:"plain"`                // lines as they are, not frames
	NodeID             string `query:"node_id"`
	ServerID           string `query:"server_id"`
	Query
}

// Target returns the agent that is asked.
func (q *MonitorQuery) Target() AgentTarget { return AgentTarget{q.NodeID, q.ServerID} }

// ExportQuery asks for what an agent wrote into its log file.
type ExportQuery struct {
	OnDisk      bool   `query:"on_disk"`      // must be set: the log file is what there is
	ServiceName string `query:"service_name"` // not supported: journals are read with journalctl
	LogsSince   string `query:"logs_since"`   // not supported with a file
	Follow      bool   `query:"follow"`       // not supported with a file
	Plain       bool   `query:"plain"`
	NodeID      string `query:"node_id"`
	ServerID    string `query:"server_id"`
	Query
}

// Target returns the agent that is asked.
func (q *ExportQuery) Target() AgentTarget { return AgentTarget{q.NodeID, q.ServerID} }

// ProfileQuery asks for a profile of an agent's process.
type ProfileQuery struct {
	Profile  string // cmdline, profile, trace, or a name of runtime/pprof, such as heap
	Seconds  int    `query:"seconds"` // of profile and trace; 0: 1
	Debug    int    `query:"debug"`   // write the others as text
	GC       int    `query:"gc"`      // collect garbage before
	NodeID   string `query:"node_id"`
	ServerID string `query:"server_id"`
	Query
}

// Target returns the agent that is asked.
func (q *ProfileQuery) Target() AgentTarget { return AgentTarget{q.NodeID, q.ServerID} }

// HostQuery asks what an agent's machine is.
type HostQuery struct {
	NodeID   string `query:"node_id"`
	ServerID string `query:"server_id"`
	Query
}

// Target returns the agent that is asked.
func (q *HostQuery) Target() AgentTarget { return AgentTarget{q.NodeID, q.ServerID} }

// AgentHost is the machine of an agent.
type AgentHost struct {
	AgentID  string // of its node, or the name of its server
	HostData any
}

// ReloadAgent asks an agent to read its configuration again.
type ReloadAgent struct{ Write }

// CountEvals asks how many evaluations meet a filter.
type CountEvals struct{ Query }

// EvalCount answers CountEvals.
type EvalCount struct {
	Count int
	Meta
}

// EvaluateNode asks for an evaluation of each job with an allocation on a node.
type EvaluateNode struct {
	NodeID string
	Write
}

// NodeEvaluated answers EvaluateNode.
type NodeEvaluated struct {
	EvalID          berth.EvalID // one of EvalIDs
	EvalIDs         []berth.EvalID
	EvalCreateIndex uint64
	NodeModifyIndex uint64
	Meta
}

// PurgeNode asks for a node to be forgotten, with what ended on it.
type PurgeNode struct {
	NodeID string
	Write
}

// NodePurged answers PurgeNode.
type NodePurged struct {
	EvalIDs         []berth.EvalID // none: those for lost allocations were raised when the node went down
	EvalCreateIndex uint64
	NodeModifyIndex uint64
	Meta
}

// ReconcileSummaries asks for the counts of jobs to be made again.
type ReconcileSummaries struct{ Write }

// VaultUpgrade says what stands in the way of identities of tasks for Vault:
// nothing, because Berth never had another way.
type VaultUpgrade struct {
	JobsWithoutVaultIdentity []JobStub
	OutdatedNodes            []NodeStub
	VaultTokens              []Nothing
}

// The operations that look into an agent, and those of maintenance.
var (
	Monitor       = define[MonitorQuery, StreamFrame]("agent.monitor_log", "GET /v1/agent/monitor", "", acl.AgentRead, acl.NoSpace, local)
	MonitorExport = define[ExportQuery, StreamFrame]("agent.export_log", "GET /v1/agent/monitor/export", "", acl.AgentRead, acl.NoSpace, local)
	Profile       = define[ProfileQuery, Nothing]("agent.profile", "GET /v1/agent/pprof/{Profile}", "", acl.AgentWrite, acl.NoSpace, local, bytes)
	ReadAgentHost = define[HostQuery, AgentHost]("agent.host", "GET /v1/agent/host", "", acl.AgentRead, acl.NoSpace, local)
	Reload        = define[ReloadAgent, Nothing]("agent.reload", "PUT /v1/agent/reload", "", acl.AgentWrite, acl.NoSpace, local)

	EvalsCount     = define[CountEvals, EvalCount]("eval.count", "GET /v1/evaluations/count", "", acl.ReadJob, acl.QuerySpace, leader)
	NodeEvaluate   = define[EvaluateNode, NodeEvaluated]("node.evaluate", "PUT /v1/node/{NodeID}/evaluate", "", acl.NodeWrite, acl.NoSpace)
	NodePurge      = define[PurgeNode, NodePurged]("node.purge", "PUT /v1/node/{NodeID}/purge", "", acl.NodeWrite, acl.NoSpace)
	Reconcile      = define[ReconcileSummaries, Nothing]("system.reconcile", "PUT /v1/system/reconcile/summaries", "", acl.Management, acl.NoSpace)
	CheckVault     = define[Query, VaultUpgrade]("operator.upgrade_check", "GET /v1/operator/upgrade-check/vault-workload-identity", "", acl.OperatorRead, acl.NoSpace)
	AllocChecksToo = define[AllocRef, map[string]CheckStatus]("alloc.checks_read", "GET /v1/allocation/{AllocID}/checks", "", acl.ReadJob, acl.AllocSpace, local)

	DispatchPayload = define[DispatchJob, JobDispatched]("job.dispatch_payload", "PUT /v1/job/{JobID}/dispatch/payload", "", acl.DispatchJob, acl.QuerySpace, payload)

	AgentMonitor = define[MonitorQuery, StreamFrame]("agent.node_log", "", "Agent.Monitor", acl.Server, acl.NoSpace, agents)
	AgentExport  = define[ExportQuery, StreamFrame]("agent.node_log_file", "", "Agent.MonitorExport", acl.Server, acl.NoSpace, agents)
	AgentProfile = define[ProfileQuery, ProfileTaken]("agent.node_profile", "", "Agent.Profile", acl.Server, acl.NoSpace, agents)
	AgentTells   = define[HostQuery, AgentHost]("agent.node_host", "", "Agent.Host", acl.Server, acl.NoSpace, agents)
)

// ProfileTaken is a profile as an agent answers a server.
type ProfileTaken struct{ Payload []byte }
