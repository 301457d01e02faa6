package state

import (
	"iter"

	"berth"
)

func (t *deploymentTable) find(id berth.DeploymentID) (slot uint32, d *berth.Deployment) {
	hi, _ := id.Words()
	return find(&t.rows, &t.byID, hi, func(d *berth.Deployment) bool { return d.ID == id })
}

// Deployment returns the deployment, or nil.
func (s *Snapshot) Deployment(id berth.DeploymentID) *berth.Deployment {
	_, d := s.deployments.find(id)
	return d
}

// DeploymentsOf returns the deployments of a job, in no order.
func (s *Snapshot) DeploymentsOf(k berth.JobKey) iter.Seq[*berth.Deployment] {
	return of(&s.deployments.rows, &s.deployments.byJob, keyHash(k), func(d *berth.Deployment) bool { return d.Key() == k })
}

// DeploymentsFrom returns the deployments whose IDs have the prefix, in order.
func (s *Snapshot) DeploymentsFrom(p berth.IDPrefix) iter.Seq[*berth.Deployment] {
	return withPrefix(p, &s.deployments.byID, s.deployments.vec.Get, func(d *berth.Deployment) [16]byte { return d.ID })
}

// NewestDeployment returns the newest deployment of a job's incarnation, nil
// if it has none.
func (s *Snapshot) NewestDeployment(k berth.JobKey, uid berth.UID) (newest *berth.Deployment) {
	for d := range s.DeploymentsOf(k) {
		if d.JobUID == uid && (newest == nil || d.CreateIndex > newest.CreateIndex) {
			newest = d
		}
	}
	return newest
}

// ActiveDeployments returns the deployments that go on and were changed after
// that state index, those that were changed first before the others.
func (s *Snapshot) ActiveDeployments(after uint64) iter.Seq[*berth.Deployment] {
	return rowsOf(&s.deployments.rows, s.deployments.active.From(after+1, 0))
}

// CountActiveDeployments returns how many deployments go on.
func (s *Snapshot) CountActiveDeployments() int { return s.deployments.active.Len() }

// activeOf returns the deployment of an incarnation of a job that goes on, nil
// if there is none.
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

// link stores a new row with its indexes.
func (t *deploymentTable) link(tx *Tx, d *berth.Deployment) {
	slot := t.insert(tx, d)
	hi, _ := d.ID.Words()
	t.byID.Add(tx.edit, hi, slot)
	t.byJob.Add(tx.edit, keyHash(d.Key()), slot)
	if d.Active() {
		t.active.Add(tx.edit, d.ModifyIndex, slot)
	}
}

// unlist takes a row that is about to change, or to go, from the index of those
// that go on.
func (t *deploymentTable) unlist(tx *Tx, d *berth.Deployment, slot uint32) {
	if d.Active() {
		t.active.Remove(tx.edit, d.ModifyIndex, slot)
	}
}

// putDeployment stores a deployment; old is the row it replaces, nil if none.
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

// dropDeployments forgets the deployments of an incarnation of a job, which
// goes.
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
