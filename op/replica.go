package op

import "berth/internal/acl"

// ReplicaQuery asks the authoritative region for the keys and hashes of what other
// regions copy. As a blocking query it waits for a change of any of it.
type ReplicaQuery struct {
	Table string // one of state.CopiedTables
	After string // the last key of the page before; "": the first page
	Query
}

// ReplicaRow is a row that regions compare.
type ReplicaRow struct {
	Key  string
	Hash []byte // SHA-256
}

// ReplicaPage answers ReplicaQuery.
type ReplicaPage struct {
	Rows []ReplicaRow // in order of key
	More bool         // there is another page
	Meta
}

// ReplicaRef asks for rows. Keys that are gone are left out.
type ReplicaRef struct {
	Table string
	Keys  []string
	Query
}

// ReplicaCopy is a row as regions exchange it.
type ReplicaCopy struct {
	Data   []byte // see state.Copied
	Secret string // of an auth method: its client secret
}

// ReplicaCopies answers ReplicaRef.
type ReplicaCopies struct {
	Rows []ReplicaCopy
	Meta
}

// The operations by which the leader of a region copies what the authoritative
// region has. No agent can call them, and they have no HTTP route.
var (
	ListReplica = define[ReplicaQuery, ReplicaPage]("replica.list", "", "Replica.List", acl.Management, acl.NoSpace, servers)
	ReadReplica = define[ReplicaRef, ReplicaCopies]("replica.read", "", "Replica.Read", acl.Management, acl.NoSpace, servers)
)

// How much one call returns.
const (
	ReplicaPageRows = 10_000 // rows of ReplicaPage
	ReplicaKeys     = 250    // rows of ReplicaCopies
)
