package state

import (
	"berth"
)

// RescheduleEventsKept is the number of events kept of one instance. A policy
// that allows more attempts in its interval keeps that many.
const RescheduleEventsKept = 5

// Reschedules returns the replacements of one instance of a group, or nil.
func (s *Snapshot) Reschedules(uid berth.UID, group string, index uint32) *Reschedules {
	if slot, ok := s.reschedules.byName.First(rescheduleKey(uid, group, index)); ok {
		return s.reschedules.vec.Get(slot)
	}
	return nil
}

// putReschedules stores the record of an instance, replacing the one it has.
func (tx *Tx) putReschedules(r *Reschedules) {
	t, k := &tx.reschedules, rescheduleKey(r.UID, r.Group, r.Index)
	if slot, ok := t.byName.First(k); ok {
		t.set(tx, slot, r)
		return
	}
	t.byName.Add(tx.edit, k, t.insert(tx, r))
}

// dropReschedules deletes the reschedule records of a job's instances.
func (tx *Tx) dropReschedules(j *berth.Job) {
	t := &tx.reschedules
	var keys []string
	head := rescheduleKey(j.UID, "", 0)[:12]
	for k := range t.byName.From(head, 0) {
		if k[:12] != head {
			break
		}
		keys = append(keys, k)
	}
	for _, k := range keys {
		slot, _ := t.byName.First(k)
		t.byName.Remove(tx.edit, k, slot)
		t.remove(tx, slot)
	}
}
