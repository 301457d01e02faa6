package state

import (
	"berth"
)

// A Snapshot is the whole state at one index. It never changes; reading it
// needs no lock. Values it returns must not be changed either.
type Snapshot struct {
	Index     uint64 // of the last command applied
	Term      uint64 // of the last leader that began
	TermIndex uint64 // where that term began
	// Restored is the index at which the state was replaced as a whole by one
	// that was saved before, 0 if it never was. Rows keep the indexes that they
	// had when they were saved, so whoever saw a row at an index up to this one
	// may have seen another.
	Restored uint64
	// Cluster names those who agree on this state, for ever. It is zero until
	// the first term that says it, as logs of older builds may not.
	Cluster ClusterID
	// LogVersion is the log version that all servers know which agree on this
	// state: the greatest that a command on the way here needed. It is no part of
	// what is compared.
	LogVersion int

	namespaces   namespaceTable
	nodes        nodeTable
	jobs         jobTable
	evals        evalTable
	allocs       allocTable
	deployments  deploymentTable
	reschedules  rescheduleTable
	explanations explanationTable
	scheduler    *berth.SchedulerConfig // nil: never set
	pools        poolTable
	services     serviceTable
	deletions    deletionTable
	streams      streamTable
	resources    resourceTable
	streamIDs    uint64 // the last that was given to a stream job
	traces       traces

	check     *Check                 // the last one on the way here; no part of the state
	autopilot *berth.AutopilotConfig // nil: never set
	limit     *versionLimit          // nil: never set
}

// ClusterID names a cluster: the servers that agree on one state, whichever they
// are. Two clusters never have the same, though one be made from what was saved
// of the other.
type ClusterID = berth.ID[Store]

// emptySnapshot is the state that every log starts from. It is at index 1, so
// that no answer has the index 0, which clients take for "unknown".
func emptySnapshot() *Snapshot {
	tx := Begin(&Snapshot{Index: 1, LogVersion: 1})
	tx.putNamespace(nil, &berth.Namespace{
		Name: berth.DefaultNamespace, Description: "Default shared namespace", CreateIndex: 1, ModifyIndex: 1,
	})
	tx.builtInPools()
	return tx.Seal()
}

// LastChange returns the index at which a row of the table was last changed,
// at least 1.
func (s *Snapshot) LastChange(t Table) uint64 {
	var i uint64
	switch t {
	case Namespaces:
		i = s.namespaces.changed
	case Nodes:
		i = s.nodes.changed
	case Jobs:
		i = s.jobs.changed
	case Evals:
		i = s.evals.changed
	case Allocs:
		i = s.allocs.changed
	case Deployments:
		i = s.deployments.changed
	case Summaries:
		i = s.jobs.summaryChanged
	case SchedulerConfigs:
		i = s.SchedulerConfig().ModifyIndex
	case NodePools:
		i = s.pools.changed
	case Services:
		i = s.services.changed
	case Streams:
		i = s.streams.changed
	case Resources:
		i = s.resources.changed
	}
	return max(i, 1)
}

// Count returns the number of rows of the table.
func (s *Snapshot) Count(t Table) int {
	switch t {
	case Namespaces:
		return s.namespaces.count
	case Nodes:
		return s.nodes.count
	case Jobs, Summaries:
		return s.jobs.count
	case Evals:
		return s.evals.count
	case Allocs:
		return s.allocs.count
	case Deployments:
		return s.deployments.count
	case SchedulerConfigs:
		return 1
	case NodePools:
		return s.pools.count
	case Services:
		return s.services.count
	case Streams:
		return s.streams.count
	case Resources:
		return s.resources.count
	}
	return 0
}
