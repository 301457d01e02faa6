package state

import (
	"iter"
	"maps"
	"path"
	"slices"

	"berth"
)

// PerNodeJobs returns the jobs that run on every node, in order of namespace
// and ID.
func (s *Snapshot) PerNodeJobs() iter.Seq[*berth.Job] {
	return rowsOf(&s.jobs.rows, s.jobs.perNode.All())
}

// AnyPerNode reports whether there is a job that runs on every node.
func (s *Snapshot) AnyPerNode() bool { return s.jobs.perNode.Len() > 0 }

// OpenEvalsOf returns the pending or blocked evaluations of a job, including
// those of earlier jobs with the same name, in no particular order.
func (s *Snapshot) OpenEvalsOf(k berth.JobKey, status string) iter.Seq[*berth.Eval] {
	return of(&s.evals.rows, s.evals.openIn(status), keyHash(k), func(e *berth.Eval) bool { return e.Key() == k })
}

// wants reports whether a job that runs on every node could run on n, as far as
// that is cheap to check.
func wants(j *berth.Job, n *berth.Node) bool {
	if j.Stop || !j.Schedulable() || j.NodePool != berth.AllNodePool && j.NodePool != n.NodePool {
		return false
	}
	return slices.ContainsFunc(j.Datacenters, func(glob string) bool {
		ok, _ := path.Match(glob, n.Datacenter)
		return ok || glob == "*"
	})
}

// sameToConditions reports whether constraints cannot distinguish the two
// versions of a node.
func sameToConditions(a, b *berth.Node) bool {
	return a.Class == b.Class && a.Name == b.Name && maps.Equal(a.Attributes, b.Attributes) && maps.Equal(a.Meta, b.Meta)
}

// checkNodeWaits refuses waits of a job that does not run on every node, and
// waits without a reason.
func checkNodeWaits(eval *berth.Eval, end *EvalEnd) error {
	waits := end.Nodes
	if len(waits) == 0 {
		return nil
	}
	if !berth.PerNode(eval.Type) {
		return berth.Errorf(berth.Invalid, "plan: evaluation %s has type %s, so it cannot wait for nodes", eval.ID, eval.Type)
	}
	seen := map[berth.NodeID]bool{}
	for i := range waits {
		if len(waits[i].Failed) == 0 || waits[i].Missed == nil {
			return berth.Errorf(berth.Invalid, "plan: evaluation %s waits for nodes without a reason", eval.ID)
		}
		// A node is in one wait only, or it would be evaluated twice.
		for _, id := range waits[i].Nodes {
			if seen[id] || id == eval.NodeID && end.Status == berth.EvalBlocked {
				return berth.Errorf(berth.Invalid, "plan: evaluation %s waits for node %s twice", eval.ID, id)
			}
			seen[id] = true
		}
	}
	return nil
}

// waitOnNodes stores the outcome e of evaluation old, and brings the job's
// blocked evaluations in line with it, because it looked at every node. One
// that waits for such a node keeps waiting; one whose node no longer lacks
// capacity is cancelled.
func (tx *Tx) waitOnNodes(old, e *berth.Eval, job *berth.Job, end *EvalEnd, now int64) {
	gaveUp := end.Blocked != nil || e.Status == berth.EvalBlocked && e.NodeID.IsZero() // it does not know of any node
	have := map[berth.NodeID]*berth.Eval{}
	for _, b := range tx.blockedOf(job) {
		switch {
		case b.ID == e.ID:
		case b.NodeID.IsZero(): // that one gave up; this outcome is newer
			tx.supersede(b, e.ID, now)
		case !gaveUp:
			have[b.NodeID] = b
		}
	}
	queued := end.Queued
	if e.Status == berth.EvalBlocked { // its own waits are those of its node
		queued = maps.Clone(end.Queued)
	}
	var fresh []*berth.Eval
	for i := range end.Nodes {
		w := &end.Nodes[i]
		for _, id := range w.Nodes {
			if e.Status == berth.EvalBlocked {
				for g, n := range w.Queued {
					queued[g] += n
				}
			}
			if b := have[id]; b != nil {
				delete(have, id)
				tx.waitOn(b, e, w, end)
			} else if tx.Node(id) != nil {
				fresh = append(fresh, tx.newNodeWait(e, id, w, end, now))
			}
		}
	}
	if len(fresh) > 0 {
		e.BlockedEval = fresh[0].ID // a row can name only one; the others name e as their previous, too
	}
	tx.putEval(old, e)
	for _, next := range fresh {
		tx.putEval(nil, next)
	}
	tx.setQueued(job, queued)
	for _, b := range tx.blockedOf(job) {
		if have[b.NodeID] == b {
			tx.supersede(b, e.ID, now)
		}
	}
}

// waitOn lets a blocked evaluation of a node keep waiting, with the new reason
// if that changed.
func (tx *Tx) waitOn(b, by *berth.Eval, w *NodeWait, end *EvalEnd) {
	if b.JobModifyIndex == by.JobModifyIndex && b.Missed != nil && slices.Equal(b.Missed.Dimensions, w.Missed.Dimensions) && b.Missed.Quota == w.Missed.Quota {
		return
	}
	n := *b
	n.FailedTGAllocs, n.QueuedAllocations, n.Missed, n.QuotaLimitReached = w.Failed, w.Queued, w.Missed, w.Missed.Quota
	n.JobModifyIndex, n.SnapshotIndex, n.DeploymentID = by.JobModifyIndex, end.SnapshotIndex, tx.deploymentOfEval(by)
	tx.putEval(b, &n)
}

// newNodeWait returns a blocked evaluation that waits for capacity on a node.
func (tx *Tx) newNodeWait(by *berth.Eval, node berth.NodeID, w *NodeWait, end *EvalEnd, now int64) *berth.Eval {
	return &berth.Eval{
		ID: tx.newID(by.ID), Namespace: by.Namespace, JobID: by.JobID, JobUID: by.JobUID, Type: by.Type, Priority: by.Priority,
		TriggeredBy: berth.TriggerQueuedAllocs, Cause: berth.Cause{Kind: berth.CauseEval, ID: by.ID.String()},
		JobModifyIndex: by.JobModifyIndex, NodeID: node, PreviousEval: by.ID, Status: berth.EvalBlocked,
		FailedTGAllocs: w.Failed, QueuedAllocations: w.Queued, Missed: w.Missed, QuotaLimitReached: w.Missed.Quota, SnapshotIndex: end.SnapshotIndex,
		DeploymentID: tx.deploymentOfEval(by), CreateTime: now, ModifyTime: now,
	}
}
