package state

import (
	"slices"

	"berth"
)

// Groups that wait for others, see [berth.Job.Awaits]. Package reconcile decides
// who waits; here is what raises the evaluation that goes on.

// SameRun reports whether an allocation of a group that runs once in each
// version did, or does, the run of the version j. A version that only changes
// counts needs no other run.
func SameRun(a *berth.Alloc, j *berth.Job) bool {
	return a.Job.UID == j.UID && (a.Job.Version == j.Version || onlyCounts(a.Job, j))
}

// opens reports whether the report of an allocation, which was in the status
// before, lets the scheduler go on with a group that waits: the last of the
// instances that are waited for runs or has finished. Groups that a deployment
// follows are left to that, which goes on when they are healthy. A run that was
// stopped for a newer version opens its own group when it ends.
func (tx *Tx) opens(a *berth.Alloc, before berth.ClientStatus) bool {
	if a.Client == before || a.Orphaned {
		return false
	}
	j := tx.Job(a.Key())
	if j == nil || j.UID != a.Job.UID || j.Stop || !j.Ordered() {
		return false
	}
	g := j.Group(a.Group.Name)
	switch {
	case g == nil:
		return false
	case !a.Wanted():
		return g.Once != "" && a.Ended()
	case !slices.ContainsFunc(j.TaskGroups, func(x *berth.TaskGroup) bool { return slices.Contains(j.Awaits(x), g) }):
		return false
	case j.Finite(g):
		return a.Client == berth.ClientComplete && tx.inStatus(j, g, berth.ClientComplete)
	}
	return a.Client == berth.ClientRunning && a.Rest().DeploymentID.IsZero() && tx.inStatus(j, g, berth.ClientRunning)
}

// inStatus reports whether each instance of a group has an allocation that
// should run and has that status.
func (tx *Tx) inStatus(j *berth.Job, g *berth.TaskGroup, s berth.ClientStatus) bool {
	seen := map[uint32]bool{}
	for a := range tx.AllocsOf(j.Key()) {
		if a.Job.UID == j.UID && a.Group.Name == g.Name && a.Wanted() && a.Client == s && int64(a.Index) < int64(g.Count) {
			seen[a.Index] = true
		}
	}
	return len(seen) >= g.Count
}

// FailedFirst returns an allocation of a group that runs once in each version,
// which failed in the version j and has no successor yet; nil if there is none.
func (s *Snapshot) FailedFirst(j *berth.Job) *berth.Alloc {
	if !j.Ordered() {
		return nil
	}
	for a := range s.AllocsOf(j.Key()) {
		g := j.Group(a.Group.Name)
		if a.Client == berth.ClientFailed && a.Wanted() && a.Rest().Next.IsZero() && g != nil && g.Once != "" && int64(a.Index) < int64(g.Count) && SameRun(a, j) {
			return a
		}
	}
	return nil
}

// noteFailedFirst notes in the job's active deployment that an allocation has
// failed without which the deployment cannot go on, so that its controller looks
// at it.
func (h *healths) noteFailedFirst(tx *Tx, a *berth.Alloc) {
	if a.Group.Once == "" || a.Client != berth.ClientFailed {
		return
	}
	if d := tx.activeOf(a.Key(), a.Job.UID); d != nil {
		h.of(tx, d.ID).HealthIndex = tx.Index
	}
}
