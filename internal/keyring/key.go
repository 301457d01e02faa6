package keyring

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"berth"
)

// Key is the secret part of a root key. It prints as "redacted".
type Key struct {
	id      berth.RootKeyID
	secret  []byte // AES-256
	signer  crypto.Signer
	signing string
}

// keyBytes is the length of an AES-256 key.
const keyBytes = 32

// rsaBits is the size of the keys that sign with RS256.
const rsaBits = 2048

// newKey returns a new key without an ID.
func newKey(signing string) (*Key, error) {
	k := &Key{secret: make([]byte, keyBytes), signing: signing}
	rand.Read(k.secret)
	var err error
	switch signing {
	case berth.SignEdDSA:
		_, k.signer, err = ed25519.GenerateKey(rand.Reader)
	case berth.SignRS256:
		k.signer, err = rsa.GenerateKey(rand.Reader, rsaBits)
	default:
		err = fmt.Errorf("unknown signing algorithm %q", signing)
	}
	return k, err
}

// ID returns the ID of the root key.
func (k *Key) ID() berth.RootKeyID { return k.id }

// parts is the form in which a key is wrapped.
type parts struct {
	Secret []byte
	Signer []byte // PKCS #8
}

// marshal returns the form in which the key is wrapped.
func (k *Key) marshal() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.signer)
	if err != nil {
		return nil, err
	}
	return json.Marshal(parts{k.secret, der})
}

// parseKey reads what marshal wrote.
func parseKey(id berth.RootKeyID, signing string, b []byte) (*Key, error) {
	var p parts
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("root key %s: %w", id, errForm)
	}
	signer, err := x509.ParsePKCS8PrivateKey(p.Signer)
	if err != nil || len(p.Secret) != keyBytes {
		return nil, fmt.Errorf("root key %s: %w", id, errForm)
	}
	k := &Key{id: id, secret: p.Secret, signing: signing}
	switch s := signer.(type) {
	case ed25519.PrivateKey:
		k.signer = s
	case *rsa.PrivateKey:
		k.signer = s
	default:
		return nil, fmt.Errorf("root key %s: signs with a %T", id, signer)
	}
	return k, nil
}

// public returns the key that verifies what this one signs, as PKIX.
func (k *Key) public() ([]byte, error) { return x509.MarshalPKIXPublicKey(k.signer.Public()) }

// Seal encrypts the items of a variable: AES-256-GCM with a random nonce. They
// are bound to namespace, path and key, so that they cannot be moved to another
// variable.
func (k *Key) Seal(at berth.VariableKey, items map[string]string) ([]byte, error) {
	plain, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	return seal(k.secret, plain, k.aad(at))
}

// Open decrypts the items of a variable.
func (k *Key) Open(v *berth.SealedVariable) (map[string]string, error) {
	plain, err := open(k.secret, v.Data, k.aad(v.Key()))
	if err != nil {
		return nil, fmt.Errorf("variable %q in namespace %q: %w", v.Path, v.Namespace, err)
	}
	items := map[string]string{}
	if err := json.Unmarshal(plain, &items); err != nil {
		return nil, fmt.Errorf("variable %q in namespace %q: %w", v.Path, v.Namespace, errForm)
	}
	return items, nil
}

// aad returns what the items of a variable are bound to. The lengths keep
// namespace and path apart.
func (k *Key) aad(at berth.VariableKey) []byte {
	b := []byte("berth variable ")
	for _, s := range []string{at.Namespace, at.Path} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return append(b, k.id[:]...)
}

// seal encrypts with AES-256-GCM. The nonce comes first.
func seal(key, plain, aad []byte) ([]byte, error) {
	g, err := gcm(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, g.NonceSize(), g.NonceSize()+len(plain)+g.Overhead())
	rand.Read(nonce)
	return g.Seal(nonce, nonce, plain, aad), nil
}

// open decrypts what seal encrypted.
func open(key, sealed, aad []byte) ([]byte, error) {
	g, err := gcm(key)
	if err != nil {
		return nil, err
	}
	if len(sealed) < g.NonceSize()+g.Overhead() {
		return nil, errForm
	}
	return g.Open(nil, sealed[:g.NonceSize()], sealed[g.NonceSize():], aad)
}

// gcm returns AES-GCM with a key.
func gcm(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}
