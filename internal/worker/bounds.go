package worker

import (
	"berth/internal/limit"
)

// Limits of quarantine, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("quarantine_time", "How long a quarantined job waits for its next try", limit.Time, int64(maxQuarantine), "the wait does not grow"),
}
