package op

import "berth/internal/acl"

// RestoreSnapshot asks for the state of the cluster to be replaced by that of a
// snapshot, which is the body.
type RestoreSnapshot struct{ Write }

// SnapshotRestored answers WriteSnapshot.
type SnapshotRestored struct {
	SnapshotIndex uint64 // of the state when it was saved
	Meta
}

// HeaderDigest is the header with a snapshot's checksum: "sha-256=" and the
// SHA-256 of all its bytes in base64.
const HeaderDigest = "Digest"

// StateHashQuery asks for the hash of the state of the server that is asked.
type StateHashQuery struct {
	Index uint64 `query:"index"` // wait until the state has reached this index
	Query
}

// StateHash answers ReadStateHash. Servers whose hashes differ at the same
// index have different states.
type StateHash struct {
	Index uint64
	Hash  string // 16 hexadecimal digits
}

// The operations on the whole state. Snapshots travel as bytes.
var (
	ReadSnapshot  = define[Query, Nothing]("snapshot.read", "GET /v1/operator/snapshot", "", acl.Management, acl.NoSpace, leader, bytes)
	WriteSnapshot = define[RestoreSnapshot, SnapshotRestored]("snapshot.write", "PUT /v1/operator/snapshot", "", acl.Management, acl.NoSpace, bytes)
	ReadStateHash = define[StateHashQuery, StateHash]("state.hash", "GET /v1/operator/state-hash", "", acl.OperatorRead, acl.NoSpace, local)
)
