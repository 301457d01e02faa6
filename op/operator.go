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

// SetScheduler says how the whole cluster is to be scheduled: all of it, what
// is left out is off.
type SetScheduler struct {
	berth.SchedulerConfig
	CAS *uint64 `query:"cas"` // only if the configuration was last changed at this index
	Write
}

// SchedulerSet answers SetScheduler.
type SchedulerSet struct {
	Updated bool // false: it was changed at another index than CAS says
	Meta
}

// The operations of operators.
var (
	ReadScheduler  = define[Query, SchedulerConfig]("scheduler.read", "GET /v1/operator/scheduler/configuration", "", acl.OperatorRead, acl.NoSpace)
	WriteScheduler = define[SetScheduler, SchedulerSet]("scheduler.write", "PUT /v1/operator/scheduler/configuration", "", acl.OperatorWrite, acl.NoSpace)
)
