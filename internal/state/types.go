package state

import (
	"time"

	"berth"
)

// Submission is the text a version of a job was made from.
type Submission struct {
	berth.JobSubmission
	Key     berth.JobKey
	Version uint64
}

// Summary is what is counted of one incarnation of a job, kept by delta: how
// its allocations fare, and how many of its evaluations are open. The job's
// status follows from it.
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

	Children Children    // of a job that begets them
	Launch   *Launch     // of a periodic job
	In       berth.UID   // of a child: the parent that counts it,
	As       childStatus // and as what
}

// GroupCount counts a group's allocations by how they fare.
type GroupCount struct {
	Group    string
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// Of returns the count of allocations that fare so.
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

// Status returns the status of a job with these counts, and why.
func (s *Summary) Status(j *berth.Job) (status, why string) {
	switch {
	case s.Live > 0:
		return berth.JobRunning, ""
	case s.Open > 0 && !j.Stop, j.Type == berth.TypeStream && !j.Stop && !s.GivenUp:
		return berth.JobPending, ""
	case (!j.Schedulable() || j.Type == berth.TypeSystem) && !j.Stop:
		return berth.JobRunning, "" // until it is stopped: what comes tomorrow is its business, too
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

// Check is a comparison of states between servers: the state at Index is to be
// hashed, and the state at Of, where an earlier check stood, had the hash Hash
// on the leader. Of 0 compares nothing.
type Check struct{ Index, Of, Hash uint64 }

// Children counts the children of a job by their status.
type Children struct{ Pending, Running, Dead int }

// Alive is how many of them are not over.
func (c Children) Alive() int { return c.Pending + c.Running }

func (c *Children) of(status childStatus) *int {
	switch status {
	case childPending:
		return &c.Pending
	case childRunning:
		return &c.Running
	}
	return &c.Dead
}

// childStatus is the status of a child as its parent's counts have it.
type childStatus uint8

const (
	notCounted childStatus = iota
	childPending
	childRunning
	childDead
)

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
	// Successor is what follows a stream job that is deleted to begin anew; nil
	// is the job as it stood. What a user deletes has none.
	Successor *Successor
}

// Explanation is what a scheduler found when it placed a job's groups.
type Explanation struct {
	Eval   berth.EvalID
	Groups map[string]*berth.AllocMetric
}

// Launch is what is known of the launches of a periodic job: which of the times
// at which it was due were decided. It makes a launch a matter of the log, not
// of who leads.
type Launch struct {
	From    int64       // ns since 1970: times count from then, which is when somebody last said them
	Due     int64       // the last time that was decided, 0 if none was
	Child   berth.JobID // of the last launch, forced ones included
	Index   uint64      // of the last launch
	Skipped int64       // the last time at which nothing was launched, because a child was not over
	Skips   uint64      // how often that was
	Changed uint64      // index of the last change of the job or of this
}

// Base is the time after which the job can be due.
func (l *Launch) Base() time.Time { return time.Unix(0, max(l.From, l.Due)) }

// WrongClock is how far ahead of the clock the last launch must lie for its
// clock to have been wrong, and not this one: a day, and an hour for those that
// are set to another zone by hand.
const WrongClock = 25 * time.Hour

// Ahead says whether the last launch was decided by a clock that was wrong, so
// that times count from now again. A clock that was put back by less launches
// nothing until it has caught up, so nothing is launched twice.
func (l *Launch) Ahead(now int64) bool { return max(l.From, l.Due) > now+int64(WrongClock) }

// PriorityGap is how far the priority of a preempted allocation's job lies
// below that of the one that preempts it, at least.
const PriorityGap = 10

// A submission that was interrupted is not mended: the incarnation goes with
// all it owns, and another one begins anew. The command that removes the one
// makes the other, so whatever dies in between, the job is never lost and never
// there twice. What follows is kept with the mark of the job, and a user who
// deletes the job takes it away.

// Successor is what follows a stream job that is deleted to begin anew: what a
// user registered meanwhile.
type Successor struct {
	Job        *berth.Job
	Submission *berth.JobSubmission
}

// begins says whether another incarnation follows the job.
func (d *JobDeletion) begins() bool {
	return d.Deletion.Intent == berth.IntentRecover || d.Deletion.Intent == berth.IntentReplace
}

// AllocUpdate is what is said of one allocation.
type AllocUpdate struct {
	ID          berth.AllocID
	Client      berth.ClientStatus
	Description string
	Tasks       berth.TaskStatesPack
	Deployment  *berth.AllocDeploymentStatus
	Network     *berth.AllocNetworkStatus
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

// ScalingEvents are the newest scaling events of one incarnation of a job.
type ScalingEvents struct {
	Groups      map[string][]berth.ScalingEvent // by group, newest first
	ModifyIndex uint64
}

// Versions of each job that are kept unless a configuration says otherwise, and
// the most that one can say: each change of a job looks at all of them.
const (
	TrackedVersions    = 6
	MaxTrackedVersions = 1000
)

// versionLimit is how many versions of each job are kept, the newest included.
// Tagged ones are kept besides.
type versionLimit struct {
	Kept int
	Most int // the largest that Kept ever was: what was kept then may still be
}
