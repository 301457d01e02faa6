package berth

import (
	"encoding/json"
	"time"
)

// Types of auth methods.
const (
	AuthOIDC = "OIDC" // a person logs in with a browser, at an OpenID Connect provider
	AuthJWT  = "JWT"  // a program shows a signed token that somebody else gave it
)

// Where the tokens that an auth method makes are valid.
const (
	LocalityLocal  = "local"
	LocalityGlobal = "global"
)

// ACLAuthMethod says whose word counts when somebody logs in.
type ACLAuthMethod struct {
	Name            string
	Type            string // AuthOIDC or AuthJWT
	TokenLocality   string // LocalityLocal or LocalityGlobal
	TokenNameFormat string // template of the names of tokens
	MaxTokenTTL     time.Duration
	Default         bool // of its type
	Config          *AuthMethodConfig
	CreateTime      int64 // ns since 1970
	ModifyTime      int64 // ns since 1970
	CreateIndex     uint64
	ModifyIndex     uint64
}

// AuthMethodConfig is the configuration of an auth method, by the names of
// Nomad's API. The row of a method has no OIDCClientSecret: that is stored apart
// and encrypted, see AuthSecret.
type AuthMethodConfig struct {
	JWTValidationPubKeys []string // PEM
	JWKSURL              string
	JWKSCACert           string // PEM, for JWKSURL
	OIDCDiscoveryURL     string // the issuer: what precedes /.well-known/openid-configuration
	DiscoveryCaPem       []string
	OIDCClientID         string
	OIDCClientSecret     string
	OIDCEnablePKCE       bool // it is always used
	OIDCDisableUserInfo  bool
	OIDCScopes           []string // besides openid
	BoundAudiences       []string
	BoundIssuer          []string
	AllowedRedirectURIs  []string
	SigningAlgs          []string
	ExpirationLeeway     time.Duration
	NotBeforeLeeway      time.Duration
	ClockSkewLeeway      time.Duration // 0: a minute
	ClaimMappings        map[string]string
	ListClaimMappings    map[string]string
	VerboseLogging       bool
}

// MarshalJSON writes durations as text, as Nomad's API does.
func (c AuthMethodConfig) MarshalJSON() ([]byte, error) {
	type plain AuthMethodConfig
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	return json.Marshal(struct {
		plain
		ExpirationLeeway, NotBeforeLeeway, ClockSkewLeeway string
	}{plain(c), text(c.ExpirationLeeway), text(c.NotBeforeLeeway), text(c.ClockSkewLeeway)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *AuthMethodConfig) UnmarshalJSON(b []byte) error {
	type plain AuthMethodConfig
	in := struct {
		*plain
		ExpirationLeeway, NotBeforeLeeway, ClockSkewLeeway string
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	for _, x := range []struct {
		to   *time.Duration
		text string
	}{{&c.ExpirationLeeway, in.ExpirationLeeway}, {&c.NotBeforeLeeway, in.NotBeforeLeeway}, {&c.ClockSkewLeeway, in.ClockSkewLeeway}} {
		if x.text == "" {
			continue
		}
		d, err := time.ParseDuration(x.text)
		if err != nil {
			return err
		}
		*x.to = d
	}
	return nil
}

// AuthSecret names the encrypted variable that holds the client secret of an
// auth method. It is in no namespace, so no operation on variables reaches it.
func AuthSecret(method string) VariableKey { return VariableKey{Path: "acl/auth-method/" + method} }

// What a binding rule grants.
const (
	BindRole       = "role"
	BindPolicy     = "policy"
	BindManagement = "management"
)

// ACLBindingRule grants something to those who log in with an auth method, if
// their claims meet its selector.
type ACLBindingRule struct {
	ID          string
	Description string
	AuthMethod  string
	Selector    string // an expression over value.NAME and list.NAME; "": everybody
	BindType    string // one of the constants above
	BindName    string // name of the role or policy; a template
	CreateTime  int64  // ns since 1970
	ModifyTime  int64  // ns since 1970
	CreateIndex uint64
	ModifyIndex uint64
}

// OneTimeToken lets who has its secret learn the secret of another token,
// once. The state has neither: the token's secret is encrypted with a key that
// follows from the one-time secret.
type OneTimeToken struct {
	AccessorID     string   // of the token that it stands for; "" of an introduction token that a node has used
	SecretHash     [32]byte // SHA-256 of the one-time secret
	Sealed         []byte   // the secret of the token; nil of an introduction token
	ExpirationTime int64    // ns since 1970
	CreateIndex    uint64
	ModifyIndex    uint64
}

// JobACL binds a policy to a job, or to a group or task of it: their identities
// have what it grants.
type JobACL struct {
	Namespace string
	JobID     string
	Group     string // "": all of the job
	Task      string // "": all of the group
}

// Binds reports whether the policy is bound to a task. Names are compared as a
// whole.
func (j *JobACL) Binds(namespace, job, group, task string) bool {
	return j != nil && j.Namespace == namespace && j.JobID == job && (j.Group == "" || j.Group == group) && (j.Task == "" || j.Task == task)
}
