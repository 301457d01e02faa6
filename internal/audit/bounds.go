package audit

import (
	"berth/internal/limit"
)

// Limits of the audit log, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("audit_line", "Bytes of the last line of an audit log, which a starting agent reads", limit.Bytes, int64(maxLine), "the log counts as damaged"),
	limit.Bound("audit_scan", "Bytes of the audit log that one request for a page of it goes through", limit.Bytes, int64(MaxScan), "the page is shorter, and has a token for the rest"),
}
