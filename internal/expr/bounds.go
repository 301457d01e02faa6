package expr

import (
	"berth/internal/limit"
)

// Limits of filters of imports, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("import_filter", "Bytes of the filter of an import or of a condition on properties", limit.Bytes, int64(MaxLength), "the request is refused (400)"),
	limit.Bound("import_filter_depth", "Nesting of such a filter", limit.Count, int64(MaxDepth), "the request is refused (400)"),
}
