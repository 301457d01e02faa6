package events

import (
	"berth/internal/limit"
)

// Limits of readers of events, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("event_topics", "Topics of one reader of the event stream", limit.Count, int64(MaxTopics), "the request is refused (400)"),
}
