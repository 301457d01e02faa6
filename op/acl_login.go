package op

import (
	"strings"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// Redacted stands in answers for a secret that there is, and in requests for the
// one that there was.
const Redacted = "redacted"

// AuthMethodStub is an auth method in a list. Everybody may see it, to choose one
// for a login.
type AuthMethodStub struct {
	Name        string
	Type        string
	Default     bool
	CreateIndex uint64
	ModifyIndex uint64
}

// AuthMethod shows an auth method. Its client secret is shown as Redacted.
type AuthMethod struct {
	Name            string
	Type            string
	TokenLocality   string
	TokenNameFormat string
	MaxTokenTTL     string // a duration such as "1h0m0s"
	Default         bool
	Config          *berth.AuthMethodConfig
	CreateTime      time.Time
	ModifyTime      time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// AuthMethodRef names an auth method.
type AuthMethodRef struct {
	MethodName string
	Query
}

// WriteAuthMethod asks for an auth method to be created, or, with a name in the
// path, to be replaced.
type WriteAuthMethod struct {
	MethodName      string // from the path, "" to create one
	Name            string
	Type            string
	TokenLocality   string
	TokenNameFormat string
	MaxTokenTTL     time.Duration
	Default         bool
	Config          *berth.AuthMethodConfig
	Write
}

// Shape drops fields that clients send empty.
func (*WriteAuthMethod) Shape(body decode.Tree) decode.Tree {
	dropEmpty(body, "maxtokenttl")
	for name, v := range body {
		if c, ok := v.(decode.Tree); ok && strings.EqualFold(name, "config") {
			dropEmpty(c, "expirationleeway", "notbeforeleeway", "clockskewleeway", "oidcclientassertion")
		}
	}
	return body
}

// dropEmpty drops fields whose value is null or "".
func dropEmpty(body decode.Tree, names ...string) {
	for name, v := range body {
		for _, n := range names {
			if strings.ToLower(name) == n && (v == nil || v == "") {
				delete(body, name)
			}
		}
	}
}

// DeleteAuthMethod asks for an auth method to be deleted, with its binding rules.
type DeleteAuthMethod struct {
	MethodName string
	Write
}

// BindingRuleStub is a binding rule in a list.
type BindingRuleStub struct {
	ID          string
	Description string
	AuthMethod  string
	CreateIndex uint64
	ModifyIndex uint64
}

// BindingRule shows a binding rule.
type BindingRule struct {
	ID          string
	Description string
	AuthMethod  string
	Selector    string // an expression over value.NAME and list.NAME; "": everybody
	BindType    string
	BindName    string // name of the role or policy; a template
	CreateTime  time.Time
	ModifyTime  time.Time
	CreateIndex uint64
	ModifyIndex uint64
}

// BindingRuleRef names a binding rule.
type BindingRuleRef struct {
	RuleID string
	Query
}

// WriteBindingRule asks for a binding rule to be created, or, with an ID in the
// path, to be replaced.
type WriteBindingRule struct {
	RuleID      string // from the path, "" to create one
	ID          string
	Description string
	AuthMethod  string
	Selector    string
	BindType    string
	BindName    string
	Write
}

// DeleteBindingRule asks for a binding rule to be deleted.
type DeleteBindingRule struct {
	RuleID string
	Write
}

// OIDCAuthURLRequest begins a login with a browser.
type OIDCAuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string // one of the method's AllowedRedirectURIs
	ClientNonce    string // random text of the client's, which only it knows
	Write
}

// OIDCAuthURL is where a person logs in.
type OIDCAuthURL struct {
	AuthURL string
}

// OIDCComplete ends a login with a browser. State and Code are what the provider
// sent to RedirectURI.
type OIDCComplete struct {
	AuthMethodName string
	ClientNonce    string
	State          string
	Code           string
	Iss            string // of the provider; "": it sent none
	RedirectURI    string
	Write
}

// LoginRequest exchanges a JWT of somebody else for a token.
type LoginRequest struct {
	AuthMethodName string
	LoginToken     string
	Write
}

// The operations of logins.
var (
	ListAuthMethods   = define[Query, []AuthMethodStub]("acl_auth_method.list", "GET /v1/acl/auth-methods", "", acl.Open, acl.NoSpace)
	ReadAuthMethod    = define[AuthMethodRef, AuthMethod]("acl_auth_method.read", "GET /v1/acl/auth-method/{MethodName}", "", acl.Management, acl.NoSpace)
	CreateAuthMethod  = define[WriteAuthMethod, AuthMethod]("acl_auth_method.create", "PUT /v1/acl/auth-method", "", acl.Management, acl.NoSpace)
	UpdateAuthMethod  = define[WriteAuthMethod, AuthMethod]("acl_auth_method.update", "PUT /v1/acl/auth-method/{MethodName}", "", acl.Management, acl.NoSpace)
	RemoveAuthMethod  = define[DeleteAuthMethod, WriteAnswer]("acl_auth_method.delete", "DELETE /v1/acl/auth-method/{MethodName}", "", acl.Management, acl.NoSpace)
	ListBindingRules  = define[Query, []BindingRuleStub]("acl_binding_rule.list", "GET /v1/acl/binding-rules", "", acl.Management, acl.NoSpace)
	ReadBindingRule   = define[BindingRuleRef, BindingRule]("acl_binding_rule.read", "GET /v1/acl/binding-rule/{RuleID}", "", acl.Management, acl.NoSpace)
	CreateBindingRule = define[WriteBindingRule, BindingRule]("acl_binding_rule.create", "PUT /v1/acl/binding-rule", "", acl.Management, acl.NoSpace)
	UpdateBindingRule = define[WriteBindingRule, BindingRule]("acl_binding_rule.update", "PUT /v1/acl/binding-rule/{RuleID}", "", acl.Management, acl.NoSpace)
	RemoveBindingRule = define[DeleteBindingRule, WriteAnswer]("acl_binding_rule.delete", "DELETE /v1/acl/binding-rule/{RuleID}", "", acl.Management, acl.NoSpace)
	BeginOIDC         = define[OIDCAuthURLRequest, OIDCAuthURL]("acl_login.oidc_begin", "PUT /v1/acl/oidc/auth-url", "", acl.Open, acl.NoSpace)
	CompleteOIDC      = define[OIDCComplete, ACLToken]("acl_login.oidc_complete", "PUT /v1/acl/oidc/complete-auth", "", acl.Open, acl.NoSpace)
	Login             = define[LoginRequest, ACLToken]("acl_login.jwt", "PUT /v1/acl/login", "", acl.Open, acl.NoSpace)
)
