package condition

import (
	"berth/internal/limit"
)

// Limits of parsed conditions that are kept, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("parsed_conditions", "Parsed versions and regexps that are kept for later decisions", limit.Count, int64(maxParsed), "all are forgotten and parsed again"),
	limit.Bound("parsed_condition_bytes", "Bytes of their texts", limit.Bytes, int64(maxParsedBytes), "all are forgotten and parsed again"),
	limit.Bound("parsed_condition_text", "Bytes of one such text", limit.Bytes, int64(maxCachedText), "it is parsed each time"),
}
