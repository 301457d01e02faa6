package berth

import "time"

// Limits of what users write. Those on groups and counts are Nomad's defaults.
// Package admit has the limits that only it needs.
const (
	MaxJobIDLen = 255
	MaxNameLen  = 128 // of groups and tasks: they name directories
	MaxGroups   = 1000
	MaxCount    = 50000
	MaxCPU      = 10_000_000 // MHz, of a task
	MaxDuration = 100 * 365 * 24 * time.Hour
	MaxWidth    = 1000 // channels of a parallel region
	MaxNesting  = 64   // how deep objects and lists of a value may nest

	MaxServiceNameLen = 63
	MaxServiceTags    = 100
	MaxServiceTagLen  = 255
)
