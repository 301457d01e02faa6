package keyring

import (
	"crypto/rand"
	"sync"

	"berth"

	"golang.org/x/crypto/argon2"
)

// Passphrase wraps root keys with a key that follows from a passphrase and a
// salt by Argon2id. Every server has the passphrase; the salt is in the rows.
type Passphrase struct {
	text string

	mu   sync.Mutex
	keys map[string][]byte // by salt: each takes a moment to compute
}

// PassphraseProvider is the name of Passphrase in rows, and of its
// configuration.
const PassphraseProvider = "passphrase"

// The cost of Argon2id: the second choice of RFC 9106.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 4
	saltBytes    = 16
)

// NewPassphrase returns the wrapper for a passphrase.
func NewPassphrase(text string) *Passphrase {
	return &Passphrase{text: text, keys: map[string][]byte{}}
}

// Provider implements Wrapper.
func (*Passphrase) Provider() string { return PassphraseProvider }

// key returns the key for a salt.
func (p *Passphrase) key(salt []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[string(salt)]
	if k == nil {
		k = argon2.IDKey([]byte(p.text), salt, argonTime, argonMemory, argonThreads, keyBytes)
		p.keys[string(salt)] = k
	}
	return k
}

// Wrap implements Wrapper. The salt is that of like, else a new one.
func (p *Passphrase) Wrap(secret, aad []byte, like *berth.WrappedKey) (w berth.WrappedKey, err error) {
	w.Provider = PassphraseProvider
	if like != nil && len(like.Salt) == saltBytes {
		w.Salt = like.Salt
	} else {
		w.Salt = make([]byte, saltBytes)
		rand.Read(w.Salt)
	}
	w.Data, err = seal(p.key(w.Salt), secret, aad)
	return w, err
}

// Unwrap implements Wrapper.
func (p *Passphrase) Unwrap(w *berth.WrappedKey, aad []byte) ([]byte, error) {
	secret, err := open(p.key(w.Salt), w.Data, aad)
	if err != nil {
		return nil, berth.Errorf(berth.Unavailable, "the passphrase of this server is not the one that wrapped the root key")
	}
	return secret, nil
}
