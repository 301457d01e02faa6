package logstore

import (
	"berth/internal/limit"
)

// Limits of what the log store reads, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("raft_stable_record", "Bytes of a key or value of the small records of Raft, such as term and vote", limit.Bytes, int64(maxStable), "it is not written, with an error"),
	limit.Bound("raft_record", "Bytes of a record of the Raft log", limit.Bytes, int64(maxEntry), "the entry is not written, with an error; a stored record with more counts as damaged"),
}
