package op

import (
	"strings"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// ACLToken shows a token. The secret is only in the answer that creates it.
type ACLToken struct {
	AccessorID     string
	SecretID       string // only in the answer that creates it
	Name           string
	Type           string   // client or management
	Policies       []string // by name
	Roles          []berth.ACLLink
	Global         bool // it is valid in every region
	CreateTime     time.Time
	ExpirationTime *time.Time `json:",omitempty"`
	CreateIndex    uint64
	ModifyIndex    uint64
}

// ACLTokenRef names a token by its accessor ID.
type ACLTokenRef struct {
	AccessorID string
	Query
}

// ACLTokensQuery asks for tokens.
type ACLTokensQuery struct {
	Global bool `query:"global"` // only global ones
	Query
}

// WriteACLToken asks for a token to be created, or, with an accessor ID, to be
// changed. Roles are named by ID or name.
type WriteACLToken struct {
	Accessor      string // from the path, "" to create one
	AccessorID    string
	SecretID      string // of a token that is uploaded; else the servers make it
	Name          string
	Type          string
	Policies      []string
	Roles         []berth.ACLLink
	Global        bool
	ExpirationTTL time.Duration // 0: it does not expire
	Write
}

// Shape drops what clients send back of a token that they read.
func (*WriteACLToken) Shape(body decode.Tree) decode.Tree {
	for name, v := range body {
		switch strings.ToLower(name) {
		case "expirationtime":
			delete(body, name)
		case "expirationttl":
			if v == "" {
				delete(body, name)
			}
		}
	}
	return body
}

// DeleteACLToken asks for a token to be deleted.
type DeleteACLToken struct {
	AccessorID string
	Write
}

// Bootstrap asks for the first token.
type Bootstrap struct {
	BootstrapSecret string // "": the server makes one
	Write
}

// ACLPolicyStub is a policy in a list.
type ACLPolicyStub struct {
	Name        string
	Description string
	JobACL      *berth.JobACL
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLPolicyRef names a policy.
type ACLPolicyRef struct {
	PolicyName string
	Query
}

// WriteACLPolicy asks for a policy to be created or replaced.
type WriteACLPolicy struct {
	PolicyName  string // from the path
	Name        string
	Description string
	Rules       string // HCL or JSON
	JobACL      *berth.JobACL
	Write
}

// DeleteACLPolicy asks for a policy to be deleted.
type DeleteACLPolicy struct {
	PolicyName string
	Write
}

// ACLRoleRef names a role, by ID or name.
type ACLRoleRef struct {
	RoleID string
	Query
}

// ACLRoleByName names a role.
type ACLRoleByName struct {
	RoleName string
	Query
}

// WriteACLRole asks for a role to be created, or, with an ID, to be changed.
type WriteACLRole struct {
	RoleID      string // from the path, "" to create one
	ID          string
	Name        string
	Description string
	Policies    []berth.ACLLink
	Write
}

// DeleteACLRole asks for a role to be deleted.
type DeleteACLRole struct {
	RoleID string
	Write
}

// CanQuery asks whether the caller may do something.
type CanQuery struct {
	Capability string `query:"capability"`
	Query
}

// Can answers CanQuery.
type Can struct {
	Allowed bool
}

// The operations on access control.
var (
	BootstrapACL    = define[Bootstrap, ACLToken]("acl.bootstrap", "PUT /v1/acl/bootstrap", "", acl.Open, acl.NoSpace)
	ListACLTokens   = define[ACLTokensQuery, []ACLToken]("acl_token.list", "GET /v1/acl/tokens", "", acl.Management, acl.NoSpace)
	ReadACLToken    = define[ACLTokenRef, ACLToken]("acl_token.read", "GET /v1/acl/token/{AccessorID}", "", acl.AnyToken, acl.NoSpace)
	ReadOwnToken    = define[Query, ACLToken]("acl_token.self", "GET /v1/acl/token/self", "", acl.AnyToken, acl.NoSpace)
	CreateACLToken  = define[WriteACLToken, ACLToken]("acl_token.create", "PUT /v1/acl/token", "", acl.Management, acl.NoSpace)
	UpdateACLToken  = define[WriteACLToken, ACLToken]("acl_token.update", "PUT /v1/acl/token/{Accessor}", "", acl.Management, acl.NoSpace)
	RemoveACLToken  = define[DeleteACLToken, WriteAnswer]("acl_token.delete", "DELETE /v1/acl/token/{AccessorID}", "", acl.Management, acl.NoSpace)
	ListACLPolicies = define[Query, []ACLPolicyStub]("acl_policy.list", "GET /v1/acl/policies", "", acl.AnyToken, acl.NamedSpace)
	ReadACLPolicy   = define[ACLPolicyRef, *berth.ACLPolicy]("acl_policy.read", "GET /v1/acl/policy/{PolicyName}", "", acl.AnyToken, acl.NamedSpace)
	ReadOwnPolicies = define[Query, []ACLPolicyStub]("acl_policy.self", "GET /v1/acl/policy/self", "", acl.AnyToken, acl.NoSpace)
	ApplyACLPolicy  = define[WriteACLPolicy, WriteAnswer]("acl_policy.write", "PUT /v1/acl/policy/{PolicyName}", "", acl.Management, acl.NoSpace)
	RemoveACLPolicy = define[DeleteACLPolicy, WriteAnswer]("acl_policy.delete", "DELETE /v1/acl/policy/{PolicyName}", "", acl.Management, acl.NoSpace)
	ListACLRoles    = define[Query, []*berth.ACLRole]("acl_role.list", "GET /v1/acl/roles", "", acl.AnyToken, acl.NamedSpace)
	ReadACLRole     = define[ACLRoleRef, *berth.ACLRole]("acl_role.read", "GET /v1/acl/role/{RoleID}", "", acl.AnyToken, acl.NamedSpace)
	FindACLRole     = define[ACLRoleByName, *berth.ACLRole]("acl_role.find", "GET /v1/acl/role/name/{RoleName}", "", acl.AnyToken, acl.NamedSpace)
	CreateACLRole   = define[WriteACLRole, *berth.ACLRole]("acl_role.create", "PUT /v1/acl/role", "", acl.Management, acl.NoSpace)
	UpdateACLRole   = define[WriteACLRole, *berth.ACLRole]("acl_role.update", "PUT /v1/acl/role/{RoleID}", "", acl.Management, acl.NoSpace)
	RemoveACLRole   = define[DeleteACLRole, WriteAnswer]("acl_role.delete", "DELETE /v1/acl/role/{RoleID}", "", acl.Management, acl.NoSpace)
	AskACL          = define[CanQuery, Can]("acl.can", "GET /v1/acl/can-i", "", acl.AnyToken, acl.QuerySpace)
)
