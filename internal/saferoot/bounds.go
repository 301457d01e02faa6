package saferoot

import (
	"berth/internal/limit"
)

// Limits of paths, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("path_length", "Bytes of a path from outside", limit.Bytes, int64(MaxPath), "the request is refused (400)"),
}
