package cli

import (
	"berth/internal/limit"
)

// Limits of the command line, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("cli_body", "Bytes of the body that operator api sends", limit.Bytes, int64(maxAPIBody), "the command fails"),
	limit.Bound("cli_debug_file", "Bytes of a file of operator debug", limit.Bytes, int64(maxDebugFile), "the rest is left out"),
	limit.Bound("cli_log_line", "Bytes of a line of alloc logs -job", limit.Bytes, int64(maxLine), "the line is printed in pieces"),
	limit.Bound("cli_reconnects", "How often a followed log is opened again without any output", limit.Count, int64(maxReconnects), "the command fails"),
	limit.Bound("cli_pause", "Pause before a followed log is opened again", limit.Time, int64(maxPause), "the pause does not grow"),
	limit.Bound("cli_tail", "Bytes that alloc logs -n and alloc fs -n read at first to find lines", limit.Bytes, int64(maxTail), "more is read if that is not enough"),
}
