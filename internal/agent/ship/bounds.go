package ship

import (
	"berth/internal/limit"
)

// Limits of log sinks, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("log_sink_pause", "Pause before a log sink is tried again", limit.Time, int64(maxPause), "the pause does not grow"),
	limit.Bound("log_sink_line", "Bytes of a line of a log sink", limit.Bytes, int64(MaxLine), "the line is cut in pieces"),
	limit.Bound("log_sink_syslog", "Bytes of a message to a local syslog", limit.Bytes, int64(maxSyslogPacket), "the rest is cut off"),
}
