package api

import (
	"berth/internal/limit"
)

// Limits of requests, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("lists_kept", "Encoded lists that are kept for later requests", limit.Count, int64(maxLists), "the lists that were not asked for the longest are forgotten"),
	limit.Bound("write_decisions", "How often a write is decided again because the leader changed", limit.Count, int64(maxDecisions), "the request fails, and nothing was done"),
	limit.Bound("report_sentence", "Bytes of a message or description in a report of an agent", limit.Bytes, int64(maxSentence), "the rest is cut off"),
	limit.Bound("report_details", "Details beside a message in a report of an agent", limit.Count, int64(maxDetails), "the rest is left out"),
	limit.Bound("websocket_message", "Bytes of a message of a caller over a websocket", limit.Bytes, int64(maxMessage), "the session is closed"),
	limit.Bound("forwarded_answer", "Bytes of an answer that servers pass on in one message", limit.Bytes, int64(maxAnswer), "it is passed on as a stream"),
	limit.Bound("node_text", "Bytes of a name or key of a node", limit.Bytes, int64(maxNodeText), "the registration is refused"),
	limit.Bound("node_keys", "Attributes, metadata and links of a node together", limit.Count, int64(maxNodeKeys), "the registration is refused"),
	limit.Bound("node_capacity", "MHz or MiB of a node", limit.Count, int64(maxNodeRoom), "the registration is refused"),
	limit.Bound("node_max_allocs", "Allocations that a node can be set to take", limit.Count, int64(maxNodeAllocs), "the registration is refused"),
	limit.Bound("node_devices", "Instances of all devices of a node", limit.Count, int64(maxNodeDevices), "the registration is refused"),
	limit.Bound("login_nonce", "Bytes of the nonce of a login", limit.Bytes, int64(maxNonce), "the request is refused (400)"),
	limit.Bound("job_source", "Bytes of the source of a job that is kept", limit.Bytes, int64(maxSource), "the job is registered without its source"),
	limit.Bound("dispatch_id_prefix", "Bytes of the prefix of the ID of a dispatched job", limit.Bytes, int64(maxIDPrefix), "the request is refused (400)"),
	limit.Bound("dispatch_token", "Bytes of the idempotency token of a dispatch", limit.Bytes, int64(maxToken), "the request is refused (400)"),
	limit.Bound("reply_kept", "Bytes of an encoded answer whose memory is used again", limit.Bytes, int64(maxKept), "the memory is freed"),
	limit.Bound("join_addresses", "Addresses of a request to join servers", limit.Count, int64(maxJoin), "the request is refused (400)"),
	limit.Bound("request_header", "Bytes of the headers of a request", limit.Bytes, int64(MaxHeader), "431"),
	limit.Bound("refusals_at_a_time", "Connections that are told why they are refused, at a time", limit.Count, int64(maxRefusals), "further ones are closed without a word"),
}
