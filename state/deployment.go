package state

import (
	"iter"

	"berth"
	"berth/internal/cow"
)

type deploymentTable struct {
	rows[berth.Deployment]
	byID  cow.Tree[uint64] // first half of the ID
	byJob cow.Tree[uint64] // hash of the job's key
}

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

// link stores a new row with its indexes.
func (t *deploymentTable) link(tx *Tx, d *berth.Deployment) {
	slot := t.insert(tx, d)
	hi, _ := d.ID.Words()
	t.byID.Add(tx.edit, hi, slot)
	t.byJob.Add(tx.edit, keyHash(d.Key()), slot)
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
		t.set(tx, slot, d)
	}
	tx.note(Deployments, anyOrNil(old), d)
}
