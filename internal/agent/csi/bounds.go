package csi

import (
	"berth/internal/limit"
)

// Limits of CSI plugins, for docs/limits.md. They are enforced where the constants
// are used.
var _ = []*limit.Limit{
	limit.Bound("csi_answer", "Bytes of an answer of a CSI plugin", limit.Bytes, int64(maxAnswer), "the call fails"),
}
