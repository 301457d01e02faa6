package authmethod

import (
	"berth/internal/limit"
)

// Limits of auth methods, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("auth_clock_skew", "Clock skew that an auth method may allow", limit.Time, int64(MaxClockSkew), "the request is refused (400)"),
	limit.Bound("auth_leeway", "Leeway that an auth method may allow", limit.Time, int64(MaxLeeway), "the request is refused (400)"),
	limit.Bound("auth_items", "Entries of a list or map of an auth method", limit.Count, int64(maxItems), "the request is refused (400)"),
	limit.Bound("auth_text", "Bytes of a text of an auth method", limit.Bytes, int64(maxText), "the request is refused (400)"),
	limit.Bound("auth_name_format", "Bytes of the name format of an auth method", limit.Bytes, int64(maxNameFormat), "the request is refused (400)"),
	limit.Bound("auth_selector", "Bytes of the selector of a binding rule", limit.Bytes, int64(maxSelector), "the request is refused (400)"),
	limit.Bound("auth_description", "Bytes of a description of an auth method or binding rule", limit.Bytes, int64(maxDescription), "the request is refused (400)"),
}
