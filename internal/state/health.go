package state

import (
	"time"

	"berth"
)

// A command that changes the health of allocations changes the counts of their
// deployment too, so the counts always equal a recount (known bug class N13).

// healths are the deployments that a command changes, each with a copy that may
// be changed until store.
type healths map[berth.DeploymentID]*enrolment

// of returns the copy of a deployment, or nil if it is gone.
func (h *healths) of(tx *Tx, id berth.DeploymentID) *berth.Deployment {
	if e := (*h)[id]; e != nil {
		return e.d
	}
	old := tx.Deployment(id)
	if old == nil {
		return nil
	}
	if *h == nil {
		*h = healths{}
	}
	fresh := *old
	(*h)[id] = newEnrolment(old, &fresh)
	return (*h)[id].d
}

// store stores the changed deployments, in an order that is the same on all
// servers.
func (h healths) store(tx *Tx, now int64) {
	for _, id := range sortedIDs(h) {
		h[id].store(tx, now)
	}
}

// judge records in more, which belongs to a changed copy of a, whether it is
// healthy, and updates the counts. An earlier verdict is taken back.
func (h *healths) judge(tx *Tx, a *berth.Alloc, more *berth.AllocMore, healthy bool, at time.Time, now int64) {
	was := verdict(a)
	s := berth.AllocDeploymentStatus{Healthy: &healthy, Timestamp: at, ModifyIndex: tx.Index}
	if more.DeploymentStatus != nil {
		s.Canary = more.DeploymentStatus.Canary
	}
	more.DeploymentStatus = &s
	// Count it, if its deployment still exists.
	d := h.of(tx, more.DeploymentID)
	if d == nil || d.TaskGroups[a.Group.Name] == nil {
		return
	}
	g := d.TaskGroups[a.Group.Name]
	// A second verdict replaces the first.
	if was != nil {
		*counterOf(g, *was)--
	}
	*counterOf(g, healthy)++
	// Only an active deployment goes on with the report.
	if !d.Active() {
		return
	}
	d.HealthIndex = tx.Index
	if healthy {
		g.Extend(now)
	}
}

// counterOf returns the counter of a group's allocations of one health.
func counterOf(g *berth.DeploymentState, healthy bool) *int {
	if healthy {
		return &g.HealthyAllocs
	}
	return &g.UnhealthyAllocs
}

// reported records the health in an agent's report. The agent's first verdict
// stays; after that only people may change it. An allocation whose tasks failed
// before it was healthy is unhealthy, whatever its agent says.
func (h *healths) reported(tx *Tx, a *berth.Alloc, more *berth.AllocMore, u *AllocUpdate, now int64) {
	if !firstHealth(a, u) {
		return
	}
	healthy, at := false, time.Unix(0, now).UTC()
	if u.Deployment != nil && u.Deployment.Healthy != nil {
		healthy, at = *u.Deployment.Healthy, u.Deployment.Timestamp
	}
	h.judge(tx, a, more, healthy, at, now)
}

// firstHealth reports whether a report is the first with the health of an
// allocation. It is kept outside of deployments too, because a drain waits for
// it.
func firstHealth(a *berth.Alloc, u *AllocUpdate) bool {
	switch {
	case verdict(a) != nil:
		return false
	case u.Deployment != nil && u.Deployment.Healthy != nil:
		return true
	}
	return u.Client == berth.ClientFailed && a.More != nil && !a.More.DeploymentID.IsZero()
}

// evaluated notes that the command creates an evaluation of a job, so that its
// deployment needs no other.
func (h healths) evaluated(tx *Tx, j *berth.Job) {
	for _, e := range h {
		if e.d.JobUID == j.UID && e.d.Key() == j.Key() {
			e.d.StepIndex = tx.Index
		}
	}
}
