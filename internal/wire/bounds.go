package wire

import (
	"berth/internal/limit"
)

// Limits of messages, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("rpc_message", "Bytes of the argument of an RPC call or of a message of a stream; many methods allow less", limit.Bytes, int64(MaxFrame), "the call fails, and the session of a peer that goes on sending is closed"),
	limit.Bound("rpc_header", "Bytes of the header of an RPC call", limit.Bytes, int64(maxHeader), "the session is closed"),
}
