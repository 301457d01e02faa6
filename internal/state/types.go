package state

import (
	"math"
	"time"

	"berth"
)

// Submission is the source of a job version: the text of its job file.
type Submission struct {
	berth.JobSubmission
	Key     berth.JobKey
	Version uint64
}

// Summary has the counts of one incarnation of a job, maintained incrementally:
// its allocations by status, and its open evaluations. The job's status follows
// from it.
type Summary struct {
	Key     berth.JobKey
	UID     berth.UID
	Groups  []GroupCount // in order of first appearance
	Live    int          // allocations that should run and have not ended
	Open    int          // evaluations pending or blocked
	Created uint64
	Changed uint64 // index of the last change of a count
	Allocs  uint64 // index of the last change of any of its allocations
	Evals   uint64 // index of the last change of any of its evaluations
	GivenUp bool   // of a stream job: its submission was given up

	Children Children    // of a periodic or parameterized job
	Launch   *Launch     // of a periodic job
	In       berth.UID   // of a child: the parent that counts it,
	As       childStatus // and under which status
}

// GroupCount counts a group's allocations by status.
type GroupCount struct {
	Group    string
	Queued   int // instances that wait for capacity
	Complete int
	Failed   int
	Running  int
	Starting int // allocations that are pending on their node
	Lost     int
	Unknown  int
}

// Of returns the count of allocations with a status.
func (g *GroupCount) Of(c berth.ClientStatus) *int {
	switch c {
	case berth.ClientRunning:
		return &g.Running
	case berth.ClientComplete:
		return &g.Complete
	case berth.ClientFailed:
		return &g.Failed
	case berth.ClientLost:
		return &g.Lost
	case berth.ClientUnknown:
		return &g.Unknown
	}
	return &g.Starting
}

// Status returns the status of a job with these counts, and the reason.
func (s *Summary) Status(j *berth.Job) (status, why string) {
	switch {
	case s.Live > 0:
		return berth.JobRunning, ""
	case s.Open > 0 && !j.Stop, j.Type == berth.TypeStream && !j.Stop && !s.GivenUp:
		return berth.JobPending, ""
	case (!j.Schedulable() || j.Type == berth.TypeSystem) && !j.Stop:
		return berth.JobRunning, "" // until it is stopped, because it may launch children later
	}
	return berth.JobDead, ""
}

// group returns the counts of a group.
func (s *Summary) group(name string) *GroupCount {
	for i := range s.Groups {
		if s.Groups[i].Group == name {
			return &s.Groups[i]
		}
	}
	s.Groups = append(s.Groups, GroupCount{Group: name})
	return &s.Groups[len(s.Groups)-1]
}

// Check compares states between servers: the state at Index is to be hashed,
// and the state at Of, the index of an earlier check, had the hash Hash on the
// leader. Of 0 compares nothing.
type Check struct{ Index, Of, Hash uint64 }

// Children counts the children of a job by their status.
type Children struct{ Pending, Running, Dead int }

// Alive returns how many of them have not ended.
func (c Children) Alive() int { return c.Pending + c.Running }

// of returns the counter of children with a status.
func (c *Children) of(status childStatus) *int {
	switch status {
	case childPending:
		return &c.Pending
	case childRunning:
		return &c.Running
	}
	return &c.Dead
}

// childStatus is the status under which its parent counts a child.
type childStatus uint8

const (
	notCounted childStatus = iota // of no parent
	childPending
	childRunning
	childDead
)

// childStatusOf returns the status under which a child counts in its parent's
// summary.
func childStatusOf(s *Summary, j *berth.Job) childStatus {
	switch status, _ := s.Status(j); status {
	case berth.JobPending:
		return childPending
	case berth.JobRunning:
		return childRunning
	}
	return childDead
}

// JobDeletion is the mark of a job that is being deleted in the foreground.
type JobDeletion struct {
	Key      berth.JobKey
	UID      berth.UID
	Deletion berth.Deletion
	// Successor is what follows a stream job that is deleted to start over; nil
	// means the job as it was. A job that a user deletes has none.
	Successor *Successor
}

// Explanation is what a scheduler found when it placed a job's groups.
type Explanation struct {
	Eval   berth.EvalID
	Groups map[string]*berth.AllocMetric // by name
}

// scoreStep is how much less exact the score in an allocation's row may be.
const scoreStep = 0.001

// Of returns what explains where an allocation of the evaluation is, nil if that
// is not known. How many nodes were looked at holds for its whole group. Scores
// are kept for the group's first instance only: for another one there is just
// its own total.
func (x *Explanation) Of(a *berth.Alloc) *berth.AllocMetric {
	if x == nil || x.Groups[a.Group.Name] == nil {
		return nil
	}
	m := *x.Groups[a.Group.Name]
	if s := m.ScoreMetaData; len(s) == 0 || s[0].NodeID != a.NodeID || math.Abs(s[0].NormScore-float64(a.Score)) > scoreStep {
		m.ScoreMetaData = []berth.NodeScore{ownScore(a)}
	}
	return &m
}

// ownScore returns the score that an allocation's row has of its node.
func ownScore(a *berth.Alloc) berth.NodeScore {
	return berth.NodeScore{NodeID: a.NodeID, Scores: map[string]float64{}, NormScore: float64(a.Score)}
}

// Metrics returns why an allocation is where it is. If that is no longer known,
// its own score is left.
func (s *Snapshot) Metrics(a *berth.Alloc) *berth.AllocMetric {
	if m := s.Explanation(a.EvalID).Of(a); m != nil {
		return m
	}
	return &berth.AllocMetric{ScoreMetaData: []berth.NodeScore{ownScore(a)}}
}

// Launch records the launches of a periodic job: which of its due times were
// decided. So the log, and not the leader of the moment, decides what is
// launched.
type Launch struct {
	From    int64       // ns since 1970: due times count from then, when the times were last set
	Due     int64       // the last due time that was decided, 0 if none
	Child   berth.JobID // of the last launch, forced ones included
	Index   uint64      // of the last launch
	Skipped int64       // the last due time at which nothing was launched, because a child had not ended
	Skips   uint64      // how often that happened
	Changed uint64      // index of the last change of the job or of this record
}

// Base returns the time after which the job can be due.
func (l *Launch) Base() time.Time { return time.Unix(0, max(l.From, l.Due)) }

// WrongClock is how far ahead of the current time the last launch must be to
// conclude that its clock was wrong: a day, and an hour for clocks that were
// moved to another time zone by hand.
const WrongClock = 25 * time.Hour

// Ahead reports whether the last launch was decided by a clock that was wrong,
// so that due times count from now again. A clock that was set back by less
// launches nothing until it has caught up, so nothing is launched twice.
func (l *Launch) Ahead(now int64) bool { return max(l.From, l.Due) > now+int64(WrongClock) }

// PriorityGap is the least difference between the priority of a job that
// preempts and that of its victim's job.
const PriorityGap = 10

// An interrupted submission is not repaired: the incarnation is deleted with
// all it owns, and a new one starts over. The command that removes the old one
// creates the new one, so whatever fails in between, the job is never lost and
// never exists twice. The successor is stored with the job's mark, and a user
// who deletes the job removes it.

// Successor is what follows a stream job that is deleted to start over: what a
// user registered meanwhile.
type Successor struct {
	Job        *berth.Job
	Submission *berth.JobSubmission // nil if its source is not kept
}

// hasSuccessor reports whether another incarnation follows the job.
func (d *JobDeletion) hasSuccessor() bool {
	return d.Deletion.Intent == berth.IntentRecover || d.Deletion.Intent == berth.IntentReplace
}

// AllocUpdate is the report on one allocation.
type AllocUpdate struct {
	ID          berth.AllocID
	Client      berth.ClientStatus
	Description string // for people
	Tasks       berth.TaskStatesPack
	Deployment  *berth.AllocDeploymentStatus // nil: no news
	Network     *berth.AllocNetworkStatus    // nil: no news
}

// Reschedules has the replacements of one instance.
type Reschedules struct {
	Job   berth.JobKey
	UID   berth.UID
	Group string
	Index uint32
	Count int // since the instance last ran well
	// Events are the newest replacements, oldest first.
	Events []berth.RescheduleEvent
}

// ScalingEvents has the newest scaling events of one incarnation of a job.
type ScalingEvents struct {
	Groups      map[string][]berth.ScalingEvent // by group, newest first
	ModifyIndex uint64
}

// The number of versions kept of each job, unless the configuration sets it,
// and the maximum: each change of a job looks at all of them.
const (
	TrackedVersions    = 6
	MaxTrackedVersions = 1000
)

// versionLimit is how many versions of each job are kept, including the newest.
// Tagged ones are kept in addition.
type versionLimit struct {
	Kept int
	Most int // the largest value that Kept ever had: versions kept then may still exist
}
