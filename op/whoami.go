package op

import (
	"time"

	"berth/internal/acl"
)

// Identity is who holds a token.
type Identity struct {
	AccessorID     string    `json:",omitempty"` // of a token
	Name           string    // of the token, or of the task whose identity it is
	Type           string    // client, management, workload or anonymous
	Global         bool      `json:",omitempty"`
	AllocID        string    `json:",omitempty"` // of the task
	CreateTime     time.Time `json:",omitzero"`
	ExpirationTime time.Time `json:",omitzero"` // zero: it does not expire
}

// WhoAmI tells callers who they are. A token that is not valid is refused. Nomad
// has no such path.
var WhoAmI = define[Query, Identity]("acl.whoami", "GET /v1/acl/whoami", "", acl.Open, acl.NoSpace)
