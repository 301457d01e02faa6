package secretprovider

import (
	"berth/internal/limit"
)

// Limits of secret providers, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("secret_provider_output", "Bytes of the answer of a secret provider", limit.Bytes, int64(maxOutput), "the start of the task fails"),
	limit.Bound("secret_provider_items", "Items of the answer of a secret provider", limit.Count, int64(maxItems), "the start of the task fails"),
}
