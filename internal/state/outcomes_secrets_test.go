package state_test

import (
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// rootID is the ID of a root key.
func rootID(n int) berth.RootKeyID { return statetest.ID[berth.RootKey](n) }

// secrets has the life of root keys and variables. Afterwards key 4 is active.
func (r *script) secrets() {
	r.refuses(berth.Unavailable, &state.AddRootKey{Key: rootKey(1, berth.KeyActive)}) // no key is active yet
	r.refuses(berth.Invalid, &state.AddRootKey{Key: rootKey(1, berth.KeyInactive), First: true})
	r.does(&state.AddRootKey{Key: rootKey(1, berth.KeyActive), First: true})
	r.refuses(berth.Conflict,
		&state.AddRootKey{Key: rootKey(2, berth.KeyActive), First: true},
		&state.AddRootKey{Key: rootKey(1, berth.KeyActive)})
	r.variables()
	r.locks()
	r.rotation()
	r.deletion()
}

// variable returns the command that writes a variable with key 1.
func variable(path, data string, minute int) *state.PutVariable {
	return &state.PutVariable{Namespace: "default", Path: path, KeyID: rootID(1), Data: []byte(data), Size: len(data), Now: at(minute)}
}

// changed is the index of the last change of a variable.
func (r *script) changed(path string) uint64 {
	return r.s.Variable(berth.VariableKey{Namespace: "default", Path: path}).ModifyIndex
}

// variables writes them with and without a check of the index.
func (r *script) variables() {
	first := variable("app/db", "sealed 1", 1)
	first.Check = true // the variable must not exist
	r.does(first)
	r.refuses(berth.Conflict, first)
	second := variable("app/db", "sealed 2", 2)
	second.Check, second.CAS = true, r.changed("app/db")
	r.does(second)
	r.refuses(berth.Conflict, second) // the index is that of the first
	r.does(variable("app/cache", "sealed 3", 3))
	nowhere, without := variable("app/db", "sealed", 3), variable("app/db", "sealed", 3)
	nowhere.Namespace, without.KeyID = "none", rootID(9)
	r.refuses(berth.NotFound, nowhere, &state.PutVariable{Namespace: "default", Path: "app/none", Now: at(3)})
	r.refuses(berth.Conflict, without)
	r.refuses(berth.Invalid, variable("app db", "sealed", 3))
	large := variable("app/large", "sealed", 3)
	large.Size = berth.MaxVariableSize + 1
	r.refuses(berth.TooLarge, large)
}

// locks takes locks, renews, loses and releases them.
func (r *script) locks() {
	lock := func(n int) berth.LockID { return statetest.ID[berth.VariableLock](n) }
	takes := func(path string, n int, delay time.Duration, minute int) *state.PutVariable {
		return &state.PutVariable{
			Namespace: "default", Path: path, Now: at(minute), Acquire: &berth.VariableLock{ID: lock(n), TTL: 30 * time.Second, Delay: delay},
		}
	}
	ref := func(path string, n int) []state.LockRef {
		return []state.LockRef{{Namespace: "default", Path: path, ID: lock(n)}}
	}
	r.does(takes("app/db", 1, time.Minute, 4))
	r.refuses(berth.Conflict,
		takes("app/db", 2, time.Minute, 4),
		variable("app/db", "sealed 4", 4), // without the lock
		&state.DeleteVariable{Namespace: "default", Path: "app/db"})
	renews, writes := takes("app/db", 1, 2*time.Minute, 5), variable("app/db", "sealed 5", 5)
	renews.Lock, writes.Lock = lock(1), lock(1)
	r.does(renews, writes)
	// It is lost, and cannot be taken before its delay is over.
	r.refuses(berth.Conflict,
		&state.StepLocks{Lose: ref("app/db", 2)},
		&state.StepLocks{Free: ref("app/db", 1)},
		deposed(&state.StepLocks{Lose: ref("app/db", 1)}))
	r.does(&state.StepLocks{Lose: ref("app/db", 1)})
	r.refuses(berth.Conflict, takes("app/db", 2, time.Minute, 6), writes)
	r.does(&state.StepLocks{Free: ref("app/db", 1)})
	r.refuses(berth.Conflict, &state.StepLocks{Free: ref("app/db", 1)})
	// The next holder gives it up itself.
	gives := &state.PutVariable{Namespace: "default", Path: "app/db", Lock: lock(2), Release: true, Now: at(7)}
	r.does(takes("app/db", 2, time.Minute, 7), gives)
	r.refuses(berth.Conflict, gives, &state.PutVariable{Namespace: "default", Path: "app/db", Release: true, Now: at(7)})
	// One without a delay is gone when it is lost.
	r.does(takes("app/cache", 3, 0, 8), &state.StepLocks{Lose: ref("app/cache", 3)})
	incomplete := takes("app/cache", 3, 0, 8)
	incomplete.Acquire.TTL = 0
	r.refuses(berth.Invalid, incomplete)
}

// rotation replaces key 1 with 2, then 3, which was published before, then 4,
// which encrypts all variables again.
func (r *script) rotation() {
	r.does(&state.AddRootKey{Key: rootKey(2, berth.KeyActive)})
	r.refuses(berth.Invalid, &state.RemoveRootKey{ID: rootID(2), Force: true}) // it is active
	r.refuses(berth.Conflict, &state.RemoveRootKey{ID: rootID(1)})             // it encrypts
	r.does(&state.AddRootKey{Key: rootKey(3, berth.KeyPrepublished)})
	r.refuses(berth.Conflict, &state.StepRootKeys{Activate: rootID(2), Now: at(9)}, deposed(&state.StepRootKeys{Activate: rootID(3), Now: at(9)}))
	r.does(&state.StepRootKeys{Activate: rootID(3), Now: at(9)})
	r.refuses(berth.Conflict, &state.StepRootKeys{Activate: rootID(3), Now: at(9)})
	r.refuses(berth.Invalid, &state.AddRootKey{Key: rootKey(4, berth.KeyPrepublished), Full: true})
	r.does(&state.AddRootKey{Key: rootKey(4, berth.KeyActive), Full: true})
	r.refuses(berth.Conflict, &state.StepRootKeys{Rekeyed: []berth.RootKeyID{rootID(1)}, Now: at(10)}) // not yet
	rekeys := func(to int) *state.RekeyVariables {
		return &state.RekeyVariables{To: rootID(to), Vars: []state.Rekeyed{
			{Namespace: "default", Path: "app/cache", From: rootID(1), ModifyIndex: r.changed("app/cache"), Data: []byte("sealed again")},
			{Namespace: "default", Path: "app/db", From: rootID(1), ModifyIndex: r.changed("app/db"), Data: []byte("sealed again")},
			{Namespace: "default", Path: "app/none", From: rootID(1), ModifyIndex: 7, Data: []byte("sealed again")}, // was deleted meanwhile
		}}
	}
	r.refuses(berth.Conflict, rekeys(3), deposed(rekeys(4)))
	r.does(rekeys(4))
	r.refuses(berth.Conflict, rekeys(4)) // none is under key 1
	r.does(
		&state.StepRootKeys{Rekeyed: []berth.RootKeyID{rootID(1), rootID(1)}, Now: at(10)},
		&state.RemoveRootKey{ID: rootID(1)})
	r.refuses(berth.NotFound, &state.RemoveRootKey{ID: rootID(1)})
	r.does(&state.RemoveRootKey{ID: rootID(2), Force: true})
}

// deletion deletes variables.
func (r *script) deletion() {
	deletes := &state.DeleteVariable{Namespace: "default", Path: "app/cache", Check: true, CAS: r.changed("app/cache") - 1}
	r.refuses(berth.Conflict, deletes)
	now := *deletes
	now.CAS++
	r.does(&now)
	r.refuses(berth.Conflict, &now) // it is gone, and was expected
	r.does(&state.DeleteVariable{Namespace: "default", Path: "app/cache"})
}
