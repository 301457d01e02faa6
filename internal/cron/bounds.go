package cron

import (
	"berth/internal/limit"
)

// Limits of cron expressions, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("cron_length", "Bytes of a cron expression", limit.Bytes, int64(maxLen), "the job is refused (400)"),
}
