package state

import (
	"cmp"
	"maps"
	"slices"

	"berth"
)

// raiseForNode creates one evaluation for each job that has a live allocation
// on the node. If the node takes allocations, it also creates one for each job
// that runs on every node and could run there.
func (tx *Tx) raiseForNode(n *berth.Node, seed [16]byte, now int64) (ids []berth.EvalID) {
	return tx.raiseEach(n, seed, now, func(*berth.Job) bool { return true })
}

// raiseForChange creates evaluations of the jobs that run on every node, for a
// node whose attributes changed so that constraints may match differently.
// Other jobs stay where they are.
func (tx *Tx) raiseForChange(n *berth.Node, seed [16]byte, now int64) []berth.EvalID {
	if !tx.AnyPerNode() {
		return nil
	}
	return tx.raiseEach(n, seed, now, (*berth.Job).PerNode)
}

// raiseForPlugins creates evaluations of the jobs that run on every node and use CSI
// volumes, for a node whose CSI plugins, or what they reach, changed.
func (tx *Tx) raiseForPlugins(n *berth.Node, seed [16]byte, now int64) []berth.EvalID {
	var jobs []*berth.Job
	for j := range tx.PerNodeJobs() {
		if n.Ready() && wants(j, n) && slices.ContainsFunc(j.TaskGroups, mountsCSI) {
			jobs = append(jobs, j)
		}
	}
	return tx.raiseOn(n, jobs, berth.TriggerNodeUpdate, seed, now)
}

// samePlugins reports whether two versions of a node have the same CSI node plugins,
// which reach the same volumes. Whether they are healthy does not count.
func samePlugins(a, b *berth.Node) bool {
	return maps.EqualFunc(a.CSINodePlugins, b.CSINodePlugins, func(x, y *berth.CSIInfo) bool {
		return x.RequiresTopologies == y.RequiresTopologies && maps.Equal(reached(x), reached(y))
	})
}

// reached returns the segments of the topology of a node, as its plugin says.
func reached(x *berth.CSIInfo) map[string]string {
	if x.NodeInfo == nil || x.NodeInfo.AccessibleTopology == nil {
		return nil
	}
	return x.NodeInfo.AccessibleTopology.Segments
}

// raiseEach creates one evaluation for each job that has something on the node.
// It is for the current job, which also looks at what earlier jobs of its name
// left. Without one, it is for the last job that left something.
func (tx *Tx) raiseEach(n *berth.Node, seed [16]byte, now int64, keep func(*berth.Job) bool) (ids []berth.EvalID) {
	newest := map[berth.JobKey]*berth.Job{}
	// The jobs with allocations here, each in the newest version among them.
	for a := range tx.AllocsOn(n.ID) {
		if a.Ended() || a.Orphaned {
			continue
		}
		k := a.Key()
		if old := newest[k]; old == nil || cmp.Or(compareIncarnations(old, a.Job), cmp.Compare(old.Version, a.Job.Version)) < 0 {
			newest[k] = a.Job
		}
	}
	// A job that still exists counts as it is now.
	for k, j := range newest {
		if now := tx.Job(k); now != nil {
			newest[k], j = now, now
		}
		if !keep(j) {
			delete(newest, k)
		}
	}
	// Jobs that run on every node may start here.
	if n.Ready() {
		for j := range tx.PerNodeJobs() {
			if wants(j, n) {
				newest[j.Key()] = j
			}
		}
	}
	jobs := slices.Collect(maps.Values(newest))
	return tx.raiseOn(n, jobs, berth.TriggerNodeUpdate, seed, now)
}

// raiseOn creates an evaluation for each of the jobs, because of a node.
func (tx *Tx) raiseOn(n *berth.Node, jobs []*berth.Job, trigger string, seed [16]byte, now int64) (ids []berth.EvalID) {
	// The order decides which ID each evaluation gets, so it must be the same
	// on all servers.
	slices.SortFunc(jobs, compareIncarnations)
	for _, j := range jobs {
		e := &berth.Eval{
			ID: tx.newID(seed), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, Type: j.Type, Priority: j.Priority,
			TriggeredBy: trigger, Cause: berth.Cause{Kind: berth.CauseNode, ID: n.ID.String()},
			JobModifyIndex: j.JobModifyIndex, NodeID: n.ID, NodeModifyIndex: tx.Index,
			Status: berth.EvalPending, CreateTime: now, ModifyTime: now,
		}
		tx.putEval(nil, e)
		ids = append(ids, e.ID)
	}
	return ids
}

// raiseForDeployed creates evaluations of the jobs that run on every node and
// have an active deployment, for a node that became ineligible: their
// deployments need not wait for it.
func (tx *Tx) raiseForDeployed(n *berth.Node, seed [16]byte, now int64) []berth.EvalID {
	if tx.CountActiveDeployments() == 0 || !tx.AnyPerNode() {
		return nil
	}
	var jobs []*berth.Job
	for j := range tx.PerNodeJobs() {
		if wants(j, n) && tx.activeOf(j.Key(), j.UID) != nil {
			jobs = append(jobs, j)
		}
	}
	return tx.raiseOn(n, jobs, berth.TriggerNodeUpdate, seed, now)
}
