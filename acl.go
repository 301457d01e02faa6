package berth

import (
	"time"
)

// ACLPolicy is a named set of rules, written in the language of package acl.
type ACLPolicy struct {
	Name        string
	Description string
	Rules       string
	JobACL      *JobACL // nil: it is bound to no job
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLRole is a named set of policies.
type ACLRole struct {
	ID          string
	Name        string
	Description string
	Policies    []ACLLink
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLLink refers to a policy by name, or to a role by ID.
type ACLLink struct {
	ID   string `json:",omitempty"`
	Name string
}

// Types of tokens.
const (
	TokenClient     = "client"     // may do what its policies allow
	TokenManagement = "management" // may do everything
)

// ACLToken says what its holder may do. Its secret is not stored, only the hash
// of it.
type ACLToken struct {
	AccessorID     string
	SecretHash     [32]byte `json:"-"` // SHA-256 of the secret
	Name           string
	Type           string   // client or management
	Policies       []string // by name
	Roles          []string // IDs
	Global         bool     // it is valid in every region
	CreateTime     int64    // ns since 1970
	ExpirationTime int64    // ns since 1970, 0: never
	CreateIndex    uint64
	ModifyIndex    uint64
}

// Expired reports whether the token is no longer valid.
func (t *ACLToken) Expired(now time.Time) bool {
	return t.ExpirationTime != 0 && now.UnixNano() >= t.ExpirationTime
}

// AnonymousPolicy is the policy of callers without a token, if it exists.
const AnonymousPolicy = "anonymous"
