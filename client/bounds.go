package client

import (
	"berth/internal/limit"
)

// Limits of what the Go client takes, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("client_message", "Bytes of a message that a client reads or sends in a session", limit.Bytes, int64(maxMessage), "the session is ended with an error"),
	limit.Bound("client_header", "Bytes of the headers of an answer that a client reads", limit.Bytes, int64(maxHeader), "the call fails"),
	limit.Bound("client_sends", "How often a client sends a request that was refused for a while", limit.Count, int64(maxSends), "the last refusal is returned"),
	limit.Bound("client_pause", "Pause of a client before it sends a refused request again", limit.Time, int64(maxResend), "the pause is shortened"),
	limit.Bound("client_error_text", "Bytes of the text of an error that a client reads", limit.Bytes, int64(maxErrorText), "the rest is not read"),
}
