package server

import (
	"berth/internal/limit"
)

// Limits of servers, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("evaluations_per_dequeue", "Evaluations that a follower fetches at once", limit.Count, int64(maxDequeue), "it asks again"),
}
