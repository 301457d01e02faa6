package api

import (
	"cmp"
	"slices"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// deployments registers the operations on deployments.
func (s *Server) deployments() {
	readList(s, op.ListDeployments, listDeployments)
	read(s, op.ReadDeployment, readDeployment)
	readList(s, op.DeploymentAllocs, deploymentAllocs)
	readList(s, op.JobDeployments, jobDeployments)
	read(s, op.JobLastDeployment, jobLastDeployment)
	write(s, op.Fail, failDeployment)
	write(s, op.Pause, pauseDeployment)
	write(s, op.Promote, promoteDeployment)
	write(s, op.SetHealth, setAllocHealth)
	write(s, op.Unblock, unblockDeployment)
}

// listDeployments returns the deployments that the caller may see, in order of
// ID.
func listDeployments(r *Read, in *op.Query) ([]*berth.Deployment, error) {
	r.Table(state.Deployments)
	l, err := byRange(r.Query, r.DeploymentRange, func(d *berth.Deployment) berth.DeploymentID { return d.ID })
	if err != nil {
		return nil, err
	}
	l.source = func(d *berth.Deployment) source { return source{a: d} }
	keep := func(d *berth.Deployment) bool { return r.visible(op.ListDeployments.Need, d.Namespace) }
	return page(r, l, keep, op.ShowDeployment)
}

// deployment returns the deployment that a request names, if the caller has the
// right.
func (r *Read) deployment(id string, need acl.Capability) (*berth.Deployment, error) {
	full, err := berth.ParseID[berth.Deployment](id)
	if err != nil {
		return nil, err
	}
	d := r.Deployment(full)
	absent := r.absent(need, "deployment not found: %s", id)
	if d == nil {
		return nil, absent()
	}
	return d, mayOf(r.may, need, d.Namespace, absent)
}

// readDeployment returns one deployment, by its complete ID.
func readDeployment(r *Read, in *op.DeploymentRef) (*berth.Deployment, error) {
	d, err := r.deployment(in.DeploymentID, op.ReadDeployment.Need)
	if err != nil {
		return nil, err
	}
	r.At(d.ModifyIndex, state.OnDeployment(d.ID))
	return op.ShowDeployment(d), nil
}

// deploymentAllocs returns the allocations that a deployment placed, oldest
// first. Those that were collected are missing.
func deploymentAllocs(r *Read, in *op.DeploymentRef) ([]op.AllocStub, error) {
	d, err := r.deployment(in.DeploymentID, op.DeploymentAllocs.Need)
	if err != nil {
		return nil, err
	}
	// A deployment can outlive its allocations, so its own change counts too.
	index, allocs := d.ModifyIndex, []*berth.Alloc{}
	for a := range r.AllocsOf(d.Key()) {
		if a.Rest().DeploymentID == d.ID {
			index, allocs = max(index, a.ModifyIndex), append(allocs, a)
		}
	}
	r.At(index, state.OnAllocsOf(d.Key()), state.OnDeployment(d.ID))
	return r.allocStubs(allocs), nil
}

// deploymentsOf returns the deployments of a job, newest first, and watches
// them. Without all, those of the job as it is alone count.
func (r *Read) deploymentsOf(job string, all bool) []*berth.Deployment {
	k := berth.JobKey{Namespace: r.Space(), ID: berth.JobID(job)}
	j := r.Job(k)
	index, out := uint64(0), []*berth.Deployment{}
	for d := range r.DeploymentsOf(k) {
		index = max(index, d.ModifyIndex)
		if all || j == nil || d.JobUID == j.UID {
			out = append(out, d)
		}
	}
	// Without a deployment the answer changes when the first one is made.
	if index == 0 {
		index = r.LastChange(state.Deployments)
	}
	r.At(index, state.OnDeploymentsOf(k))
	r.Also(state.Deployments) // those of earlier jobs, and those that are gone
	r.Also(state.Jobs)
	slices.SortFunc(out, func(a, b *berth.Deployment) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out
}

// jobDeployments returns the deployments of a job, newest first. With All,
// those of deleted jobs of the same name are among them.
func jobDeployments(r *Read, in *op.JobDeploymentsQuery) ([]*berth.Deployment, error) {
	list := r.deploymentsOf(in.JobID, in.All)
	for i, d := range list {
		list[i] = op.ShowDeployment(d)
	}
	return list, nil
}

// jobLastDeployment answers null for a job without a deployment.
func jobLastDeployment(r *Read, in *op.JobRef) (*berth.Deployment, error) {
	if list := r.deploymentsOf(in.JobID, false); len(list) > 0 {
		return op.ShowDeployment(list[0]), nil
	}
	return nil, nil
}

// failDeployment decides that a deployment fails. If its job reverts by itself,
// the answer names the version that the job goes back to.
func failDeployment(w *Write, in *op.FailDeployment) (ch Change[op.DeploymentUpdated], err error) {
	d, err := w.read().deployment(in.DeploymentID, op.Fail.Need)
	if err != nil {
		return ch, err
	}
	c := &state.FailDeployment{ID: d.ID, Description: berth.DeploymentUserFailed, Request: w.request(), Now: w.Now.UnixNano()}
	return propose(c, func(o *Outcome) op.DeploymentUpdated { return deploymentUpdated(o, c.Eval, c.Reverted) }), nil
}

// pauseDeployment decides that a deployment pauses, or goes on. Apply refuses
// it for a deployment that has ended.
func pauseDeployment(w *Write, in *op.PauseDeployment) (ch Change[op.DeploymentUpdated], err error) {
	d, err := w.read().deployment(in.DeploymentID, op.Pause.Need)
	if err != nil {
		return ch, err
	}
	c := &state.SetDeploymentStatus{ID: d.ID, Status: berth.DeploymentRunning, Request: w.request(), Now: w.Now.UnixNano()}
	if in.Pause {
		c.Status = berth.DeploymentPaused
	}
	return propose(c, func(o *Outcome) op.DeploymentUpdated { return deploymentUpdated(o, c.Eval, nil) }), nil
}

// promoteDeployment decides that the canaries of some groups, or of all, become
// the version that the rest is updated to.
func promoteDeployment(w *Write, in *op.PromoteDeployment) (ch Change[op.DeploymentUpdated], err error) {
	d, err := w.read().deployment(in.DeploymentID, op.Promote.Need)
	switch {
	case err != nil:
		return ch, err
	case in.All == (len(in.Groups) > 0):
		return ch, berth.Errorf(berth.Invalid, "Groups: want either All or a list of groups to promote, not both")
	}
	c := &state.PromoteDeployment{ID: d.ID, Groups: in.Groups, Request: w.request(), Now: w.Now.UnixNano()}
	return propose(c, func(o *Outcome) op.DeploymentUpdated { return deploymentUpdated(o, c.Eval, nil) }), nil
}

// setAllocHealth decides which allocations of a deployment a user takes for
// healthy or unhealthy. An unhealthy one fails the deployment.
func setAllocHealth(w *Write, in *op.SetAllocHealth) (ch Change[op.DeploymentUpdated], err error) {
	d, err := w.read().deployment(in.DeploymentID, op.SetHealth.Need)
	if err != nil {
		return ch, err
	}
	c := &state.SetAllocHealth{
		ID: d.ID, Healthy: in.HealthyAllocationIDs, Unhealthy: in.UnhealthyAllocationIDs, Fail: true, Request: w.request(), Now: w.Now.UnixNano(),
	}
	return propose(c, func(o *Outcome) op.DeploymentUpdated { return deploymentUpdated(o, c.Eval, c.Reverted) }), nil
}

// unblockDeployment always refuses: only deployments of multiregion jobs wait for
// other regions, and multiregion is not supported.
func unblockDeployment(w *Write, in *op.UnblockDeployment) (ch Change[op.DeploymentUpdated], err error) {
	d, err := w.read().deployment(in.DeploymentID, op.Unblock.Need)
	if err != nil {
		return ch, err
	}
	return ch, berth.Errorf(berth.Invalid, "deployment %s is not blocked: its job is not a multiregion job, and multiregion is not supported", d.ID)
}

// deploymentUpdated answers a change of a deployment that raised an evaluation,
// none if eval is zero.
func deploymentUpdated(o *Outcome, eval berth.EvalID, reverted *uint64) op.DeploymentUpdated {
	out := op.DeploymentUpdated{EvalID: eval, DeploymentModifyIndex: o.Index, RevertedJobVersion: reverted, Meta: o.Meta()}
	if !eval.IsZero() {
		out.EvalCreateIndex = o.Index
	}
	return out
}
