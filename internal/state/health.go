package state

import (
	"time"

	"berth"
)

// What agents and users say of the health of allocations is counted in the
// deployment in the same command, so the counts are always those of a recount
// (known bug class N13).

// healths are the deployments of which a command hears something, each with a
// copy that is its own to change until store.
type healths map[berth.DeploymentID]*enrolment

// of returns the copy of a deployment, nil if it is gone.
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

// store stores what was heard, in an order that is the same on all servers.
func (h healths) store(tx *Tx, now int64) {
	for _, id := range sortedIDs(h) {
		h[id].store(tx, now)
	}
}

// judge notes in more, which belongs to a changed copy of a, that it is healthy
// or not, and counts that. What was said of it before is taken back.
func (h *healths) judge(tx *Tx, a *berth.Alloc, more *berth.AllocMore, healthy bool, at time.Time, now int64) {
	was := verdict(a)
	s := berth.AllocDeploymentStatus{Healthy: &healthy, Timestamp: at, ModifyIndex: tx.Index}
	if more.DeploymentStatus != nil {
		s.Canary = more.DeploymentStatus.Canary
	}
	more.DeploymentStatus = &s
	d := h.of(tx, more.DeploymentID)
	if d == nil || d.TaskGroups[a.Group.Name] == nil {
		return
	}
	g := d.TaskGroups[a.Group.Name]
	if was != nil {
		*counterOf(g, *was)--
	}
	*counterOf(g, healthy)++
	if !d.Active() {
		return
	}
	d.HealthIndex = tx.Index
	if healthy {
		g.Extend(now)
	}
}

func counterOf(g *berth.DeploymentState, healthy bool) *int {
	if healthy {
		return &g.HealthyAllocs
	}
	return &g.UnhealthyAllocs
}

// heard notes what an agent's report says of the health of an allocation. Its first word stands; after that only people may say something
// else. One whose tasks failed before it was healthy is not healthy, whether
// its agent says so or not.
func (h *healths) heard(tx *Tx, a *berth.Alloc, more *berth.AllocMore, u *AllocUpdate, now int64) {
	if !tellsHealth(a, u) {
		return
	}
	healthy, at := false, time.Unix(0, now).UTC()
	if u.Deployment != nil && u.Deployment.Healthy != nil {
		healthy, at = *u.Deployment.Healthy, u.Deployment.Timestamp
	}
	h.judge(tx, a, more, healthy, at, now)
}

// tellsHealth says whether a report is the first to tell of the health of an
// allocation. Outside of deployments it is kept, too: a drain waits for it.
func tellsHealth(a *berth.Alloc, u *AllocUpdate) bool {
	switch {
	case verdict(a) != nil:
		return false
	case u.Deployment != nil && u.Deployment.Healthy != nil:
		return true
	}
	return u.Client == berth.ClientFailed && a.More != nil && !a.More.DeploymentID.IsZero()
}

// seen notes that an evaluation raised with the command will look at a job, so
// that nobody need raise another for its deployment.
func (h healths) seen(tx *Tx, j *berth.Job) {
	for _, e := range h {
		if e.d.JobUID == j.UID && e.d.Key() == j.Key() {
			e.d.StepIndex = tx.Index
		}
	}
}
