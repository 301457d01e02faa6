package state

import (
	"iter"

	"berth"
	"berth/internal/state/codec"
	"berth/internal/validate"
)

// variableKey returns the key of a variable in the index in order of namespace
// and path.
func variableKey(k berth.VariableKey) string { return k.Namespace + "\x00" + k.Path }

// Variable returns the variable, or nil.
func (s *Snapshot) Variable(k berth.VariableKey) *berth.SealedVariable {
	slot, ok := s.variables.byPath.First(variableKey(k))
	if !ok {
		return nil
	}
	return s.variables.vec.Get(slot)
}

// Variables returns all variables in order of namespace and path.
func (s *Snapshot) Variables() iter.Seq[*berth.SealedVariable] {
	return rowsOf(&s.variables.rows, s.variables.byPath.All())
}

// VariablesWith returns the variables of a namespace whose paths begin with the
// prefix, in order of path.
func (s *Snapshot) VariablesWith(namespace, prefix string) iter.Seq[*berth.SealedVariable] {
	return startingWith(&s.variables.rows, &s.variables.byPath, variableKey(berth.VariableKey{Namespace: namespace, Path: prefix}))
}

// VariablesOf returns the variables that a root key encrypts, in no particular
// order.
func (s *Snapshot) VariablesOf(id berth.RootKeyID) iter.Seq[*berth.SealedVariable] {
	return of(&s.variables.rows, &s.variables.byKey, halfOf(id), func(v *berth.SealedVariable) bool { return v.KeyID == id })
}

// VariablesUnder returns the number of variables that a root key encrypts.
func (s *Snapshot) VariablesUnder(id berth.RootKeyID) (n int) {
	for range s.VariablesOf(id) {
		n++
	}
	return n
}

// Locked returns the variables with a lock, also with one that was lost, in no
// particular order.
func (s *Snapshot) Locked() iter.Seq[*berth.SealedVariable] {
	return rowsOf(&s.variables.rows, s.variables.locked.All())
}

// index adds a row to the indexes other than byPath, or removes it.
func (t *variableTable) index(tx *Tx, v *berth.SealedVariable, slot uint32, there bool) {
	at := hash(v.Namespace, v.Path)
	switch {
	case there:
		t.byKey.Add(tx.edit, halfOf(v.KeyID), slot)
		if v.Lock != nil {
			t.locked.Add(tx.edit, at, slot)
		}
	default:
		t.byKey.Remove(tx.edit, halfOf(v.KeyID), slot)
		if v.Lock != nil {
			t.locked.Remove(tx.edit, at, slot)
		}
	}
}

// putVariable stores a variable. old is the row it replaces, or nil.
func (tx *Tx) putVariable(old, v *berth.SealedVariable) {
	t := &tx.variables
	if old == nil {
		slot := t.insert(tx, v)
		t.byPath.Add(tx.edit, variableKey(v.Key()), slot)
		t.index(tx, v, slot, true)
	} else {
		slot, _ := t.byPath.First(variableKey(v.Key()))
		t.index(tx, old, slot, false)
		t.set(tx, slot, v)
		t.index(tx, v, slot, true)
	}
	if old != nil {
		tx.countQuotaBytes(v.Namespace, -len(old.Data))
	}
	tx.countQuotaBytes(v.Namespace, len(v.Data))
	tx.note(Variables, anyOrNil(old), v)
}

// PutVariable creates or changes a variable, or its lock.
type PutVariable struct {
	Namespace, Path string
	// KeyID, Data and Size are those of SealedVariable; without Data the items
	// stay as they are.
	KeyID   berth.RootKeyID
	Data    []byte
	Size    int
	Check   bool // only if the variable was last changed at index CAS; 0: only if there is none
	CAS     uint64
	Lock    berth.LockID        // that the caller holds
	Acquire *berth.VariableLock // take the lock, or change the one that the caller holds
	Release bool                // give up the lock
	Now     int64
}

// Apply implements Command. A Conflict error means that the variable is not as
// the caller takes it to be, or another holds its lock.
func (c *PutVariable) Apply(tx *Tx) error {
	k := berth.VariableKey{Namespace: c.Namespace, Path: c.Path}
	old := tx.Variable(k)
	if err := c.check(tx, old); err != nil {
		return err
	}
	if err := lockedFor(old, c.Lock); err != nil {
		return err
	}
	if more := len(c.Data); more > 0 {
		if old != nil {
			more -= len(old.Data)
		}
		if err := tx.quotaAllowsBytes(c.Namespace, more); err != nil {
			return err
		}
	}
	v := berth.SealedVariable{Namespace: c.Namespace, Path: c.Path, CreateIndex: tx.Index, CreateTime: c.Now}
	if old != nil {
		v = *old
	}
	switch {
	case c.Acquire != nil && old != nil && old.Lock != nil && old.Lock.Lost:
		return berth.Errorf(berth.Conflict, "the lock on variable %q was lost, and cannot be taken before its delay of %s is over", c.Path, old.Lock.Delay)
	case c.Acquire != nil:
		l := *c.Acquire
		if !c.Lock.IsZero() { // it holds the lock already
			l.ID = c.Lock
		}
		v.Lock = &l
	case c.Release && (old == nil || old.Lock == nil || old.Lock.Lost):
		return berth.Errorf(berth.Conflict, "nobody holds a lock on variable %q", c.Path)
	case c.Release:
		v.Lock = nil
	}
	if len(c.Data) > 0 {
		v.KeyID, v.Data, v.Size = c.KeyID, c.Data, c.Size
	}
	v.ModifyIndex, v.ModifyTime = tx.Index, c.Now
	tx.putVariable(old, &v)
	return nil
}

// check returns why the command cannot be applied, apart from locks.
func (c *PutVariable) check(tx *Tx, old *berth.SealedVariable) error {
	if err := validate.VariablePath(c.Path); err != nil {
		return err
	}
	switch {
	case tx.Namespace(c.Namespace) == nil:
		return berth.Errorf(berth.NotFound, "namespace %q not found", berth.Clip(c.Namespace, 64))
	case len(c.Data) == 0 && old == nil:
		return berth.Errorf(berth.NotFound, "variable %q not found", c.Path)
	case len(c.Data) > 0 && tx.RootKey(c.KeyID) == nil:
		return berth.Errorf(berth.Conflict, "root key %s was removed meanwhile: try again", c.KeyID)
	case c.Size > berth.MaxVariableSize || len(c.Data) > 8*berth.MaxVariableSize:
		return berth.Errorf(berth.TooLarge, "Items: names and values together must have at most %d bytes, got %d", berth.MaxVariableSize, c.Size)
	case c.Acquire != nil && (c.Acquire.ID.IsZero() && c.Lock.IsZero() || c.Acquire.Lost || c.Acquire.TTL <= 0 || c.Acquire.Delay < 0):
		return berth.Errorf(berth.Invalid, "Lock: is incomplete")
	case c.Acquire != nil && c.Release:
		return berth.Errorf(berth.Invalid, "Lock: cannot be taken and released at once")
	}
	return c.unchanged(old)
}

// unchanged returns an error unless the variable was last changed when the
// caller says.
func (c *PutVariable) unchanged(old *berth.SealedVariable) error {
	if c.Check {
		return changedSince(c.Path, old, c.CAS)
	}
	return nil
}

// changedSince returns a Conflict error unless the variable was last changed at
// the index; 0: unless there is none.
func changedSince(path string, old *berth.SealedVariable, index uint64) error {
	at := uint64(0)
	if old != nil {
		at = old.ModifyIndex
	}
	if at != index {
		return berth.Errorf(berth.Conflict, "cas conflict: variable %q was last changed at index %d, not %d", path, at, index)
	}
	return nil
}

// lockedFor returns a Conflict error unless a caller with that lock may change
// the variable.
func lockedFor(old *berth.SealedVariable, id berth.LockID) error {
	held := old != nil && old.Lock != nil && !old.Lock.Lost
	switch {
	case held && old.Lock.ID != id:
		return berth.Errorf(berth.Conflict, "variable %q is locked", old.Path)
	case !held && !id.IsZero():
		return berth.Errorf(berth.Conflict, "the lock is not held any more: it was not renewed in time, or was released")
	}
	return nil
}

// DeleteVariable deletes a variable; one that is gone is no error.
type DeleteVariable struct {
	Namespace, Path string
	Check           bool // only if the variable was last changed at index CAS; 0: only if there is none
	CAS             uint64
	Lock            berth.LockID // that the caller holds
}

// Apply implements Command.
func (c *DeleteVariable) Apply(tx *Tx) error {
	k := berth.VariableKey{Namespace: c.Namespace, Path: c.Path}
	old := tx.Variable(k)
	if c.Check {
		if err := changedSince(c.Path, old, c.CAS); err != nil {
			return err
		}
	}
	if err := lockedFor(old, c.Lock); err != nil || old == nil {
		return err
	}
	tx.removeVariable(old)
	return nil
}

// removeVariable deletes a variable.
func (tx *Tx) removeVariable(old *berth.SealedVariable) {
	t, key := &tx.variables, variableKey(old.Key())
	slot, _ := t.byPath.First(key)
	t.byPath.Remove(tx.edit, key, slot)
	t.index(tx, old, slot, false)
	t.remove(tx, slot)
	tx.countQuotaBytes(old.Namespace, -len(old.Data))
	tx.note(Variables, old, nil)
}

// Rekeyed is a variable that was encrypted again.
type Rekeyed struct {
	Namespace, Path string
	From            berth.RootKeyID // that encrypted it before
	ModifyIndex     uint64          // of the items
	Data            []byte
}

// RekeyVariables replaces the encrypted form of variables; what they hold stays
// the same. Those that were changed meanwhile are left alone.
type RekeyVariables struct {
	ByLeader
	To   berth.RootKeyID
	Vars []Rekeyed
}

// Apply implements Command.
func (c *RekeyVariables) Apply(tx *Tx) error {
	if k := tx.RootKey(c.To); k == nil || k.State != berth.KeyActive {
		return berth.Errorf(berth.Conflict, "root key %s is not active", c.To)
	}
	done := 0
	for i := range c.Vars {
		n := &c.Vars[i]
		old := tx.Variable(berth.VariableKey{Namespace: n.Namespace, Path: n.Path})
		if old == nil || old.KeyID != n.From || old.ModifyIndex != n.ModifyIndex || len(n.Data) == 0 {
			continue
		}
		v := *old
		v.KeyID, v.Data = c.To, n.Data
		tx.putVariable(old, &v)
		done++
	}
	if done == 0 {
		return berth.Errorf(berth.Conflict, "none of the %d variables is as it was", len(c.Vars))
	}
	return nil
}

// LockRef names a lock on a variable.
type LockRef struct {
	Namespace, Path string
	ID              berth.LockID
}

// StepLocks ends locks: those that were not renewed in time, and the delays of
// those that were lost. What changed meanwhile is left alone.
type StepLocks struct {
	ByLeader
	Lose []LockRef
	Free []LockRef // their delay is over
}

// Apply implements Command.
func (c *StepLocks) Apply(tx *Tx) error {
	done := 0
	end := func(refs []LockRef, lost bool) {
		for _, r := range refs {
			old := tx.Variable(berth.VariableKey{Namespace: r.Namespace, Path: r.Path})
			if old == nil || old.Lock == nil || old.Lock.ID != r.ID || old.Lock.Lost != lost {
				continue
			}
			v := *old
			v.Lock = nil
			if !lost && old.Lock.Delay > 0 {
				l := *old.Lock
				l.Lost = true
				v.Lock = &l
			}
			v.ModifyIndex = tx.Index
			tx.putVariable(old, &v)
			done++
		}
	}
	end(c.Free, true) // before others are lost
	end(c.Lose, false)
	if done == 0 {
		return berth.Errorf(berth.Conflict, "none of the %d locks is as it was", len(c.Lose)+len(c.Free))
	}
	return nil
}

// loadVariable adds a variable. The key that encrypts it may be gone: then
// nobody can read it.
func loadVariable(l *loader, r *codec.Reader) error {
	v := read[berth.SealedVariable](r)
	if r.Err() != nil {
		return nil
	}
	if err := validate.VariablePath(v.Path); err != nil {
		return err
	}
	if v.KeyID.IsZero() || len(v.Data) == 0 || l.tx.Variable(v.Key()) != nil {
		return duplicate("variable", v.Path)
	}
	t := &l.tx.variables
	slot := t.insert(l.tx, v)
	t.byPath.Add(l.tx.edit, variableKey(v.Key()), slot)
	t.index(l.tx, v, slot, true)
	return nil
}
