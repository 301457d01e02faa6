package diag

import (
	"berth/internal/limit"
)

// Limits of what watchers of a log have not read, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("monitor_backlog", "Bytes of log lines that wait for a reader of agent monitor", limit.Bytes, int64(maxWaiting), "lines are dropped, and the reader is told how many"),
}
