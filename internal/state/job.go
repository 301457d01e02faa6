package state

import (
	"encoding/binary"
	"iter"
	"strings"

	"berth"
	"berth/internal/cow"
)

// jobTable holds the newest version of each job, its earlier versions, and
// what is counted of its allocations and evaluations.
type jobTable struct {
	rows[berth.Job]
	byKey cow.Tree[string]
	// perNode holds, as byKey does, those jobs that run on every node.
	perNode cow.Tree[string]
	kin     relations

	versions       rows[berth.Job]
	byVersion      cow.Tree[string]
	submitted      rows[Submission]
	bySubmit       cow.Tree[string]
	summaries      cow.Vec[*Summary] // by the slot of the job
	scaled         cow.Tree[string]  // as byKey, those that are not stopped and have a scaling policy
	scalings       cow.Vec[*ScalingEvents]
	summaryChanged uint64
}

// Submission is the text a version of a job was made from.
type Submission struct {
	berth.JobSubmission
	Key     berth.JobKey
	Version uint64
}

func jobKey(k berth.JobKey) string { return k.Namespace + "\x00" + string(k.ID) }

// versionKey orders the versions of a job by number.
func versionKey(k berth.JobKey, v uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(jobKey(k)+"\x00"), v))
}

// Job returns the newest version of the job, or nil.
func (s *Snapshot) Job(k berth.JobKey) *berth.Job {
	if slot, ok := s.jobs.byKey.First(jobKey(k)); ok {
		return s.jobs.vec.Get(slot)
	}
	return nil
}

// JobSlot is the place of a job among the rows, as long as the job is there.
type JobSlot uint32

// JobSlot returns where a job is, for those who look at it again and again.
func (s *Snapshot) JobSlot(k berth.JobKey) (at JobSlot, ok bool) {
	slot, ok := s.jobs.byKey.First(jobKey(k))
	return JobSlot(slot), ok
}

// JobAt returns the job in a slot with its counts, nil if there is none. It can
// be another one than was there before.
func (s *Snapshot) JobAt(at JobSlot) (*berth.Job, *Summary) {
	return s.jobs.vec.Get(uint32(at)), s.jobs.summaries.Get(uint32(at))
}

// Jobs returns the jobs of a namespace, or of all with "*", whose IDs have the
// prefix, in order of namespace and ID.
func (s *Snapshot) Jobs(namespace, prefix string) iter.Seq[*berth.Job] {
	t := &s.jobs
	if namespace == berth.AllNamespaces {
		return func(yield func(*berth.Job) bool) {
			for j := range rowsOf(&t.rows, t.byKey.All()) {
				if strings.HasPrefix(string(j.ID), prefix) && !yield(j) {
					return
				}
			}
		}
	}
	return startingWith(&t.rows, &t.byKey, namespace+"\x00"+prefix)
}

// JobsFrom returns all jobs that are not below the key, in order.
func (s *Snapshot) JobsFrom(k berth.JobKey) iter.Seq[*berth.Job] {
	return rowsOf(&s.jobs.rows, s.jobs.byKey.From(jobKey(k), 0))
}

func startingWith[T any](r *rows[T], ix *cow.Tree[string], prefix string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for k, slot := range ix.From(prefix, 0) {
			if !strings.HasPrefix(k, prefix) || !yield(r.vec.Get(slot)) {
				return
			}
		}
	}
}

// JobVersion returns one version of the job, or nil.
func (s *Snapshot) JobVersion(k berth.JobKey, v uint64) *berth.Job {
	if slot, ok := s.jobs.byVersion.First(versionKey(k, v)); ok {
		return s.jobs.versions.vec.Get(slot)
	}
	return nil
}

// JobVersions returns the kept versions of the job, oldest first.
func (s *Snapshot) JobVersions(k berth.JobKey) iter.Seq[*berth.Job] {
	return startingWith(&s.jobs.versions, &s.jobs.byVersion, jobKey(k)+"\x00")
}

// AllVersions returns the kept versions of all jobs, in order of namespace, ID
// and number.
func (s *Snapshot) AllVersions() iter.Seq[*berth.Job] {
	return rowsOf(&s.jobs.versions, s.jobs.byVersion.All())
}

// AllSubmissions returns what versions of jobs were made from, in order of
// namespace, ID and number.
func (s *Snapshot) AllSubmissions() iter.Seq[*Submission] {
	return rowsOf(&s.jobs.submitted, s.jobs.bySubmit.All())
}

// Submission returns what a version of the job was made from, or nil.
func (s *Snapshot) Submission(k berth.JobKey, v uint64) *Submission {
	if slot, ok := s.jobs.bySubmit.First(versionKey(k, v)); ok {
		return s.jobs.submitted.vec.Get(slot)
	}
	return nil
}

// putJob stores a job as the newest version; old is the row it replaces, nil
// if none.
func (tx *Tx) putJob(old, j *berth.Job) {
	t := &tx.jobs
	if old == nil {
		slot := t.insert(tx, j)
		t.byKey.Add(tx.edit, jobKey(j.Key()), slot)
		s := &Summary{Key: j.Key(), UID: j.UID, Created: tx.Index, Changed: tx.Index}
		t.summaries.Set(tx.edit, slot, s)
		t.summaryChanged = tx.Index
		tx.note(Summaries, nil, s)
		if j.PerNode() {
			t.perNode.Add(tx.edit, jobKey(j.Key()), slot)
		}
		tx.listScaled(nil, j, slot)
		tx.relate(j, slot, s)
	} else {
		slot, _ := t.byKey.First(jobKey(j.Key()))
		t.set(tx, slot, j)
		tx.listScaled(old, j, slot)
	}
	tx.putVersion(j)
	tx.mergeIntoDeployment(old, j)
	tx.relative(old, j)
	tx.touchStream(j.UID)
	tx.note(Jobs, anyOrNil(old), j)
}

// putVersion keeps j in the history, and drops the oldest version that is not
// tagged if there are too many.
func (tx *Tx) putVersion(j *berth.Job) {
	t := &tx.jobs
	vk := versionKey(j.Key(), j.Version)
	if slot, ok := t.byVersion.First(vk); ok {
		t.versions.set(tx, slot, j)
		return
	}
	t.byVersion.Add(tx.edit, vk, t.versions.insert(tx, j))
	tx.forgetVersions(j.Key())
}

// forgetVersions drops the oldest versions of a job that are not tagged, if
// there are too many.
func (tx *Tx) forgetVersions(k berth.JobKey) {
	var plain []*berth.Job
	row := tx.StreamOf(k)
	for v := range tx.JobVersions(k) {
		if v.VersionTag == nil && !(row != nil && row.Plan != nil && v.Version == row.Version) { // which is placed
			plain = append(plain, v)
		}
	}
	kept, _ := tx.TrackedVersions()
	for len(plain) > kept {
		tx.dropVersion(plain[0])
		plain = plain[1:]
	}
}

func (tx *Tx) dropVersion(j *berth.Job) {
	t, vk := &tx.jobs, versionKey(j.Key(), j.Version)
	if slot, ok := t.byVersion.First(vk); ok {
		t.byVersion.Remove(tx.edit, vk, slot)
		t.versions.remove(tx, slot)
	}
	if slot, ok := t.bySubmit.First(vk); ok {
		t.bySubmit.Remove(tx.edit, vk, slot)
		t.submitted.remove(tx, slot)
	}
}

func (tx *Tx) putSubmission(sub *Submission) {
	t, vk := &tx.jobs, versionKey(sub.Key, sub.Version)
	if slot, ok := t.bySubmit.First(vk); ok {
		t.submitted.set(tx, slot, sub)
		return
	}
	t.bySubmit.Add(tx.edit, vk, t.submitted.insert(tx, sub))
}

// removeJob forgets a job with all that belongs to it but its allocations and
// evaluations, which end in their own ways.
func (tx *Tx) removeJob(j *berth.Job) {
	tx.trace(j.Key())
	t := &tx.jobs
	var versions []*berth.Job
	for v := range tx.JobVersions(j.Key()) {
		versions = append(versions, v)
	}
	for _, v := range versions {
		tx.dropVersion(v)
	}
	slot, _ := t.byKey.First(jobKey(j.Key()))
	t.byKey.Remove(tx.edit, jobKey(j.Key()), slot)
	if j.PerNode() {
		t.perNode.Remove(tx.edit, jobKey(j.Key()), slot)
	}
	tx.listScaled(j, nil, slot)
	if t.scalings.Get(slot) != nil {
		t.scalings.Set(tx.edit, slot, nil)
	}
	tx.unrelate(j, slot, t.summaries.Get(slot))
	delete(tx.counting, slot) // of what its children's ends counted
	tx.note(Summaries, t.summaries.Get(slot), nil)
	t.summaries.Set(tx.edit, slot, nil)
	t.summaryChanged = tx.Index
	t.remove(tx, slot)
	tx.dropReschedules(j)
	tx.dropDeployments(j)
	tx.dropMark(j.Key())
	tx.note(Jobs, j, nil)
	if j.Type == berth.TypeStream {
		tx.leaveStream(j)
	}
}
