package op

import (
	"berth"
	"berth/internal/acl"
)

// SchedulerConfig answers ReadScheduler.
type SchedulerConfig struct {
	SchedulerConfig *berth.SchedulerConfig
	Meta
}

// SetScheduler replaces the whole scheduler configuration. Features that are
// left out are turned off.
type SetScheduler struct {
	berth.SchedulerConfig
	CAS *uint64 `query:"cas"` // change it only if it was last changed at this index
	Write
}

// SchedulerSet answers SetScheduler.
type SchedulerSet struct {
	Updated bool // false: it was not last changed at the index in CAS
	Meta
}

// The operations on the scheduler configuration.
var (
	ReadScheduler  = define[Query, SchedulerConfig]("scheduler.read", "GET /v1/operator/scheduler/configuration", "", acl.OperatorRead, acl.NoSpace)
	WriteScheduler = define[SetScheduler, SchedulerSet]("scheduler.write", "PUT /v1/operator/scheduler/configuration", "", acl.OperatorWrite, acl.NoSpace)
)
