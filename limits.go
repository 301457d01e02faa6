package berth

import "time"

// Limits of what users write. Those on groups and counts are Nomad's defaults.
// Package admit has the limits that only it needs.
const (
	MaxJobIDLen = 255        // bytes
	MaxNameLen  = 128        // of groups and tasks: they name directories
	MaxGroups   = 1000       // per job
	MaxCount    = 50000      // instances of a group
	MaxCPU      = 10_000_000 // MHz, of a task
	MaxDuration = 100 * 365 * 24 * time.Hour
	MaxWidth    = 1000 // channels of a parallel region
	MaxNesting  = 64   // how deep objects and lists of a value may nest

	MaxServiceNameLen = 63  // a DNS label
	MaxServiceTags    = 100 // per service
	MaxServiceTagLen  = 255 // bytes
)
