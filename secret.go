package berth

import (
	"time"
)

// RootKeyID names a root key.
type RootKeyID = ID[RootKey]

// RootKey is a key of the cluster's keyring as the state holds it: what is
// secret about it is wrapped, with a key that is not in the state. It encrypts
// variables and signs the identities of tasks.
type RootKey struct {
	ID          RootKeyID
	State       string // one of the constants below
	Signing     string // algorithm of identities: SignEdDSA or SignRS256
	Public      []byte // the key that verifies identities, as PKIX
	Wrapped     WrappedKey
	CreateTime  int64 // ns since 1970
	PublishTime int64 // when a prepublished key becomes active, ns since 1970; 0: at once
	RetireTime  int64 // when it stopped being the active one, ns since 1970; 0: it did not
	CreateIndex uint64
	ModifyIndex uint64
}

// The states of a root key. One key is active: new values are encrypted and new
// identities signed with it.
const (
	KeyActive       = "active"
	KeyInactive     = "inactive"     // still decrypts and verifies
	KeyRekeying     = "rekeying"     // what it encrypts is being encrypted with the active key
	KeyPrepublished = "prepublished" // its public key is known already, and it becomes active later
)

// The algorithms that root keys sign identities with.
const (
	SignEdDSA = "EdDSA" // Ed25519
	SignRS256 = "RS256" // RSA with 2048 bits
)

// WrappedKey is the secret part of a root key, encrypted.
type WrappedKey struct {
	Provider string // what wrapped it: "aead", "passphrase"
	By       string // which key of the provider did, if it has several
	Salt     []byte // of a passphrase
	Data     []byte
}

// SealedVariable is a variable as the state holds it: its items are encrypted.
type SealedVariable struct {
	Namespace   string
	Path        string
	KeyID       RootKeyID // that Data is encrypted with
	Data        []byte    // the items; never empty
	Size        int       // of the names and values of the items, in bytes
	Lock        *VariableLock
	CreateIndex uint64
	CreateTime  int64 // ns since 1970
	ModifyIndex uint64
	ModifyTime  int64 // ns since 1970
}

// VariableLock is a lock that a caller holds on a variable, or held until it
// was not renewed in time.
type VariableLock struct {
	ID    LockID
	TTL   time.Duration // a holder that does not renew the lock for so long loses it
	Delay time.Duration // how long nobody can take a lock that was lost
	Lost  bool          // nobody holds it, and nobody can take it yet
}

// LockID names a lock. Only its holder knows it.
type LockID = ID[VariableLock]

// VariableKey names a variable.
type VariableKey struct{ Namespace, Path string }

// Key returns the name of the variable.
func (v *SealedVariable) Key() VariableKey { return VariableKey{v.Namespace, v.Path} }

// Limits of variables.
const (
	MaxVariablePath = 128      // bytes
	MaxVariableSize = 64 << 10 // bytes of the names and values of its items
)

// The limits and defaults of locks on variables.
const (
	DefaultLockTTL   = 15 * time.Second
	DefaultLockDelay = 15 * time.Second
	MinLockTTL       = 10 * time.Second
	MaxLockTTL       = 24 * time.Hour
)
