package state

import (
	"bytes"
	"iter"
	"strings"

	"berth"
	"berth/internal/state/codec"
)

// Job returns the newest version of the job, or nil.
func (s *Snapshot) Job(k berth.JobKey) *berth.Job {
	if slot, ok := s.jobs.byKey.First(jobKey(k)); ok {
		return s.jobs.vec.Get(slot)
	}
	return nil
}

// JobSlot is the position of a job in the table, valid as long as the job
// exists.
type JobSlot uint32

// JobSlot returns the position of a job, for callers who look it up often.
func (s *Snapshot) JobSlot(k berth.JobKey) (at JobSlot, ok bool) {
	slot, ok := s.jobs.byKey.First(jobKey(k))
	return JobSlot(slot), ok
}

// JobAt returns the job in a slot with its counts, or nil. It may be a
// different job than before.
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

// AllSubmissions returns the sources of all job versions, in order of
// namespace, ID and number.
func (s *Snapshot) AllSubmissions() iter.Seq[*Submission] {
	return rowsOf(&s.jobs.submitted, s.jobs.bySubmit.All())
}

// Submission returns the source of a version of the job, or nil.
func (s *Snapshot) Submission(k berth.JobKey, v uint64) *Submission {
	if slot, ok := s.jobs.bySubmit.First(versionKey(k, v)); ok {
		return s.jobs.submitted.vec.Get(slot)
	}
	return nil
}

// sameSpec reports whether two versions of a job have the same specification.
func sameSpec(a, b *berth.Job) bool {
	return bytes.Equal(codec.Canonical(spec(a)), codec.Canonical(spec(b)))
}

// spec returns the job without the fields that servers set.
func spec(j *berth.Job) *berth.Job {
	s := *j
	s.Stable, s.Version, s.VersionTag, s.SubmitTime = false, 0, nil, 0
	s.CreateIndex, s.ModifyIndex, s.JobModifyIndex, s.UID = 0, 0, 0, berth.UID{}
	return &s
}
