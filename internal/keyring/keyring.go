// Package keyring has the secret side of the cluster's keyring. A root key
// encrypts variables and signs the identities of tasks. The state holds root
// keys wrapped, that is, encrypted with a key that is not in the state: one in
// a file on each server, or one that follows from a passphrase. A Ring unwraps
// them as they are needed, and keeps them in memory.
package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"berth"
)

// A Wrapper encrypts root keys for the state. A key management service can be
// one. Its methods are safe for concurrent use.
type Wrapper interface {
	// Provider returns the name under which rows refer to the wrapper.
	Provider() string
	// Wrap encrypts the secret part of a root key. like is a key that the
	// wrapper wrapped before, whose parameters are used again; nil: there is
	// none.
	Wrap(secret, aad []byte, like *berth.WrappedKey) (berth.WrappedKey, error)
	// Unwrap is the inverse of Wrap. The error is an Unavailable one if the
	// wrapper does not have the key that wrapped it.
	Unwrap(w *berth.WrappedKey, aad []byte) ([]byte, error)
}

// Ring makes root keys and unwraps them. It is safe for concurrent use.
type Ring struct {
	active  Wrapper // wraps new keys
	all     []Wrapper
	signing string // algorithm of new keys

	mu   sync.Mutex
	keys map[berth.RootKeyID]*Key
}

// New returns a ring. The first wrapper wraps new keys; the others only unwrap.
// signing is how new keys sign: berth.SignEdDSA, which "" stands for, or
// berth.SignRS256.
func New(signing string, active Wrapper, others ...Wrapper) *Ring {
	if signing == "" {
		signing = berth.SignEdDSA
	}
	return &Ring{active: active, all: append([]Wrapper{active}, others...), signing: signing, keys: map[berth.RootKeyID]*Key{}}
}

// Make returns a new root key for the state. keys are those that there are.
func (r *Ring) Make(keys []*berth.RootKey) (*berth.RootKey, error) {
	k, err := newKey(r.signing)
	if err != nil {
		return nil, err
	}
	row := &berth.RootKey{State: berth.KeyActive, Signing: r.signing}
	rand.Read(row.ID[:])
	k.id = row.ID
	if row.Public, err = k.public(); err != nil {
		return nil, err
	}
	secret, err := k.marshal()
	if err != nil {
		return nil, err
	}
	var like *berth.WrappedKey
	for _, other := range keys { // the newest counts
		if other.Wrapped.Provider == r.active.Provider() {
			like = &other.Wrapped
		}
	}
	if row.Wrapped, err = r.active.Wrap(secret, wrapAAD(row.ID), like); err != nil {
		return nil, fmt.Errorf("wrap a root key: %w", err)
	}
	return row, nil
}

// wrapAAD binds a wrapped key to its ID.
func wrapAAD(id berth.RootKeyID) []byte { return append([]byte("berth root key "), id[:]...) }

// Open returns the secret part of a root key. The error is an Unavailable one
// if this server cannot unwrap it.
func (r *Ring) Open(row *berth.RootKey) (*Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.keys[row.ID]; k != nil {
		return k, nil
	}
	for _, w := range r.all {
		if w.Provider() != row.Wrapped.Provider {
			continue
		}
		secret, err := w.Unwrap(&row.Wrapped, wrapAAD(row.ID))
		if err != nil {
			return nil, err
		}
		k, err := parseKey(row.ID, row.Signing, secret)
		if err != nil {
			return nil, err
		}
		r.keys[row.ID] = k
		return k, nil
	}
	return nil, berth.Errorf(berth.Unavailable, "root key %s is wrapped by %q, for which this server has no keyring block", row.ID, row.Wrapped.Provider)
}

// Forget drops the keys in memory that no row has any more.
func (r *Ring) Forget(keep func(berth.RootKeyID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.keys {
		if !keep(id) {
			delete(r.keys, id)
		}
	}
}

// errForm is in the errors of what was encrypted by another program, or is
// damaged.
var errForm = errors.New("it does not have the form of an encrypted value")

// redacted is what is printed of a secret.
const redacted = "redacted"

// String keeps the key out of messages.
func (*Key) String() string { return redacted }

// GoString keeps the key out of %#v.
func (*Key) GoString() string { return redacted }

// LogValue keeps the key out of logs.
func (*Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON keeps the key out of JSON.
func (*Key) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
