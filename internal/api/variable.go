package api

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/internal/validate"
	"berth/op"
)

// variables registers the operations on variables.
func (s *Server) variables() {
	readList(s, op.ListVariables, listVariables)
	read(s, op.ReadVariable, s.readVariable)
	onLeader(s, op.PutVariable, func(ctx context.Context, who Caller, opts *op.Write, in *op.WriteVariable) (op.VariableWritten, uint64, error) {
		if err := s.ensureRootKey(ctx); err != nil {
			return op.VariableWritten{}, 0, err
		}
		if in.Renew {
			return s.renewLock(ctx, who, opts, in)
		}
		return runWrite(ctx, s, op.PutVariable.Info, who, opts, in, s.putVariable)
	})
	write(s, op.RemoveVariable, s.removeVariable)
}

// variableAt returns a row, as the order of a list needs it.
func variableAt(v *berth.SealedVariable) string { return v.Namespace + "." + v.Path }

// listVariables returns the variables whose paths begin with the prefix,
// without their items.
func listVariables(r *Read, _ *op.Query) ([]op.VariableStub, error) {
	r.Table(state.Variables)
	prefix := strings.TrimPrefix(r.Query.Prefix, "/")
	var rows iter.Seq[*berth.SealedVariable]
	if r.Space() == berth.AllNamespaces {
		rows = r.Variables()
	} else {
		rows = r.VariablesWith(r.Space(), prefix)
	}
	keep := func(v *berth.SealedVariable) bool {
		return v.Namespace != "" && strings.HasPrefix(v.Path, prefix) && r.visible(op.ListVariables.Need, v.Namespace) && r.mayPath(acl.VariablesList, v.Namespace, v.Path) == nil
	}
	return page(r, scanned(r.Query, rows, byID(variableAt)), keep, func(v *berth.SealedVariable) op.VariableStub { return r.variableStub(v) })
}

// mayPath asks for a right to a path of variables.
func (r *Read) mayPath(need acl.Capability, namespace, path string) error {
	return r.may(need, acl.Place(namespace, path))
}

// variableStub shows a variable without its items. The ID of its lock is shown
// to callers who may write it.
func (r *Read) variableStub(v *berth.SealedVariable) op.VariableStub {
	return op.VariableStub{
		Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex, CreateTime: v.CreateTime, ModifyTime: v.ModifyTime,
		Lock: lockView(v.Lock, r.mayPath(acl.VariablesWrite, v.Namespace, v.Path) == nil),
	}
}

// lockView shows a lock that is held.
func lockView(l *berth.VariableLock, withID bool) *op.Lock {
	if l == nil || l.Lost {
		return nil
	}
	out := &op.Lock{TTL: l.TTL.String(), LockDelay: l.Delay.String()}
	if withID {
		out.ID = l.ID.String()
	}
	return out
}

// errNoKeyring is returned by an agent without a keyring.
var errNoKeyring = berth.Errorf(berth.Unavailable, "this server has no keyring")

// openVariable decrypts a variable.
func (s *Server) openVariable(snap *state.Snapshot, v *berth.SealedVariable) (map[string]string, error) {
	k := snap.RootKey(v.KeyID)
	switch {
	case s.Keyring == nil:
		return nil, errNoKeyring
	case k == nil:
		return nil, berth.Errorf(berth.Unavailable, "variable %q cannot be read: root key %s, which encrypts it, was removed", v.Path, v.KeyID)
	}
	key, err := s.Keyring.Open(k)
	if err != nil {
		return nil, err
	}
	return key.Open(v)
}

// readVariable returns a variable with its items.
func (s *Server) readVariable(r *Read, in *op.VariableRef) (out op.Variable, err error) {
	path := strings.Trim(in.VarPath, "/ ")
	if err := r.mayPath(acl.VariablesRead, r.Space(), path); err != nil {
		return out, err
	}
	if r.Space() == berth.AllNamespaces {
		return out, berth.Errorf(berth.Invalid, "namespace: a variable is in one namespace, got %q", berth.AllNamespaces)
	}
	k := berth.VariableKey{Namespace: r.Space(), Path: path}
	v := r.Variable(k)
	if v == nil {
		// The index of the table lets a caller wait until it is there.
		r.At(r.LastChange(state.Variables), state.OnVariable(k))
		return out, berth.Errorf(berth.NotFound, "variable not found")
	}
	r.At(v.ModifyIndex, state.OnVariable(k))
	if r.Waits() {
		return out, nil
	}
	out.VariableStub = r.variableStub(v)
	out.Items, err = s.openVariable(r.Snapshot, v)
	return out, err
}

// locking returns the lock that a request to take one asks for, with an ID if
// its caller has none.
func locking(w *Write, in *op.WriteVariable, held berth.LockID) (*berth.VariableLock, error) {
	l := &berth.VariableLock{ID: held, TTL: berth.DefaultLockTTL, Delay: berth.DefaultLockDelay}
	if held.IsZero() {
		w.random(l.ID[:])
	}
	if in.Lock == nil {
		return l, nil
	}
	var ps berth.Problems
	for _, x := range []struct {
		name, text string
		to         *time.Duration
		low        time.Duration
	}{{"Lock.TTL", in.Lock.TTL, &l.TTL, berth.MinLockTTL}, {"Lock.LockDelay", in.Lock.LockDelay, &l.Delay, 0}} {
		if x.text == "" {
			continue
		}
		d, err := time.ParseDuration(x.text)
		if err != nil || d < x.low || d > berth.MaxLockTTL {
			ps.Addf(x.name, "must be a duration from %s to %s, got %q", x.low, berth.MaxLockTTL, berth.Clip(x.text, 64))
			continue
		}
		*x.to = d
	}
	return l, ps.Err()
}

// lockOf returns the ID of the lock that a request names, zero for none.
func lockOf(in *op.WriteVariable) (id berth.LockID, err error) {
	if in.Lock == nil || in.Lock.ID == "" {
		return id, nil
	}
	if id, err = berth.ParseID[berth.VariableLock](in.Lock.ID); err != nil {
		return id, berth.Errorf(berth.Invalid, "Lock.ID: %w", err)
	}
	return id, nil
}

// pathOf returns the path that a write names, in the request line and possibly
// in the body.
func pathOf(in *op.WriteVariable) (string, error) {
	path, body := strings.Trim(in.VarPath, "/ "), strings.Trim(in.Path, "/ ")
	if body != "" && body != path {
		return "", berth.Errorf(berth.Invalid, "Path: %q in the body differs from %q in the request line", berth.Clip(body, 64), berth.Clip(path, 64))
	}
	return path, validate.VariablePath(path)
}

// putVariable decides that a variable is written, or its lock changed. The
// items are encrypted here, before anything is proposed.
func (s *Server) putVariable(w *Write, in *op.WriteVariable) (ch Change[op.VariableWritten], err error) {
	path, err := pathOf(in)
	if err != nil {
		return ch, err
	}
	if err := w.read().mayPath(acl.VariablesWrite, w.Space(), path); err != nil {
		return ch, err
	}
	if in.Acquire && in.Release || (in.Acquire || in.Release) && in.CAS != nil {
		return ch, berth.Errorf(berth.Invalid, "cas, lock-acquire and lock-release: only one of them can be given")
	}
	c := &state.PutVariable{Namespace: w.Space(), Path: path, Release: in.Release, Now: w.Now.UnixNano()}
	if in.CAS != nil {
		c.Check, c.CAS = true, *in.CAS
	}
	if c.Lock, err = lockOf(in); err != nil {
		return ch, err
	}
	if in.Acquire {
		if c.Acquire, err = locking(w, in, c.Lock); err != nil {
			return ch, err
		}
	}
	k := berth.VariableKey{Namespace: c.Namespace, Path: path}
	if err := s.sealItems(w, c, in, w.Variable(k) != nil); err != nil {
		return ch, err
	}
	answer := func(after *state.Snapshot, conflict bool) (op.VariableWritten, error) {
		return s.written(w, after, k, conflict)
	}
	ch.Commands = []state.Command{c}
	ch.Answer = func(o *Outcome) op.VariableWritten {
		out, err := answer(o.After, false)
		if err != nil || out.ModifyIndex != o.Index { // another write came after it
			out.VariableStub = op.VariableStub{Namespace: k.Namespace, Path: k.Path, ModifyIndex: o.Index, ModifyTime: c.Now, Lock: lockView(c.Acquire, true)}
			out.Items = in.Items
		}
		return out
	}
	ch.Refused = conflicting(answer)
	return ch, nil
}

// conflicting returns what answers a refused write: what it met, if that is
// another thing than its caller expected.
func conflicting(answer func(*state.Snapshot, bool) (op.VariableWritten, error)) func(*Outcome, error) (op.VariableWritten, error) {
	return func(o *Outcome, err error) (out op.VariableWritten, _ error) {
		if berth.KindOf(err) != berth.Conflict {
			return out, err
		}
		return answer(o.After, true)
	}
}

// sealItems puts the items of a request into the command, encrypted with the
// active root key. A request about the lock of a variable that exists can do
// without items.
func (s *Server) sealItems(w *Write, c *state.PutVariable, in *op.WriteVariable, exists bool) error {
	if (in.Acquire || in.Release) && len(in.Items) == 0 && (exists || in.Release) {
		return nil
	}
	if len(in.Items) == 0 && !in.Acquire {
		return berth.Errorf(berth.Invalid, "variable missing required Items object")
	}
	size, err := validate.VariableItems(in.Items)
	if err != nil {
		return err
	}
	row := w.ActiveKey()
	switch {
	case s.Keyring == nil:
		return errNoKeyring
	case row == nil:
		return berth.Errorf(berth.Unavailable, "the cluster has no root key yet: a server may be too old to know them")
	}
	key, err := s.Keyring.Open(row)
	if err != nil {
		return err
	}
	c.KeyID, c.Size = row.ID, size
	c.Data, err = key.Seal(berth.VariableKey{Namespace: c.Namespace, Path: c.Path}, in.Items)
	return err
}

// written shows a variable as a write left or met it. Its items are shown to
// callers who may read them.
func (s *Server) written(w *Write, after *state.Snapshot, k berth.VariableKey, conflict bool) (out op.VariableWritten, err error) {
	out.Conflict = conflict
	out.Namespace, out.Path = k.Namespace, k.Path
	v := after.Variable(k)
	if v == nil {
		return out, nil
	}
	r := w.read()
	out.VariableStub = r.variableStub(v)
	if conflict {
		out.Lock = lockView(v.Lock, false) // it is another's
	}
	if r.mayPath(acl.VariablesRead, k.Namespace, k.Path) == nil {
		out.Items, err = s.openVariable(after, v)
	}
	return out, err
}

// removeVariable decides that a variable is deleted.
func (s *Server) removeVariable(w *Write, in *op.DeleteVariable) (ch Change[op.VariableWritten], err error) {
	path := strings.Trim(in.VarPath, "/ ")
	if err := w.read().mayPath(acl.VariablesDestroy, w.Space(), path); err != nil {
		return ch, err
	}
	k := berth.VariableKey{Namespace: w.Space(), Path: path}
	c := &state.DeleteVariable{Namespace: k.Namespace, Path: path}
	if in.CAS != nil {
		c.Check, c.CAS = true, *in.CAS
	}
	if w.Variable(k) == nil && (in.CAS == nil || *in.CAS == 0) {
		return ch, nil
	}
	ch = propose(c, func(*Outcome) op.VariableWritten {
		return op.VariableWritten{Variable: op.Variable{VariableStub: op.VariableStub{Namespace: k.Namespace, Path: k.Path}}}
	})
	ch.Refused = conflicting(func(after *state.Snapshot, conflict bool) (op.VariableWritten, error) {
		return s.written(w, after, k, conflict)
	})
	return ch, nil
}

// renewLock keeps a lock. Nothing of it is in the log: the leader remembers it.
// That it led until now is confirmed afterwards, so a later leader, which gives
// every lock its full time, began after the renewal.
func (s *Server) renewLock(ctx context.Context, who Caller, opts *op.Write, in *op.WriteVariable) (out op.VariableWritten, _ uint64, err error) {
	w, leader, err := s.admitWrite(ctx, op.PutVariable.Info, who, opts)
	if err != nil {
		return out, 0, err
	}
	path, err := pathOf(in)
	if err == nil {
		err = w.read().mayPath(acl.VariablesWrite, w.Space(), path)
	}
	if err != nil {
		return out, 0, errors.Join(err, confirm(ctx, leader))
	}
	id, err := lockOf(in)
	if err == nil && id.IsZero() {
		err = berth.Errorf(berth.Invalid, "Lock.ID: is missing: want the ID of the lock")
	}
	if err != nil {
		return out, 0, err
	}
	k := berth.VariableKey{Namespace: w.Space(), Path: path}
	renewed := leader.RenewLock(k, id)
	if err := confirm(ctx, leader); err != nil {
		return out, 0, err
	}
	after := s.Store.Snapshot()
	out, err = s.written(w, after, k, !renewed)
	if renewed {
		out.Items = nil
	}
	return out, after.Index, err
}
