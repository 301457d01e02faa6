package local

import (
	"berth/internal/limit"
)

// Limits of what an agent stores, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("node_identity", "Bytes that are read of the identity of a node", limit.Bytes, int64(maxToken), "it is not used, and the agent asks for another"),
	limit.Bound("agent_record", "Bytes that are read of what an agent has stored about an allocation", limit.Bytes, int64(maxFile), "it counts as damaged"),
}
