package render

import (
	"berth/internal/limit"
)

// Limits of templates, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("template_output", "Bytes of a rendered template", limit.Bytes, int64(MaxOutput), "the task fails"),
	limit.Bound("template_file", "Bytes of a template that an agent renders", limit.Bytes, int64(MaxText), "the task fails"),
}
