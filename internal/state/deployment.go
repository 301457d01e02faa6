package state

import (
	"iter"

	"berth"
)

// find returns a deployment and its slot, or nil.
func (t *deploymentTable) find(id berth.DeploymentID) (slot uint32, d *berth.Deployment) {
	hi, _ := id.Words()
	return find(&t.rows, &t.byID, hi, func(d *berth.Deployment) bool { return d.ID == id })
}

// Deployment returns the deployment, or nil.
func (s *Snapshot) Deployment(id berth.DeploymentID) *berth.Deployment {
	_, d := s.deployments.find(id)
	return d
}

// DeploymentsOf returns the deployments of a job, in no particular order.
func (s *Snapshot) DeploymentsOf(k berth.JobKey) iter.Seq[*berth.Deployment] {
	return of(&s.deployments.rows, &s.deployments.byJob, keyHash(k), func(d *berth.Deployment) bool { return d.Key() == k })
}

// NewestDeployment returns the newest deployment of a job's incarnation, or
// nil.
func (s *Snapshot) NewestDeployment(k berth.JobKey, uid berth.UID) (newest *berth.Deployment) {
	for d := range s.DeploymentsOf(k) {
		if d.JobUID == uid && (newest == nil || d.CreateIndex > newest.CreateIndex) {
			newest = d
		}
	}
	return newest
}

// ActiveDeployments returns the active deployments that were changed after a
// state index, in order of their last change.
func (s *Snapshot) ActiveDeployments(after uint64) iter.Seq[*berth.Deployment] {
	return rowsOf(&s.deployments.rows, s.deployments.active.From(after+1, 0))
}

// CountActiveDeployments returns the number of active deployments.
func (s *Snapshot) CountActiveDeployments() int { return s.deployments.active.Len() }

// activeOf returns the active deployment of a job's incarnation, or nil.
func (s *Snapshot) activeOf(k berth.JobKey, uid berth.UID) *berth.Deployment {
	if s.deployments.active.Len() == 0 {
		return nil
	}
	for d := range s.DeploymentsOf(k) {
		if d.JobUID == uid && d.Active() {
			return d
		}
	}
	return nil
}

// deploymentOf returns the deployment of a job's version, active or not, or nil.
func (s *Snapshot) deploymentOf(j *berth.Job) *berth.Deployment {
	if s.deployments.count == 0 {
		return nil
	}
	for d := range s.DeploymentsOf(j.Key()) {
		if d.JobUID == j.UID && d.JobVersion == j.Version {
			return d
		}
	}
	return nil
}

// deploymentOfEval returns the deployment that an evaluation hands on to those
// that wait for it.
func (tx *Tx) deploymentOfEval(e *berth.Eval) (id berth.DeploymentID) {
	if tx.KeepsLineage() {
		return e.DeploymentID
	}
	return id
}

// link stores a new row and adds it to the indexes.
func (t *deploymentTable) link(tx *Tx, d *berth.Deployment) {
	slot := t.insert(tx, d)
	hi, _ := d.ID.Words()
	t.byID.Add(tx.edit, hi, slot)
	t.byJob.Add(tx.edit, keyHash(d.Key()), slot)
	if d.Active() {
		t.active.Add(tx.edit, d.ModifyIndex, slot)
	}
}

// unlist takes a row that is about to change or be removed from the index of
// active deployments.
func (t *deploymentTable) unlist(tx *Tx, d *berth.Deployment, slot uint32) {
	if d.Active() {
		t.active.Remove(tx.edit, d.ModifyIndex, slot)
	}
}

// putDeployment stores a deployment. old is the row it replaces, or nil.
func (tx *Tx) putDeployment(old, d *berth.Deployment) {
	t := &tx.deployments
	d.ModifyIndex = tx.Index
	if old == nil {
		d.CreateIndex = tx.Index
		t.link(tx, d)
	} else {
		slot, _ := t.find(d.ID)
		t.unlist(tx, old, slot)
		t.set(tx, slot, d)
		if d.Active() {
			t.active.Add(tx.edit, d.ModifyIndex, slot)
		}
	}
	tx.note(Deployments, anyOrNil(old), d)
}

// dropDeployments deletes the deployments of a job's incarnation that is being
// removed.
func (tx *Tx) dropDeployments(j *berth.Job) {
	if tx.deployments.count == 0 {
		return
	}
	var all []*berth.Deployment
	for d := range tx.DeploymentsOf(j.Key()) {
		if d.JobUID == j.UID {
			all = append(all, d)
		}
	}
	for _, d := range all {
		tx.removeDeployment(d)
	}
}

// removeDeployment deletes a deployment that is in the table, active or not.
func (tx *Tx) removeDeployment(d *berth.Deployment) {
	t := &tx.deployments
	slot, _ := t.find(d.ID)
	id, _ := d.ID.Words()
	t.unlist(tx, d, slot)
	t.byID.Remove(tx.edit, id, slot)
	t.byJob.Remove(tx.edit, keyHash(d.Key()), slot)
	t.remove(tx, slot)
	tx.note(Deployments, d, nil)
}
