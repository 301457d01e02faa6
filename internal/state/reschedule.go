package state

import (
	"encoding/binary"

	"berth"
	"berth/internal/cow"
)

// rescheduleTable remembers the replacements of failed allocations by what
// they are replacements of: an instance of a group of one incarnation of a
// job. A record is not copied from allocation to allocation, so none is lost
// or counted twice.
type rescheduleTable struct {
	rows[Reschedules]
	byName cow.Tree[string]
}

// Reschedules are the replacements of one instance.
type Reschedules struct {
	Job   berth.JobKey
	UID   berth.UID
	Group string
	Index uint32
	Count int // since the instance last ran well
	// Events are the newest replacements, oldest first.
	Events []berth.RescheduleEvent
}

// RescheduleEventsKept bounds the events of one instance. A policy that allows
// more attempts in its interval keeps that many.
const RescheduleEventsKept = 5

func rescheduleKey(uid berth.UID, group string, index uint32) string {
	b := make([]byte, 0, 16+len(group)+5)
	b = binary.BigEndian.AppendUint64(b, uid.Index)
	b = binary.BigEndian.AppendUint32(b, uid.Ordinal)
	b = append(append(b, group...), 0)
	return string(binary.BigEndian.AppendUint32(b, index))
}

// Reschedules returns the replacements of one instance of a group, or nil.
func (s *Snapshot) Reschedules(uid berth.UID, group string, index uint32) *Reschedules {
	if slot, ok := s.reschedules.byName.First(rescheduleKey(uid, group, index)); ok {
		return s.reschedules.vec.Get(slot)
	}
	return nil
}

func (tx *Tx) putReschedules(r *Reschedules) {
	t, k := &tx.reschedules, rescheduleKey(r.UID, r.Group, r.Index)
	if slot, ok := t.byName.First(k); ok {
		t.set(tx, slot, r)
		return
	}
	t.byName.Add(tx.edit, k, t.insert(tx, r))
}

// dropReschedules forgets the replacements of a job's instances.
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
