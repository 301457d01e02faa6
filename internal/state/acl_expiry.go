package state

import (
	"time"

	"berth"
	"berth/internal/state/codec"
)

// PutOneTimeToken stores a one-time token. An earlier one of the same token is
// no longer valid.
type PutOneTimeToken struct{ Token *berth.OneTimeToken }

// maxSealed bounds the encrypted secret of a one-time token.
const maxSealed = 1 << 10

// Apply implements Command.
func (c *PutOneTimeToken) Apply(tx *Tx) error {
	t := c.Token
	switch {
	case t == nil || t.SecretHash == [32]byte{} || len(t.Sealed) == 0 || len(t.Sealed) > maxSealed || t.ExpirationTime <= 0:
		return berth.Errorf(berth.Invalid, "one-time token: is incomplete")
	case tx.ACLToken(t.AccessorID) == nil:
		return berth.Errorf(berth.Denied, "Permission denied: the token is not valid")
	case tx.OneTimeToken(t.SecretHash) != nil:
		return berth.Errorf(berth.Conflict, "another one-time token has this secret")
	}
	tx.dropOneTime(func(old *berth.OneTimeToken) bool { return old.AccessorID == t.AccessorID })
	row := *t
	row.CreateIndex, row.ModifyIndex = tx.Index, tx.Index
	tx.acl.oneTime.put(tx, ACLOneTimeTokens, string(t.SecretHash[:]), &row)
	return nil
}

// dropOneTime deletes the one-time tokens that match. There are few: each lives
// for minutes, and a token has one.
func (tx *Tx) dropOneTime(match func(*berth.OneTimeToken) bool) (n int) {
	var keys [][32]byte
	for t := range tx.OneTimeTokens() {
		if match(t) {
			keys = append(keys, t.SecretHash)
		}
	}
	for _, k := range keys {
		tx.acl.oneTime.drop(tx, ACLOneTimeTokens, string(k[:]))
	}
	return len(keys)
}

// TakeOneTimeToken uses up a one-time token. It works once.
type TakeOneTimeToken struct {
	Hash [32]byte
	Now  int64
}

// Apply implements Command.
func (c *TakeOneTimeToken) Apply(tx *Tx) error {
	t := tx.OneTimeToken(c.Hash)
	if t == nil || c.Now >= t.ExpirationTime || tx.ACLToken(t.AccessorID) == nil {
		return berth.Errorf(berth.Denied, "Permission denied: the one-time token is not valid")
	}
	tx.acl.oneTime.drop(tx, ACLOneTimeTokens, string(c.Hash[:]))
	return nil
}

// ExpiredTokens returns the accessor IDs of tokens that expired at a time or
// before, at most a number of them, and whether a one-time token did. local leaves
// out the global tokens.
func (s *Snapshot) ExpiredTokens(at time.Time, most int, local bool) (tokens []string, oneTime bool) {
	for t := range s.ACLTokens() {
		if t.Expired(at) && len(tokens) < most && !(local && t.Global) {
			tokens = append(tokens, t.AccessorID)
		}
	}
	for t := range s.OneTimeTokens() {
		oneTime = oneTime || t.ExpirationTime <= at.UnixNano()
	}
	return tokens, oneTime
}

// DropExpired deletes tokens that expired at a time or before, and all one-time
// tokens that did. Tokens that are gone are skipped.
type DropExpired struct {
	ByLeader
	Accessors []string
	At        int64 // ns since 1970
}

// Apply implements Command.
func (c *DropExpired) Apply(tx *Tx) error {
	if len(c.Accessors) > MaxACLRows {
		return berth.Errorf(berth.Invalid, "tokens: must name at most %d, got %d", MaxACLRows, len(c.Accessors))
	}
	for _, id := range c.Accessors {
		if t := tx.ACLToken(id); t != nil && !t.Expired(time.Unix(0, c.At)) {
			return berth.Errorf(berth.Conflict, "ACL token %.64q has not expired", id)
		}
	}
	done := tx.dropOneTime(func(t *berth.OneTimeToken) bool { return t.ExpirationTime <= c.At })
	for _, id := range c.Accessors {
		if tx.ACLToken(id) != nil {
			tx.removeToken(id)
			done++
		}
	}
	if done == 0 {
		return berth.Errorf(berth.Conflict, "none of the %d tokens is there", len(c.Accessors))
	}
	return nil
}

// loadOneTimeToken adds a one-time token.
func loadOneTimeToken(l *loader, r *codec.Reader) error {
	t := read[berth.OneTimeToken](r)
	if r.Err() != nil {
		return nil
	}
	return l.tx.acl.oneTime.load(l, "one-time token", string(t.SecretHash[:]), t)
}
