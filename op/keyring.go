package op

import (
	"encoding/json"

	"berth"
	"berth/internal/acl"
)

// RootKey is a root key as the API shows it: nothing of it is secret.
type RootKey struct {
	KeyID       berth.RootKeyID
	Algorithm   string // AlgorithmAES
	Signing     string // algorithm of identities, berth.SignEdDSA or berth.SignRS256
	Wrapper     string // what encrypts the key in the state
	State       string
	Variables   int   // that it encrypts
	CreateTime  int64 // ns since 1970
	PublishTime int64 // ns since 1970; 0: it was published when it became active
	CreateIndex uint64
	ModifyIndex uint64
}

// AlgorithmAES is the algorithm that all root keys encrypt variables with.
const AlgorithmAES = "aes256-gcm"

// RotateKey asks for a new root key.
type RotateKey struct {
	Full        bool   `query:"full"`         // encrypt all variables with it
	Algorithm   string `query:"algo"`         // "" or AlgorithmAES
	PublishTime int64  `query:"publish_time"` // when it becomes active, ns since 1970; 0: now
	Write
}

// KeyRotated answers RotateKey.
type KeyRotated struct {
	Key *RootKey
	Meta
}

// RemoveRoot asks for a root key to be removed.
type RemoveRoot struct {
	KeyID string
	Force bool `query:"force"` // though variables become unreadable and identities invalid
	Write
}

// Discovery is what tools need to verify identities, in the form of OpenID
// Connect.
type Discovery struct {
	Issuer        string   `json:"issuer"`
	JWKS          string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// WrappingRef names a wrapping key.
type WrappingRef struct{ ID string }

// WrappingKey is a key that wraps root keys. Only servers ask each other for it.
type WrappingKey struct{ Key []byte }

// The operations on the keyring.
var (
	ListRootKeys  = define[Query, []RootKey]("keyring.list", "GET /v1/operator/keyring/keys", "", acl.OperatorRead, acl.NoSpace)
	RotateRootKey = define[RotateKey, KeyRotated]("keyring.rotate", "PUT /v1/operator/keyring/rotate", "", acl.OperatorWrite, acl.NoSpace)
	RemoveRootKey = define[RemoveRoot, WriteAnswer]("keyring.remove", "DELETE /v1/operator/keyring/key/{KeyID}", "", acl.OperatorWrite, acl.NoSpace)
	PublicKeys    = define[Query, json.RawMessage]("keyring.jwks", "GET /.well-known/jwks.json", "", acl.Open, acl.NoSpace)
	OIDCDiscovery = define[Query, Discovery]("keyring.discovery", "GET /.well-known/openid-configuration", "", acl.Open, acl.NoSpace)

	FetchWrapping = define[WrappingRef, WrappingKey]("keyring.wrapping", "", "Keyring.Wrapping", acl.Server, acl.NoSpace, servers)
)
