package keyring

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"iter"

	"berth"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Sign returns a JWT with the claims. Its header names the root key.
func (k *Key) Sign(claims any) (string, error) {
	s, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.signing), Key: jose.JSONWebKey{Key: k.signer, KeyID: k.id.String()}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(s).Claims(claims).Serialize()
}

// PublicKeys returns the keys that verify identities, as a JSON Web Key Set:
// also those of keys that sign no longer, or not yet.
func PublicKeys(keys iter.Seq[*berth.RootKey]) (json.RawMessage, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for k := range keys {
		pub, err := x509.ParsePKIXPublicKey(k.Public)
		if err != nil {
			return nil, fmt.Errorf("root key %s: %w", k.ID, err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: pub, KeyID: k.ID.String(), Algorithm: k.Signing, Use: "sig"})
	}
	return json.Marshal(set)
}

// Verify checks the signature of a JWT that a key of the keyring signed, and
// reads its claims into out. It does not look at times or audiences. The error
// is a Denied one.
func Verify(token string, key func(berth.RootKeyID) *berth.RootKey, out any) error {
	bad := func(why string) error { return berth.Errorf(berth.Denied, "the identity token is not valid: %s", why) }
	t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	if err != nil || len(t.Headers) != 1 {
		return bad("it is not a JWT that this cluster signs")
	}
	id, err := berth.ParseID[berth.RootKey](t.Headers[0].KeyID)
	if err != nil || id.IsZero() {
		return bad("it names no key of this cluster")
	}
	k := key(id)
	if k == nil || t.Headers[0].Algorithm != k.Signing {
		return bad("the key that signed it is unknown or was removed")
	}
	pub, err := x509.ParsePKIXPublicKey(k.Public)
	if err != nil {
		return bad("the key that signed it is damaged")
	}
	if err := t.Claims(pub, out); err != nil {
		return bad("its signature or form is wrong")
	}
	return nil
}
