package supervise

import (
	"berth/internal/limit"
)

// Limits of supervisors, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("supervisor_message", "Bytes of a message between agent and supervisor", limit.Bytes, int64(maxFrame), "the call fails"),
	limit.Bound("supervisor_calls", "Connections to a supervisor at once", limit.Count, int64(maxCalls), "the connection is closed"),
	limit.Bound("supervisor_state", "Bytes that are read of what a supervisor has stored", limit.Bytes, int64(maxState), "the record counts as damaged"),
}
