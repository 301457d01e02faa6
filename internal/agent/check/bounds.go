package check

import (
	"berth/internal/limit"
)

// Limits of checks, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("check_output", "Bytes of the output of a check", limit.Bytes, int64(maxOutput), "the rest is cut off"),
	limit.Bound("check_redirects", "Redirects that an HTTP check follows", limit.Count, int64(maxRedirects), "the check fails"),
}
