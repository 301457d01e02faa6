package berth

import (
	"regexp"
	"time"
	"unicode/utf8"
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
	Type           string
	Policies       []string
	Roles          []string // IDs
	Global         bool
	CreateTime     int64 // ns since 1970
	ExpirationTime int64 // ns since 1970, 0: never
	CreateIndex    uint64
	ModifyIndex    uint64
}

// Expired reports whether the token is no longer valid.
func (t *ACLToken) Expired(now time.Time) bool {
	return t.ExpirationTime != 0 && now.UnixNano() >= t.ExpirationTime
}

// AnonymousPolicy is the policy of callers without a token, if it exists.
const AnonymousPolicy = "anonymous"

// aclName is the form of the names of policies and roles.
var aclName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// maxACLLinks is how many policies and roles a token or role has at most.
const maxACLLinks = 100

// checkACL notes what is wrong with a name and a description.
func checkACL(ps *Problems, name, description string) {
	if !aclName.MatchString(name) {
		ps.Addf("Name", "%.150q is not a valid name: want letters, digits, - and _, 1 to 128", name)
	}
	if len(description) > 256 || !utf8.ValidString(description) {
		ps.Addf("Description", "is not text of at most 256 bytes")
	}
}

// Validate returns every problem of the policy but those of its rules.
func (p *ACLPolicy) Validate() error {
	var ps Problems
	checkACL(&ps, p.Name, p.Description)
	if p.JobACL != nil {
		p.JobACL.check(&ps)
	}
	return ps.Err()
}

// Validate returns every problem of the role.
func (r *ACLRole) Validate() error {
	var ps Problems
	checkACL(&ps, r.Name, r.Description)
	if n := len(r.Policies); n == 0 || n > maxACLLinks {
		ps.Addf("Policies", "must name 1 to %d policies, got %d", maxACLLinks, n)
	}
	return ps.Err()
}

// Validate returns every problem of the token.
func (t *ACLToken) Validate() error {
	var ps Problems
	if len(t.Name) > 256 || !utf8.ValidString(t.Name) {
		ps.Addf("Name", "is not text of at most 256 bytes")
	}
	n := len(t.Policies) + len(t.Roles)
	switch t.Type {
	case TokenManagement:
		if n > 0 {
			ps.Addf("Policies", "a management token has no policies or roles: it may do everything")
		}
	case TokenClient:
		if n == 0 || n > maxACLLinks {
			ps.Addf("Policies", "a client token must have 1 to %d policies and roles, got %d", maxACLLinks, n)
		}
	default:
		ps.Addf("Type", "unknown type %q: want client or management", Clip(t.Type, 64))
	}
	return ps.Err()
}
