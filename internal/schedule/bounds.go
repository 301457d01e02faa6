package schedule

import (
	"berth/internal/limit"
)

// Limits of waits of system jobs, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("system_waits", "Nodes of a system job up to which different free capacity is kept apart", limit.Count, int64(maxDistinctWaits), "nodes that lack the same are merged"),
}
