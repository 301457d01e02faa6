package state

import (
	"fmt"
	"slices"
	"time"

	"berth"
)

// active returns an active deployment, or an error.
func (tx *Tx) active(id berth.DeploymentID) (*berth.Deployment, error) {
	d := tx.Deployment(id)
	switch {
	case d == nil:
		return nil, berth.Errorf(berth.NotFound, "deployment not found: %s", id)
	case !d.Active():
		return nil, berth.Errorf(berth.Invalid, "deployment %s has ended with status %s", id, d.Status)
	}
	return d, nil
}

// continueDeployment creates the evaluation that continues a deployment and
// returns its ID, or zero if its job does not need one. d is about to be
// stored, or has ended. by is the request that asked for it, or nil.
func (tx *Tx) continueDeployment(d *berth.Deployment, by *berth.Request, now int64) (id berth.EvalID) {
	j := tx.Job(d.Key())
	if j == nil || j.UID != d.JobUID || j.Stop {
		return id
	}
	e := newEval(j, EvalSeed{
		ID: tx.newID(d.ID), Priority: d.EvalPriority, TriggeredBy: berth.TriggerDeploymentWatcher,
		Cause: berth.Cause{Kind: berth.CauseDeployment, ID: d.ID.String(), Request: by},
	}, now)
	e.DeploymentID = d.ID
	tx.putEval(nil, e)
	if d.Active() { // otherwise it is stored already
		d.StepIndex = tx.Index
	}
	return e.ID
}

// SetDeploymentStatus pauses, resumes or cancels a deployment.
type SetDeploymentStatus struct {
	ByLeader
	ID          berth.DeploymentID
	Status      string // running, paused or cancelled
	Description string // "" means the usual text of the status
	Now         int64
	Request     *berth.Request // of the user who asked for it; nil if none did, or before log version 3

	Eval berth.EvalID `msgpack:"-"` // set by Apply: the created evaluation
}

// Apply implements Command. Time spent paused does not count towards the
// progress deadlines.
func (c *SetDeploymentStatus) Apply(tx *Tx) error {
	old, err := tx.active(c.ID)
	if err != nil {
		return err
	}
	d := newEnrolment(old, new(*old)).d
	switch c.Status {
	case berth.DeploymentPaused:
		d.StatusDescription = berth.DeploymentHeld
	case berth.DeploymentRunning:
		d.StatusDescription = d.Runs()
	case berth.DeploymentCancelled:
		d.StatusDescription = berth.DeploymentJobReplaced
	default:
		return berth.Errorf(berth.Invalid, "cannot set the deployment status to %q: want running, paused or cancelled", c.Status)
	}
	if c.Description != "" {
		d.StatusDescription = c.Description
	}
	// No change is no error: the request may be a repeat.
	c.Eval = berth.EvalID{}
	if old.Status == c.Status {
		return nil
	}
	d.Status, d.ModifyTime = c.Status, c.Now
	// The time of the pause does not count against the deadlines.
	if c.Status == berth.DeploymentRunning {
		for _, g := range d.TaskGroups {
			g.Extend(c.Now)
		}
		c.Eval = tx.continueDeployment(d, c.Request, c.Now)
	}
	tx.putDeployment(old, d)
	return nil
}

// PromoteDeployment turns the canaries of a deployment into regular instances,
// so that the old instances beside them are replaced.
type PromoteDeployment struct {
	ByLeader
	ID      berth.DeploymentID
	Groups  []string // empty: all that have canaries
	Now     int64
	Request *berth.Request // of the user who asked for it; nil if none did, or before log version 3

	Eval berth.EvalID `msgpack:"-"` // set by Apply: the created evaluation
}

// Apply implements Command. It is refused unless all canaries of the groups are
// healthy.
func (c *PromoteDeployment) Apply(tx *Tx) error {
	old, err := tx.active(c.ID)
	if err != nil {
		return err
	}
	groups, err := c.groups(old)
	if err != nil {
		return err
	}
	// Check all groups before the first change.
	for _, name := range groups {
		s := old.TaskGroups[name]
		if n := tx.HealthyCanaries(old, name); n < s.DesiredCanaries {
			return berth.Errorf(berth.Invalid, "task group %q has %d of %d canaries healthy; all must be healthy before promotion", name, n, s.DesiredCanaries)
		}
	}
	// Canaries take the names of those that they replace.
	d := newEnrolment(old, new(*old)).d
	for _, name := range groups {
		s := d.TaskGroups[name]
		s.Promoted = true
		s.Extend(c.Now)
		for _, id := range s.PlacedCanaries {
			tx.nameCanary(id, c.Now)
		}
	}
	d.ModifyTime = c.Now
	if d.Status == berth.DeploymentRunning {
		d.StatusDescription = d.Runs()
	}
	c.Eval = tx.continueDeployment(d, c.Request, c.Now)
	tx.putDeployment(old, d)
	return nil
}

// groups returns the groups to promote, in order.
func (c *PromoteDeployment) groups(d *berth.Deployment) (out []string, err error) {
	for _, name := range c.Groups {
		switch s := d.TaskGroups[name]; {
		case s == nil:
			return nil, berth.Errorf(berth.Invalid, "Groups: deployment %s has no group %.150q", d.ID, name)
		case s.DesiredCanaries == 0:
			return nil, berth.Errorf(berth.Invalid, "Groups: group %q of deployment %s has no canaries to promote", name, d.ID)
		case s.Promoted:
			return nil, berth.Errorf(berth.Invalid, "Groups: group %q of deployment %s is already promoted", name, d.ID)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	// Without names: all that wait for a promotion.
	if len(c.Groups) == 0 {
		for name, s := range d.TaskGroups {
			if !s.Past() {
				out = append(out, name)
			}
		}
	}
	if len(out) == 0 {
		return nil, berth.Errorf(berth.Invalid, "deployment %s has no canaries to promote", d.ID)
	}
	slices.Sort(out)
	return out, nil
}

// HealthyCanaries returns how many canaries of a group are healthy and meant to
// run.
func (s *Snapshot) HealthyCanaries(d *berth.Deployment, group string) (n int) {
	for _, id := range d.TaskGroups[group].PlacedCanaries {
		if a := s.Alloc(id); a != nil && a.Live() && a.Rest().DeploymentID == d.ID {
			if ok := verdict(a); ok != nil && *ok {
				n++
			}
		}
	}
	return n
}

// nameCanary makes a canary a regular instance. Its agent must see that,
// because the tags of its services change.
func (tx *Tx) nameCanary(id berth.AllocID, now int64) {
	old := tx.Alloc(id)
	if old == nil || old.Rest().DeploymentStatus == nil || !old.Rest().DeploymentStatus.Canary || old.Ended() {
		return
	}
	a, more := old.With()
	s := *more.DeploymentStatus
	s.Canary, s.ModifyIndex = false, tx.Index
	more.DeploymentStatus = &s
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	tx.changeAlloc(old, a)
}

// SetAllocHealth marks allocations of a deployment as healthy or unhealthy by
// hand. An unhealthy one fails the deployment if Fail is set.
type SetAllocHealth struct {
	ByLeader
	ID                 berth.DeploymentID
	Healthy, Unhealthy []berth.AllocID
	Fail               bool
	// Silent skips allocations that already have a health.
	Silent  bool
	Now     int64
	Request *berth.Request // of the user who asked for it; nil if none did, or before log version 3

	Eval     berth.EvalID `msgpack:"-"` // set by Apply: the created evaluation
	Reverted *uint64      `msgpack:"-"` // set by Apply: the version that the job was reverted to
}

// Apply implements Command.
func (c *SetAllocHealth) Apply(tx *Tx) error {
	old, err := tx.active(c.ID)
	if err != nil {
		return err
	}
	if len(c.Healthy)+len(c.Unhealthy) == 0 {
		return berth.Errorf(berth.Invalid, "no healthy or unhealthy allocation named")
	}
	// Check all before the first change.
	said := map[berth.AllocID]bool{}
	for i, id := range slices.Concat(c.Healthy, c.Unhealthy) {
		switch a := tx.Alloc(id); {
		case a == nil:
			return berth.Errorf(berth.NotFound, "alloc not found: %s", id)
		case a.Rest().DeploymentID != c.ID:
			return berth.Errorf(berth.Invalid, "allocation %s does not belong to deployment %s", id, c.ID)
		}
		if _, twice := said[id]; twice {
			return berth.Errorf(berth.Invalid, "allocation %s is named twice", id)
		}
		said[id] = i < len(c.Healthy)
	}
	c.Eval, c.Reverted = berth.EvalID{}, nil
	// Count each verdict in its group.
	h := healths{c.ID: newEnrolment(old, new(*old))}
	d := h[c.ID].d
	for _, id := range slices.Concat(c.Healthy, c.Unhealthy) {
		a := tx.Alloc(id)
		if c.Silent && verdict(a) != nil {
			continue
		}
		b, more := a.With()
		b.ModifyTime = c.Now
		h.judge(tx, a, more, said[id], time.Unix(0, c.Now).UTC(), c.Now)
		tx.changeAlloc(a, b)
	}
	d.ModifyTime = c.Now
	// Failing ends the deployment and may revert the job.
	if c.Fail && len(c.Unhealthy) > 0 {
		c.Eval, c.Reverted = tx.failDeployment(old, d, berth.DeploymentUnhealthy, c.Request, c.Now)
		return nil
	}
	if d.Status == berth.DeploymentRunning && d.HealthIndex == tx.Index {
		c.Eval = tx.continueDeployment(d, c.Request, c.Now)
	}
	tx.putDeployment(old, d)
	return nil
}

// FailDeployment fails a deployment. If one of its groups asks for it, the job
// is reverted to its newest stable version, as a new version.
type FailDeployment struct {
	ByLeader
	ID          berth.DeploymentID
	Description string
	Now         int64
	Request     *berth.Request // of the user who asked for it; nil if none did, or before log version 3

	Eval     berth.EvalID `msgpack:"-"` // set by Apply: the created evaluation
	Reverted *uint64      `msgpack:"-"` // set by Apply: the version that the job was reverted to
}

// Apply implements Command.
func (c *FailDeployment) Apply(tx *Tx) error {
	old, err := tx.active(c.ID)
	if err != nil {
		return err
	}
	d := newEnrolment(old, new(*old)).d
	c.Eval, c.Reverted = tx.failDeployment(old, d, c.Description, c.Request, c.Now)
	return nil
}

// failDeployment stores a deployment as failed, with the consequences. d is a
// copy that it may change.
func (tx *Tx) failDeployment(old, d *berth.Deployment, why string, by *berth.Request, now int64) (eval berth.EvalID, reverted *uint64) {
	d.Status, d.StatusDescription, d.ModifyTime = berth.DeploymentFailed, why, now
	j := tx.Job(d.Key())
	to, more := tx.revertsTo(d, j)
	d.StatusDescription += more
	tx.putDeployment(old, d) // before the new version, which does not belong to it
	if to != nil {
		tx.revertTo(j, to, now)
		reverted = &to.Version
	}
	return tx.continueDeployment(d, by, now), reverted
}

// revertsTo returns the version that a job is reverted to because a deployment
// failed, or nil, and the text about it in the deployment's description.
func (tx *Tx) revertsTo(d *berth.Deployment, j *berth.Job) (to *berth.Job, says string) {
	reverts := false
	for _, s := range d.TaskGroups {
		reverts = reverts || s.AutoRevert
	}
	if !reverts || j == nil || j.UID != d.JobUID || j.Version != d.JobVersion || j.Stop {
		return nil, ""
	}
	switch to = tx.stableBefore(j); {
	case to == nil:
		return nil, "; no earlier version of the job is stable, so it stays as it is"
	case sameSpec(to, j):
		return nil, fmt.Sprintf("; the newest stable version, %d, has the same specification, so the job stays as it is", to.Version)
	}
	return to, fmt.Sprintf("; the job was reverted to version %d, as version %d", to.Version, j.Version+1)
}

// stableBefore returns the newest kept stable version before the job's newest,
// or nil.
func (tx *Tx) stableBefore(j *berth.Job) (to *berth.Job) {
	for v := range tx.JobVersions(j.Key()) {
		if v.Stable && !v.Stop && v.UID == j.UID && v.Version < j.Version {
			to = v
		}
	}
	return to
}

// revertTo makes an earlier version of a job, with a different specification, its
// newest.
func (tx *Tx) revertTo(j, to *berth.Job, now int64) {
	n := *to
	tx.following(j, &n, now)
	source := tx.Submission(j.Key(), to.Version) // it may be dropped with its version
	tx.putJob(j, &n)
	if source != nil {
		tx.putSubmission(&Submission{source.JobSubmission, j.Key(), n.Version})
	}
}

// StepDeployments creates the evaluations that continue deployments with new
// reports.
type StepDeployments struct {
	ByLeader
	IDs []berth.DeploymentID
	Now int64
}

// Apply implements Command. Deployments that have ended, are paused, or already
// have an evaluation are skipped.
func (c *StepDeployments) Apply(tx *Tx) error {
	for _, id := range c.IDs {
		old := tx.Deployment(id)
		if old == nil || old.Status != berth.DeploymentRunning || old.StepIndex >= old.HealthIndex {
			continue
		}
		d := *old
		tx.continueDeployment(&d, nil, c.Now)
		d.StepIndex = tx.Index // even if no evaluation is needed
		tx.putDeployment(old, &d)
	}
	return nil
}
