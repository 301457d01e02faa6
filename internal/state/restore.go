package state

// Raised returns the state as it is restored over one that was at the index
// over: what it holds is the same, but its index is beyond both, so that
// indexes never fall, and every table counts as changed there, so that whoever
// waits for a change learns of this one. The term does not fall either, and the
// cluster stays the one that it is. The log does not forget what it was said in.
func (s *Snapshot) Raised(over *Snapshot) *Snapshot {
	n := *s
	n.Index = max(s.Index, over.Index) + 1
	n.Restored = n.Index
	n.Term = max(s.Term, over.Term)
	n.LogVersion = max(s.LogVersion, over.LogVersion)
	if !over.Cluster.IsZero() {
		n.Cluster = over.Cluster
	}
	n.check = nil
	n.namespaces.changed, n.nodes.changed, n.jobs.changed = n.Index, n.Index, n.Index
	n.evals.changed, n.allocs.changed, n.deployments.changed = n.Index, n.Index, n.Index
	n.jobs.summaryChanged, n.pools.changed, n.services.changed = n.Index, n.Index, n.Index
	n.streams.changed, n.resources.changed = n.Index, n.Index
	n.streamIDs = max(s.streamIDs, over.streamIDs)
	return &n
}
