package task

import (
	"berth/internal/limit"
)

// Limits of task events, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("task_event_message", "Bytes of the message of a task event", limit.Bytes, int64(maxMessage), "the rest is cut off"),
	limit.Bound("schedule_wait", "How long a scheduled task waits before it looks at the clock again", limit.Time, int64(maxWindowWait), "it looks again"),
}
