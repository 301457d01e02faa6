package api

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// oneTimeTTL is how long a one-time token is valid.
const oneTimeTTL = 10 * time.Minute

// makeOneTime decides that there is a one-time token for the caller's token. The
// servers keep only hashes of secrets, so the secret of the token, which the
// caller shows, is stored with it: encrypted with a key that follows from the
// one-time secret, of which only a hash is stored as well.
func (s *Server) makeOneTime(w *Write, _ *op.MakeOneTime) (ch Change[op.OneTimeMade], err error) {
	if s.guard == nil {
		return ch, errACLOff
	}
	t := w.ACLTokenOf(sha256.Sum256([]byte(w.Caller.Token)))
	if t == nil {
		return ch, berth.Errorf(berth.Denied, "Permission denied: only the holder of a token can make a one-time token")
	}
	secret := w.secret()
	seal, err := oneTimeCipher(secret)
	if err != nil {
		return ch, err
	}
	nonce := make([]byte, seal.NonceSize())
	w.random(nonce)
	until := w.Now.Add(oneTimeTTL)
	c := &state.PutOneTimeToken{Token: &berth.OneTimeToken{
		AccessorID: t.AccessorID, SecretHash: sha256.Sum256([]byte(secret)), ExpirationTime: until.UnixNano(),
		Sealed: seal.Seal(nonce, nonce, []byte(w.Caller.Token), []byte(t.AccessorID)),
	}}
	return propose(c, func(o *Outcome) op.OneTimeMade {
		return op.OneTimeMade{OneTimeToken: &op.OneTimeToken{
			OneTimeSecretID: secret, AccessorID: t.AccessorID, ExpiresAt: until.UTC(), CreateIndex: o.Index, ModifyIndex: o.Index,
		}}
	}), nil
}

// oneTimeCipher returns the encryption under a one-time secret.
func oneTimeCipher(secret string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "berth one-time token", 32)
	if err != nil {
		return nil, err
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// errOneTime refuses a one-time token. It does not tell one that never was from
// one that is used up.
var errOneTime = berth.Errorf(berth.Denied, "Permission denied: the one-time token is not valid")

// exchangeOneTime decides that a one-time token is used up, and returns the token
// that it stands for.
func (s *Server) exchangeOneTime(w *Write, in *op.ExchangeOneTime) (ch Change[op.OneTimeExchanged], err error) {
	if s.guard == nil {
		return ch, errACLOff
	}
	hash := sha256.Sum256([]byte(in.OneTimeSecretID))
	x := w.OneTimeToken(hash)
	if x == nil {
		return ch, errOneTime
	}
	t := w.ACLToken(x.AccessorID)
	seal, err := oneTimeCipher(in.OneTimeSecretID)
	if err != nil {
		return ch, err
	}
	if t == nil || t.Expired(w.Now) || len(x.Sealed) < seal.NonceSize() {
		return ch, errOneTime
	}
	n := seal.NonceSize()
	secret, err := seal.Open(nil, x.Sealed[:n], x.Sealed[n:], []byte(x.AccessorID))
	if err != nil {
		return ch, errOneTime
	}
	view := tokenView(w.Snapshot, t)
	view.SecretID = string(secret)
	return propose(&state.TakeOneTimeToken{Hash: hash, Now: w.Now.UnixNano()}, func(*Outcome) op.OneTimeExchanged { return op.OneTimeExchanged{Token: &view} }), nil
}
