package connect

import (
	"berth/internal/limit"
)

// Limits of tasks of stream jobs, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("stream_report", "Bytes of what a task reports about its connections", limit.Bytes, int64(maxBody), "413"),
	limit.Bound("stream_file", "Bytes that are read of an existing connectivity file, which a task may have overwritten", limit.Bytes, int64(maxFile), "the file is written again"),
}
