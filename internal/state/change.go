package state

import "berth"

// Table names a table.
type Table uint8

// The tables.
const (
	Namespaces Table = iota
	Nodes
	Jobs
	Evals
	Allocs
	Deployments
	Summaries
	SchedulerConfigs
	NodePools
	Services
	Streams
	Resources
	RootKeys
	Variables
	ACLTokens
	ACLPolicies
	ACLRoles
	ACLAuthMethods
	ACLBindingRules
	ACLOneTimeTokens
	Quotas
	QuotaUsages
	HostVolumes
	HostVolumeClaims
	CSIVolumes
	CSIClaims
	CSIPlugins
	tableCount
)

// tableNames has the names of the tables in the order of the constants.
var tableNames = [tableCount]string{"namespaces", "nodes", "jobs", "evals", "allocs", "deployments", "job_summary", "scheduler_config", "node_pools", "services", "streams", "resources", "root_keys", "variables", "acl_tokens", "acl_policies", "acl_roles", "acl_auth_methods", "acl_binding_rules", "acl_one_time_tokens", "quotas", "quota_usage", "host_volumes", "host_volume_claims", "csi_volumes", "csi_claims", "csi_plugins"}

// String returns the table's name in snake case.
func (t Table) String() string { return tableNames[t] }

// TableName returns the name of a table. ok is false if there is no table with
// that number.
func TableName(t Table) (name string, ok bool) {
	if t >= tableCount {
		return "", false
	}
	return tableNames[t], true
}

// Number is the number of a kind of command in the log.
type Number uint16

// Change is one row that a commit stored or removed. Old is nil for a new row,
// New for a removed one; both are pointers to the row's type. Changes are in
// the order in which they were made.
type Change struct {
	Table    Table
	By       Number // the kind of command that made it
	Index    uint64 // that command's state index
	Old, New any
}

// Result is the outcome of one command.
type Result struct {
	Index uint64 // its state index; for a refused command, the index of the state that it was applied to
	Err   error
}

// ClusterID identifies a cluster: all servers that share one state, now or
// later. Two clusters never have the same ID, even if one was restored from a
// snapshot of the other.
type ClusterID = berth.ID[Cluster]

// Cluster is the type parameter of a cluster's ID.
type Cluster struct{}
