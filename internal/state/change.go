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
	tableCount
)

var tableNames = [tableCount]string{"namespaces", "nodes", "jobs", "evals", "allocs", "deployments", "job_summary", "scheduler_config", "node_pools", "services", "streams", "resources"}

func (t Table) String() string { return tableNames[t] }

// TableName returns the name of a table, if there is one of the number.
func TableName(t Table) (name string, ok bool) {
	if t >= tableCount {
		return "", false
	}
	return tableNames[t], true
}

// Number names a kind of command, as the log does.
type Number uint16

// Change is one row that a commit put or removed. Old is nil for a new row,
// New for a removed one; both are pointers to the row's type. Changes stand in
// the order in which they were made.
type Change struct {
	Table    Table
	By       Number // the kind of command that made it
	Index    uint64 // that command's state index
	Old, New any
}

// Result is what became of one command.
type Result struct {
	Index uint64 // its state index; of a refused command that of the state it met
	Err   error
}

// ClusterID names a cluster: the servers that agree on one state, whichever they
// are. Two clusters never have the same, though one be made from what was saved
// of the other.
type ClusterID = berth.ID[Cluster]

// Cluster stands for a cluster in the type of its ID.
type Cluster struct{}
