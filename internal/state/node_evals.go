package state

import (
	"cmp"
	"maps"
	"slices"

	"berth"
)

// raiseForNode raises one evaluation for each job that has an allocation on
// the node which has not ended, and if the node takes allocations one for each
// job that runs on every node and could run there.
func (tx *Tx) raiseForNode(n *berth.Node, seed [16]byte, now int64) (ids []berth.EvalID) {
	return tx.raiseEach(n, seed, now, func(*berth.Job) bool { return true })
}

// raiseForChange raises evaluations of the jobs that run on every node for one
// that conditions see with other eyes now. Other jobs stay where they are.
func (tx *Tx) raiseForChange(n *berth.Node, seed [16]byte, now int64) []berth.EvalID {
	if !tx.AnyPerNode() {
		return nil
	}
	return tx.raiseEach(n, seed, now, (*berth.Job).PerNode)
}

// raiseEach raises one evaluation for each job that has something on the node.
// It is one of the job that there is now, which looks at what is left of earlier
// ones of its name, too; if there is none, of the last one that left something.
func (tx *Tx) raiseEach(n *berth.Node, seed [16]byte, now int64, keep func(*berth.Job) bool) (ids []berth.EvalID) {
	newest := map[berth.JobKey]*berth.Job{}
	for a := range tx.AllocsOn(n.ID) {
		if a.Ended() || a.Orphaned {
			continue
		}
		k := a.Key()
		if old := newest[k]; old == nil || cmp.Or(compareIncarnations(old, a.Job), cmp.Compare(old.Version, a.Job.Version)) < 0 {
			newest[k] = a.Job
		}
	}
	for k, j := range newest {
		if now := tx.Job(k); now != nil {
			newest[k], j = now, now
		}
		if !keep(j) {
			delete(newest, k)
		}
	}
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

// raiseOn raises an evaluation for each of the jobs, because of a node.
func (tx *Tx) raiseOn(n *berth.Node, jobs []*berth.Job, trigger string, seed [16]byte, now int64) (ids []berth.EvalID) {
	// The order decides who gets which ID, so it must be the same everywhere.
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

// raiseForDeployed raises evaluations of the jobs that run on every node and
// have a deployment that goes on, for a node that takes nothing new any more:
// that need not be waited for.
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
