package state

import (
	"fmt"
	"iter"

	"berth"
	"berth/internal/state/codec"
)

// RootKeys returns the keys of the keyring, the oldest first.
func (s *Snapshot) RootKeys() iter.Seq[*berth.RootKey] {
	return rowsOf(&s.rootKeys.rows, s.rootKeys.byTime.All())
}

// RootKey returns the root key, or nil.
func (s *Snapshot) RootKey(id berth.RootKeyID) *berth.RootKey {
	for k := range s.RootKeys() {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// ActiveKey returns the root key that encrypts new values and signs new
// identities, nil before the first one.
func (s *Snapshot) ActiveKey() *berth.RootKey {
	for k := range s.RootKeys() {
		if k.State == berth.KeyActive {
			return k
		}
	}
	return nil
}

// putRootKey stores a root key. old is the row it replaces, or nil.
func (tx *Tx) putRootKey(old, k *berth.RootKey) {
	t := &tx.rootKeys
	if old == nil {
		t.byTime.Add(tx.edit, k.CreateIndex, t.insert(tx, k))
	} else {
		slot, _ := t.byTime.First(k.CreateIndex)
		t.set(tx, slot, k)
	}
	tx.note(RootKeys, anyOrNil(old), k)
}

// MaxRootKeys is the largest number of root keys.
const MaxRootKeys = 1000

// AddRootKey adds a key to the keyring. Its CreateTime is the time of the
// change.
type AddRootKey struct {
	Key   *berth.RootKey // active, or prepublished
	First bool           // only if there is no key yet
	Full  bool           // have every variable encrypted with it
}

// Apply implements Command.
func (c *AddRootKey) Apply(tx *Tx) error {
	switch err := checkRootKey(c.Key); {
	case err != nil:
		return err
	case c.Key.State != berth.KeyActive && c.Key.State != berth.KeyPrepublished:
		return berth.Errorf(berth.Invalid, "root key: must be added as %s or %s, got %q", berth.KeyActive, berth.KeyPrepublished, c.Key.State)
	case c.Full && c.Key.State != berth.KeyActive:
		return berth.Errorf(berth.Invalid, "root key: a key that is published before it is used cannot encrypt all variables at once")
	case tx.RootKey(c.Key.ID) != nil:
		return berth.Errorf(berth.Conflict, "root key %s exists", c.Key.ID)
	case c.First && tx.rootKeys.count > 0:
		return berth.Errorf(berth.Conflict, "there is a root key already")
	case !c.First && tx.ActiveKey() == nil:
		return berth.Errorf(berth.Unavailable, "the cluster has no root key yet")
	case tx.rootKeys.count >= MaxRootKeys:
		return berth.Errorf(berth.Limited, "there are %d root keys, the maximum is %d: remove old ones", tx.rootKeys.count, MaxRootKeys)
	}
	k := *c.Key
	k.CreateIndex, k.ModifyIndex, k.RetireTime = tx.Index, tx.Index, 0
	if k.State == berth.KeyActive {
		tx.retire(k.CreateTime)
	}
	tx.putRootKey(nil, &k)
	if !c.Full {
		return nil
	}
	// Also what still is encrypted with earlier keys follows.
	for old := range tx.RootKeys() {
		if old.State == berth.KeyInactive && tx.VariablesUnder(old.ID) > 0 {
			n := *old
			n.State, n.ModifyIndex = berth.KeyRekeying, tx.Index
			tx.putRootKey(old, &n)
		}
	}
	return nil
}

// checkRootKey returns an error for a key that nobody could use.
func checkRootKey(k *berth.RootKey) error {
	switch {
	case k == nil || k.ID.IsZero():
		return berth.Errorf(berth.Invalid, "root key: has no ID")
	case k.Signing != berth.SignEdDSA && k.Signing != berth.SignRS256:
		return berth.Errorf(berth.Invalid, "root key %s: unknown signing algorithm %q: want %s or %s", k.ID, k.Signing, berth.SignEdDSA, berth.SignRS256)
	case len(k.Public) == 0 || len(k.Wrapped.Data) == 0 || k.Wrapped.Provider == "":
		return berth.Errorf(berth.Invalid, "root key %s: is incomplete", k.ID)
	case k.CreateTime == 0:
		return berth.Errorf(berth.Invalid, "root key %s: has no time", k.ID)
	case k.State == berth.KeyPrepublished && k.PublishTime <= 0:
		return berth.Errorf(berth.Invalid, "root key %s: has no time at which it becomes active", k.ID)
	}
	return nil
}

// retire makes the active key inactive.
func (tx *Tx) retire(now int64) {
	if old := tx.ActiveKey(); old != nil {
		n := *old
		n.State, n.RetireTime, n.ModifyIndex = berth.KeyInactive, now, tx.Index
		tx.putRootKey(old, &n)
	}
}

// StepRootKeys moves root keys on: one that was published becomes active, and
// those that encrypt nothing any more are done.
type StepRootKeys struct {
	ByLeader
	Activate berth.RootKeyID // zero: none
	Rekeyed  []berth.RootKeyID
	Now      int64
}

// Apply implements Command.
func (c *StepRootKeys) Apply(tx *Tx) error {
	var next *berth.RootKey
	if !c.Activate.IsZero() {
		if next = tx.RootKey(c.Activate); next == nil || next.State != berth.KeyPrepublished {
			return berth.Errorf(berth.Conflict, "root key %s does not wait to become active", c.Activate)
		}
	}
	for _, id := range c.Rekeyed {
		if k := tx.RootKey(id); k == nil || k.State != berth.KeyRekeying || tx.VariablesUnder(id) > 0 {
			return berth.Errorf(berth.Conflict, "root key %s is in use", id)
		}
	}
	if next != nil {
		tx.retire(c.Now)
		n := *next
		n.State, n.ModifyIndex = berth.KeyActive, tx.Index
		tx.putRootKey(next, &n)
	}
	for _, id := range c.Rekeyed {
		k := tx.RootKey(id)
		if k.State == berth.KeyRekeying { // else it was named twice
			n := *k
			n.State, n.ModifyIndex = berth.KeyInactive, tx.Index
			tx.putRootKey(k, &n)
		}
	}
	return nil
}

// RemoveRootKey removes a root key. The active one stays, and so does one that
// is needed to decrypt a variable or to verify an identity, unless Force is
// set.
type RemoveRootKey struct {
	ID    berth.RootKeyID
	Force bool
}

// Apply implements Command.
func (c *RemoveRootKey) Apply(tx *Tx) error {
	k := tx.RootKey(c.ID)
	switch {
	case k == nil:
		return berth.Errorf(berth.NotFound, "root key %s not found", c.ID)
	case k.State == berth.KeyActive:
		return berth.Errorf(berth.Invalid, "root key %s is active and cannot be removed: rotate first", c.ID)
	}
	if n := tx.VariablesUnder(c.ID); n > 0 && !c.Force {
		return berth.Errorf(berth.Conflict, "root key %s encrypts %d variables: rotate with -full first, or remove it by force, which makes them unreadable", c.ID, n)
	}
	if a := tx.signedBy(k); a != nil && !c.Force {
		return berth.Errorf(berth.Conflict, "root key %s may have signed an identity of allocation %s, which still runs: wait until it has ended, or remove the key by force", c.ID, a.ID)
	}
	t := &tx.rootKeys
	slot, _ := t.byTime.First(k.CreateIndex)
	t.byTime.Remove(tx.edit, k.CreateIndex, slot)
	t.remove(tx, slot)
	tx.note(RootKeys, k, nil)
	return nil
}

// OutOfUse reports whether a key encrypts no variable, and has signed no identity
// of an allocation that runs.
func (s *Snapshot) OutOfUse(k *berth.RootKey) bool {
	return s.VariablesUnder(k.ID) == 0 && s.signedBy(k) == nil
}

// signedBy returns an allocation that runs and may hold an identity that the
// key signed, or nil: one that is older than the end of the key's time. It
// looks at all allocations; keys are rarely removed.
func (s *Snapshot) signedBy(k *berth.RootKey) *berth.Alloc {
	if k.RetireTime == 0 { // it never was active
		return nil
	}
	for a := range s.Allocs() {
		if a.CreateTime <= k.RetireTime && !a.Ended() {
			return a
		}
	}
	return nil
}

// loadRootKey adds a root key.
func loadRootKey(l *loader, r *codec.Reader) error {
	k := read[berth.RootKey](r)
	if r.Err() != nil {
		return nil
	}
	if err := checkRootKey(k); err != nil {
		return err
	}
	if _, twice := l.tx.rootKeys.byTime.First(k.CreateIndex); twice || l.tx.RootKey(k.ID) != nil {
		return duplicate("root key", k.ID)
	}
	if k.State == berth.KeyActive && l.tx.ActiveKey() != nil {
		return fmt.Errorf("root key %s is the second that is active", k.ID)
	}
	l.tx.rootKeys.byTime.Add(l.tx.edit, k.CreateIndex, l.tx.rootKeys.insert(l.tx, k))
	return nil
}
