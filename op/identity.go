package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// IdentityRequest names an identity of a task.
type IdentityRequest struct {
	AllocID  berth.AllocID
	TaskName string
	Identity string // its name; "" or berth.DefaultIdentity is the default one
}

// SignIdentities asks for identities of tasks that run on a node.
type SignIdentities struct {
	NodeID     berth.NodeID
	Identities []IdentityRequest
	Query
}

// SignedIdentity is an identity of a task.
type SignedIdentity struct {
	IdentityRequest
	JWT        string
	Expiration time.Time // zero: it is valid as long as the allocation
}

// IdentitiesSigned answers SignIdentities, in the order of the request.
type IdentitiesSigned struct {
	SignedIdentities []SignedIdentity
	Meta
}

// MaxIdentities is the largest number of identities that one call asks for.
const MaxIdentities = 100

// Sign is how an agent gets the identities of its tasks.
var Sign = define[SignIdentities, IdentitiesSigned]("identity.sign", "", "Alloc.SignIdentities", acl.Node, acl.NoSpace)
