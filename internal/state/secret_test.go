package state_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// rootKey returns a key of a state, with nothing real in it.
func rootKey(n int, at string) *berth.RootKey {
	k := &berth.RootKey{
		ID: statetest.ID[berth.RootKey](n), State: at, Signing: berth.SignEdDSA, Public: []byte("public"),
		Wrapped: berth.WrappedKey{Provider: "aead", Data: []byte("wrapped")}, CreateTime: int64(n),
	}
	if at == berth.KeyPrepublished {
		k.PublishTime = 1000
	}
	return k
}

// put returns the command that writes a variable under a key.
func put(path string, key int) *state.PutVariable {
	return &state.PutVariable{Namespace: "default", Path: path, KeyID: statetest.ID[berth.RootKey](key), Data: []byte("sealed"), Size: 6, Now: 7}
}

// keyStates lists the states of the root keys.
func keyStates(s *state.Snapshot) (out []string) {
	for k := range s.RootKeys() {
		out = append(out, k.State)
	}
	return out
}

// refusal returns the kind with which a command is refused, "" if it is not.
func refusal(t *testing.T, log *statetest.Log, c state.Command) berth.Kind {
	t.Helper()
	before := log.Tip().Hash()
	_, err := log.Propose(t.Context(), c)
	if err != nil && log.Tip().Hash() != before {
		t.Errorf("%T was refused and changed the state", c)
	}
	return berth.KindOf(err)
}

// A key replaces the one before it; a full rotation ends when nothing is
// encrypted with an older key.
func TestRootKeys(t *testing.T) {
	store, log := statetest.New(t)
	at := func(want ...string) {
		t.Helper()
		if got := keyStates(store.Snapshot()); !slices.Equal(got, want) {
			t.Fatalf("the keys are %v, not %v", got, want)
		}
	}
	is := func(what string, c state.Command, want berth.Kind) {
		t.Helper()
		if got := refusal(t, log, c); got != want {
			t.Errorf("%s: %q, not %q", what, got, want)
		}
	}
	is("a rotation before there is a key", &state.AddRootKey{Key: rootKey(1, berth.KeyActive)}, berth.Unavailable)
	is("the first key", &state.AddRootKey{Key: rootKey(1, berth.KeyActive), First: true}, "")
	is("another first key", &state.AddRootKey{Key: rootKey(2, berth.KeyActive), First: true}, berth.Conflict)
	is("a variable", put("a", 1), "")
	is("a rotation", &state.AddRootKey{Key: rootKey(2, berth.KeyActive)}, "")
	at(berth.KeyInactive, berth.KeyActive)
	is("removal of the active key", &state.RemoveRootKey{ID: statetest.ID[berth.RootKey](2), Force: true}, berth.Invalid)
	is("removal of a key that encrypts", &state.RemoveRootKey{ID: statetest.ID[berth.RootKey](1)}, berth.Conflict)
	is("a key that is published first", &state.AddRootKey{Key: rootKey(3, berth.KeyPrepublished)}, "")
	is("a full rotation to a key that is not used yet", &state.AddRootKey{Key: rootKey(4, berth.KeyPrepublished), Full: true}, berth.Invalid)
	at(berth.KeyInactive, berth.KeyActive, berth.KeyPrepublished)
	is("its time", &state.StepRootKeys{Activate: statetest.ID[berth.RootKey](3), Now: 1000}, "")
	at(berth.KeyInactive, berth.KeyInactive, berth.KeyActive)
	is("its time again", &state.StepRootKeys{Activate: statetest.ID[berth.RootKey](3), Now: 1000}, berth.Conflict)
	is("a full rotation", &state.AddRootKey{Key: rootKey(4, berth.KeyActive), Full: true}, "")
	at(berth.KeyRekeying, berth.KeyInactive, berth.KeyInactive, berth.KeyActive)
	is("an early end", &state.StepRootKeys{Rekeyed: []berth.RootKeyID{statetest.ID[berth.RootKey](1)}}, berth.Conflict)
	v := store.Snapshot().Variable(berth.VariableKey{Namespace: "default", Path: "a"})
	re := state.Rekeyed{Namespace: "default", Path: "a", From: v.KeyID, ModifyIndex: v.ModifyIndex, Data: []byte("again")}
	is("encryption with a key that is not active", &state.RekeyVariables{To: statetest.ID[berth.RootKey](3), Vars: []state.Rekeyed{re}}, berth.Conflict)
	is("encryption", &state.RekeyVariables{To: statetest.ID[berth.RootKey](4), Vars: []state.Rekeyed{re}}, "")
	is("encryption once more", &state.RekeyVariables{To: statetest.ID[berth.RootKey](4), Vars: []state.Rekeyed{re}}, berth.Conflict)
	if n := store.Snapshot().Variable(v.Key()); n.ModifyIndex != v.ModifyIndex || string(n.Data) != "again" || store.Snapshot().VariablesUnder(v.KeyID) != 0 {
		t.Errorf("encrypted again it is %+v", n)
	}
	is("the end", &state.StepRootKeys{Rekeyed: []berth.RootKeyID{statetest.ID[berth.RootKey](1)}}, "")
	is("removal", &state.RemoveRootKey{ID: statetest.ID[berth.RootKey](1)}, "")
	is("removal of what is gone", &state.RemoveRootKey{ID: statetest.ID[berth.RootKey](1)}, berth.NotFound)
	at(berth.KeyInactive, berth.KeyInactive, berth.KeyActive)
}

// A key that may have signed what a running allocation holds stays.
func TestKeysOutliveWhatTheySigned(t *testing.T) {
	store, log := statetest.New(t, &state.AddRootKey{Key: rootKey(1, berth.KeyActive), First: true}, statetest.AddNode(1, 1000, 1000),
		statetest.Register(sized(t, 1, ""), 1))
	log.Must(t, &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](1), Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}}, End: &state.EvalEnd{Status: berth.EvalComplete},
	})
	next := rootKey(2, berth.KeyActive)
	next.CreateTime = time.Now().UnixNano()
	log.Must(t, &state.AddRootKey{Key: next})
	remove := &state.RemoveRootKey{ID: statetest.ID[berth.RootKey](1)}
	if got := refusal(t, log, remove); got != berth.Conflict {
		t.Errorf("while an allocation runs: %q", got)
	}
	c := &state.ReportAllocs{Node: statetest.ID[berth.Node](1), Now: 9}
	for a := range store.Snapshot().AllocsOn(c.Node) {
		c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientComplete})
	}
	log.Must(t, c, remove)
}

// A variable is written only as its caller takes it to be, and by who holds its
// lock.
func TestVariables(t *testing.T) {
	store, log := statetest.New(t, &state.AddRootKey{Key: rootKey(1, berth.KeyActive), First: true})
	key := berth.VariableKey{Namespace: "default", Path: "a/b"}
	now := func() *berth.SealedVariable { return store.Snapshot().Variable(key) }
	do := func(what string, want berth.Kind, change func(*state.PutVariable)) {
		t.Helper()
		c := put("a/b", 1)
		change(c)
		if got := refusal(t, log, c); got != want {
			t.Errorf("%s: %q, not %q", what, got, want)
		}
	}
	lock := func(n int) berth.LockID { return statetest.ID[berth.VariableLock](n) }
	take := func(n int) *berth.VariableLock {
		return &berth.VariableLock{ID: lock(n), TTL: time.Minute, Delay: time.Second}
	}
	do("a bad path", berth.Invalid, func(c *state.PutVariable) { c.Path = "a b" })
	do("no such namespace", berth.NotFound, func(c *state.PutVariable) { c.Namespace = "none" })
	do("no such key", berth.Conflict, func(c *state.PutVariable) { c.KeyID = statetest.ID[berth.RootKey](9) })
	do("nothing to keep", berth.NotFound, func(c *state.PutVariable) { c.Data = nil })
	do("another than none", berth.Conflict, func(c *state.PutVariable) { c.Check, c.CAS = true, 5 })
	do("only a new one", "", func(c *state.PutVariable) { c.Check = true })
	do("only a new one again", berth.Conflict, func(c *state.PutVariable) { c.Check = true })
	do("the same", "", func(c *state.PutVariable) { c.Check, c.CAS = true, now().ModifyIndex })
	if v := now(); v.CreateIndex >= v.ModifyIndex || v.Lock != nil {
		t.Errorf("it is %+v", v)
	}
	do("a release of nothing", berth.Conflict, func(c *state.PutVariable) { c.Data, c.Release = nil, true })
	do("a lock", "", func(c *state.PutVariable) { c.Data, c.Acquire = nil, take(1) })
	do("another's lock", berth.Conflict, func(c *state.PutVariable) { c.Data, c.Acquire = nil, take(2) })
	do("a write without the lock", berth.Conflict, func(*state.PutVariable) {})
	do("a write with it", "", func(c *state.PutVariable) { c.Lock = lock(1) })
	if got := refusal(t, log, &state.DeleteVariable{Namespace: "default", Path: "a/b"}); got != berth.Conflict {
		t.Errorf("deleted without the lock: %q", got)
	}
	ref := []state.LockRef{{Namespace: "default", Path: "a/b", ID: lock(1)}}
	log.Must(t, &state.StepLocks{Lose: ref})
	do("a lock within the delay", berth.Conflict, func(c *state.PutVariable) { c.Data, c.Acquire = nil, take(2) })
	do("a write with a lock that was lost", berth.Conflict, func(c *state.PutVariable) { c.Lock = lock(1) })
	do("a write within the delay", "", func(*state.PutVariable) {})
	log.Must(t, &state.StepLocks{Free: ref})
	if got := refusal(t, log, &state.StepLocks{Free: ref}); got != berth.Conflict {
		t.Errorf("freed twice: %q", got)
	}
	do("a lock after it", "", func(c *state.PutVariable) { c.Data, c.Acquire = nil, take(2) })
	do("a release by another", berth.Conflict, func(c *state.PutVariable) { c.Data, c.Release, c.Lock = nil, true, lock(1) })
	do("a release", "", func(c *state.PutVariable) { c.Data, c.Release, c.Lock = nil, true, lock(2) })
	if got := refusal(t, log, &state.DeleteVariable{Namespace: "default", Path: "a/b", Check: true, CAS: 1}); got != berth.Conflict {
		t.Errorf("deleted as it was once: %q", got)
	}
	log.Must(t, &state.DeleteVariable{Namespace: "default", Path: "a/b"}, &state.DeleteVariable{Namespace: "default", Path: "a/b"})
	if s := store.Snapshot(); now() != nil || s.Count(state.Variables) != 0 || s.VariablesUnder(statetest.ID[berth.RootKey](1)) != 0 {
		t.Error("it is not gone")
	}
}

// A namespace with variables stays.
func TestVariablesKeepTheirNamespace(t *testing.T) {
	_, log := statetest.New(t, &state.AddRootKey{Key: rootKey(1, berth.KeyActive), First: true},
		&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "team"}}})
	c := put("a", 1)
	c.Namespace = "team"
	log.Must(t, c)
	remove := &state.DeleteNamespaces{Names: []string{"team"}}
	if got := refusal(t, log, remove); got != berth.Conflict {
		t.Errorf("with a variable: %q", got)
	}
	log.Must(t, &state.DeleteVariable{Namespace: "team", Path: "a"}, remove)
}

// Whatever is done: the indexes say what the rows say, and the state is saved
// and loaded as it is.
func TestSecretsAreIndexed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		store, log := statetest.New(t, &state.AddRootKey{Key: rootKey(1, berth.KeyActive), First: true})
		keys := 1
		for range rapid.IntRange(1, 40).Draw(r, "commands") {
			path := fmt.Sprintf("p/%d", rapid.IntRange(0, 3).Draw(r, "path"))
			id := statetest.ID[berth.VariableLock](rapid.IntRange(1, 2).Draw(r, "lock"))
			ref := []state.LockRef{{Namespace: "default", Path: path, ID: id}}
			var c state.Command
			switch rapid.IntRange(0, 7).Draw(r, "what") {
			case 0, 1:
				c = put(path, rapid.IntRange(1, keys).Draw(r, "key"))
			case 2:
				p := put(path, keys)
				p.Acquire = &berth.VariableLock{ID: id, TTL: time.Minute, Delay: time.Minute}
				c = p
			case 3:
				c = &state.PutVariable{Namespace: "default", Path: path, Release: true, Lock: id}
			case 4:
				c = &state.DeleteVariable{Namespace: "default", Path: path}
			case 5:
				c = &state.StepLocks{Lose: ref, Free: ref}
			case 6:
				keys++
				c = &state.AddRootKey{Key: rootKey(keys, berth.KeyActive), Full: rapid.Bool().Draw(r, "full")}
			case 7:
				do := &state.RekeyVariables{To: store.Snapshot().ActiveKey().ID}
				for v := range store.Snapshot().Variables() {
					do.Vars = append(do.Vars, state.Rekeyed{Namespace: v.Namespace, Path: v.Path, From: v.KeyID, ModifyIndex: v.ModifyIndex, Data: []byte("again")})
				}
				c = do
			}
			log.Propose(t.Context(), c)
		}
		s := store.Snapshot()
		under, locked, active := map[berth.RootKeyID]int{}, 0, 0
		for v := range s.Variables() {
			under[v.KeyID]++
			if v.Lock != nil {
				locked++
			}
		}
		for k := range s.RootKeys() {
			if n := s.VariablesUnder(k.ID); n != under[k.ID] {
				r.Errorf("%d variables are under key %s, not %d", n, k.ID, under[k.ID])
			}
			if k.State == berth.KeyActive {
				active++
			}
		}
		if n := len(slices.Collect(s.Locked())); n != locked || active != 1 || len(slices.Collect(maps.Keys(under))) > keys {
			r.Errorf("%d locks, not %d; %d active keys", n, locked, active)
		}
		var saved bytes.Buffer
		if err := s.Save(&saved); err != nil {
			r.Fatal(err)
		}
		if again, err := state.Load(&saved); err != nil || again.Hash() != s.Hash() || len(slices.Collect(again.Locked())) != locked {
			r.Errorf("loaded it is another state: %v", err)
		}
	})
}
