package msgpack

import (
	"berth/internal/limit"
)

// Limits of what is decoded, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("msgpack_nesting", "How deep values of a message nest", limit.Count, int64(maxNesting), "the message is refused"),
}
