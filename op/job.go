package op

import (
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// Job is a job as the API shows it.
type Job struct {
	*berth.Job
	Status            string
	StatusDescription string
	UID               string    // j-…; names this incarnation of the job
	Deletion          *Deletion `json:",omitempty"` // while it is being deleted in the foreground

	// Only for stream jobs; see StreamStanding.
	StreamID   uint64    `json:",omitempty"`
	Phase      string    `json:",omitempty"`
	Generation *uint64   `json:",omitempty"`
	Recovery   *Recovery `json:",omitempty"`
}

// JobStub is a job in a list.
type JobStub struct {
	ID                berth.JobID
	ParentID          berth.JobID
	Name              string
	Namespace         string
	Datacenters       []string
	NodePool          string
	Type              string
	Priority          int
	Periodic          bool
	ParameterizedJob  bool
	Stop              bool
	Status            string
	StatusDescription string
	JobSummary        *JobSummary
	CreateIndex       uint64
	ModifyIndex       uint64
	JobModifyIndex    uint64
	SubmitTime        int64
	Version           uint64
	Meta              map[string]string `json:",omitempty"`
}

// JobSummary counts a job's allocations.
type JobSummary struct {
	JobID       berth.JobID
	Namespace   string
	Summary     map[string]GroupSummary
	Children    *ChildrenSummary
	CreateIndex uint64
	ModifyIndex uint64
}

// GroupSummary counts a group's allocations by state.
type GroupSummary struct {
	Queued   int // waiting to be placed
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// ChildrenSummary counts the children of a periodic or parameterized job.
type ChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
}

// JobRef names a job.
type JobRef struct {
	JobID   string
	Version *uint64 `query:"version"` // only for ReadJob; nil is the newest
	Query
}

// JobsQuery asks for the jobs of a namespace, or of all with *.
type JobsQuery struct {
	Meta bool `query:"meta"`
	Query
}

// JobAllocsQuery asks for the allocations of a job.
type JobAllocsQuery struct {
	JobID string
	All   bool `query:"all"` // also those of earlier jobs with this ID
	Query
}

// RegisterJob asks for a job to be created or changed. Job is the body as
// received; the API decodes it with admit.DecodeJob.
type RegisterJob struct {
	JobID             string // over HTTP: from the path, "" on /v1/jobs
	Job               decode.RawTree
	Submission        *berth.JobSubmission
	EnforceIndex      bool
	JobModifyIndex    uint64 // with EnforceIndex: register only if the job is at this index; 0: only if there is no such job
	PolicyOverride    bool
	PreserveCounts    bool // keep the counts of groups that exist
	PreserveResources bool // keep the resources of tasks that exist
	EvalPriority      int
	Write
}

// Shape wraps a body that is a job itself into {"Job": …}. Job files in JSON
// have both forms, and clients send both.
func (*RegisterJob) Shape(body decode.Tree) decode.Tree { return holding(body) }

// Spec returns the job of the request, as received.
func (r *RegisterJob) Spec() decode.RawTree { return r.Job }

// Spec returns the job of the request, as received.
func (r *ValidateJob) Spec() decode.RawTree { return r.Job }

// Shape accepts both forms of a body, like that of RegisterJob.
func (*ValidateJob) Shape(body decode.Tree) decode.Tree { return holding(body) }

// holding wraps a body that looks like a job, by its ID or its groups, into
// {"Job": …}. Any other body is returned as it is.
func holding(body decode.Tree) decode.Tree {
	job := false
	for name := range body {
		if strings.EqualFold(name, "Job") {
			return body
		}
		job = job || strings.EqualFold(name, "ID") || strings.EqualFold(name, "TaskGroups")
	}
	if !job {
		return body
	}
	return decode.Tree{"Job": body}
}

// JobRegistered answers RegisterJob and EvaluateJob.
type JobRegistered struct {
	EvalID          berth.EvalID
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Warnings        string
	Meta
}

// StopJob asks for a job to end.
type StopJob struct {
	JobID           string
	Purge           bool   `query:"purge"`
	Global          bool   `query:"global"`
	EvalPriority    int    `query:"eval_priority"`
	NoShutdownDelay bool   `query:"no_shutdown_delay"`
	UID             string `query:"uid"`         // stop only this incarnation
	Propagation     string `query:"propagation"` // with Purge: how the objects it owns are deleted; "" is background
	Wait            string `query:"wait"`        // with Purge in the foreground: how long to wait for the deletion, such as 30s
	Force           bool   `query:"force"`       // with Purge in the foreground: do not wait for allocations; requires acl.Management
	Write
}

// JobStopped answers StopJob.
type JobStopped struct {
	EvalID          berth.EvalID
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Deletion        *Deletion `json:",omitempty"` // of a job whose deletion is not complete yet
	Meta
}

// EvaluateJob asks for a new evaluation of a job.
type EvaluateJob struct {
	JobID       string
	EvalOptions EvalOptions
	Write
}

// EvalOptions are the options of EvaluateJob.
type EvalOptions struct {
	ForceReschedule bool // replace failed allocations at once, where rescheduling is enabled
}

// ParseJob asks for a job file to be converted into a job.
type ParseJob struct {
	JobHCL       string
	Variables    string // the text of a variable file
	Canonicalize bool   // no effect: defaults are always filled in
	Write
}

// ValidateJob asks for the problems of a job.
type ValidateJob struct {
	Job decode.RawTree
	Write
}

// JobValidated answers ValidateJob.
type JobValidated struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

// The operations on jobs.
var (
	ListJobs      = define[JobsQuery, []JobStub]("job.list", "GET /v1/jobs", "", acl.ListJobs, acl.QuerySpace)
	ReadJob       = define[JobRef, Job]("job.read", "GET /v1/job/{JobID}", "", acl.ReadJob, acl.QuerySpace)
	JobAllocs     = define[JobAllocsQuery, []AllocStub]("job.allocations", "GET /v1/job/{JobID}/allocations", "", acl.ReadJob, acl.QuerySpace)
	JobEvals      = define[JobRef, []Eval]("job.evaluations", "GET /v1/job/{JobID}/evaluations", "", acl.ReadJob, acl.QuerySpace, leader)
	ReadSummary   = define[JobRef, JobSummary]("job.summary", "GET /v1/job/{JobID}/summary", "", acl.ReadJob, acl.QuerySpace)
	Register      = define[RegisterJob, JobRegistered]("job.register", "PUT /v1/jobs", "", acl.SubmitJob, acl.JobSpace, jobBody)
	RegisterNamed = define[RegisterJob, JobRegistered]("job.update", "PUT /v1/job/{JobID}", "", acl.SubmitJob, acl.JobSpace, jobBody)
	Stop          = define[StopJob, JobStopped]("job.stop", "DELETE /v1/job/{JobID}", "", acl.SubmitJob, acl.QuerySpace)
	Evaluate      = define[EvaluateJob, JobRegistered]("job.evaluate", "PUT /v1/job/{JobID}/evaluate", "", acl.SubmitJob, acl.QuerySpace)
	Parse         = define[ParseJob, Job]("job.parse", "PUT /v1/jobs/parse", "", acl.ParseJob, acl.QuerySpace, jobBody)
	Validate      = define[ValidateJob, JobValidated]("job.validate", "PUT /v1/validate/job", "", acl.ReadJob, acl.JobSpace, jobBody)
)
