package op

import (
	"berth"
	"berth/internal/acl"
	"berth/internal/diff"
)

// JobVersionsQuery asks for the kept versions of a job. With Diffs each is
// compared with the one before it, or all with the one that DiffTag or
// DiffVersion names.
type JobVersionsQuery struct {
	JobID       string
	Diffs       bool    `query:"diffs"`
	DiffTag     string  `query:"diff_tag"`
	DiffVersion *uint64 `query:"diff_version"`
	Query
}

// JobVersions answers JobVersionsQuery, newest first. Diffs are in the order of
// Versions; the oldest has none, unless all are compared with one version.
type JobVersions struct {
	Versions []Job
	Diffs    []*diff.JobDiff
	Meta
}

// SubmissionQuery asks for the job source of a version.
type SubmissionQuery struct {
	JobID   string
	Version *uint64 `query:"version"`
	Query
}

// RevertJob asks for a job to be registered again as it was in an earlier
// version.
type RevertJob struct {
	JobID               string
	JobVersion          uint64
	EnforcePriorVersion *uint64 // revert only if the job is at this version; nil is any
	ConsulToken         string  // sent by older clients; ignored
	VaultToken          string
	Write
}

// SetStability asks for a job version to be marked as stable or not stable.
type SetStability struct {
	JobID      string
	JobVersion uint64
	Stable     bool
	Write
}

// StabilitySet answers SetStability.
type StabilitySet struct {
	JobModifyIndex uint64
	Meta
}

// TagJobVersion asks for a job version to be tagged with a name. Tagged
// versions are kept.
type TagJobVersion struct {
	JobID       string
	TagName     string
	Version     uint64
	Latest      bool // with Version 0: tag the newest version
	Description string
	Write
}

// UntagJobVersion asks for a tag to be removed.
type UntagJobVersion struct {
	JobID   string
	TagName string
	Write
}

// VersionTagged answers TagJobVersion and UntagJobVersion.
type VersionTagged struct {
	Name        string
	Description string
	TaggedTime  int64
	Meta
}

// The operations on job versions.
var (
	ListVersions   = define[JobVersionsQuery, JobVersions]("job.versions", "GET /v1/job/{JobID}/versions", "", acl.ReadJob, acl.QuerySpace)
	ReadSubmission = define[SubmissionQuery, berth.JobSubmission]("job.submission", "GET /v1/job/{JobID}/submission", "", acl.ReadJob, acl.QuerySpace)
	Revert         = define[RevertJob, JobRegistered]("job.revert", "PUT /v1/job/{JobID}/revert", "", acl.SubmitJob, acl.QuerySpace)
	Stability      = define[SetStability, StabilitySet]("job.stable", "PUT /v1/job/{JobID}/stable", "", acl.SubmitJob, acl.QuerySpace)
	TagVersion     = define[TagJobVersion, VersionTagged]("job.tag", "PUT /v1/job/{JobID}/versions/{TagName}/tag", "", acl.SubmitJob, acl.QuerySpace)
	UntagVersion   = define[UntagJobVersion, VersionTagged]("job.untag", "DELETE /v1/job/{JobID}/versions/{TagName}/tag", "", acl.SubmitJob, acl.QuerySpace)
)
