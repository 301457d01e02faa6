package dns

import (
	"berth/internal/limit"
)

// Limits of the DNS server, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("dns_answer", "Bytes of a DNS answer over UDP", limit.Bytes, int64(maxUDP), "the answer is truncated, and the client asks over TCP"),
	limit.Bound("dns_services_kept", "Services whose instances the DNS server remembers", limit.Count, int64(maxCached), "old ones are forgotten"),
}
