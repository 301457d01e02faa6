package codec

import (
	"berth/internal/limit"
)

// Limits of log entries and snapshots, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("log_entry_gathered", "Bytes of changes that are gathered into one entry of the log", limit.Bytes, int64(MaxEntry), "the next entry begins"),
	limit.Bound("snapshot_record", "Bytes of a record of a saved snapshot", limit.Bytes, int64(maxRecord), "the snapshot cannot be loaded"),
	limit.Bound("snapshot_window", "How far back a compressed snapshot may refer", limit.Bytes, int64(maxWindow), "the snapshot cannot be loaded"),
}
