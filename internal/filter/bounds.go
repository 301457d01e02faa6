package filter

import (
	"berth/internal/limit"
)

// Limits of what filters cost, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("filter_parse_steps", "Steps of parsing a filter", limit.Count, int64(maxParse), "the request is refused (400)"),
	limit.Bound("filter_steps", "Steps of a filter for one row", limit.Count, int64(maxSteps), "the request is refused (400)"),
}
