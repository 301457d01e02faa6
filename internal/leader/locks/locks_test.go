package locks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/locks"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

var key = berth.VariableKey{Namespace: "default", Path: "lock"}

// locked returns a state with a lock of 20 s and a delay of 5 s.
func locked(t *testing.T) (*state.Store, *statetest.Log, berth.LockID) {
	id, root := statetest.ID[berth.VariableLock](1), statetest.ID[berth.RootKey](1)
	store, log := statetest.New(t, &state.AddRootKey{First: true, Key: &berth.RootKey{
		ID: root, State: berth.KeyActive, Signing: berth.SignEdDSA, Public: []byte("p"), Wrapped: berth.WrappedKey{Provider: "x", Data: []byte("w")}, CreateTime: 1,
	}}, &state.PutVariable{
		Namespace: key.Namespace, Path: key.Path, KeyID: root, Data: []byte("x"), Acquire: &berth.VariableLock{ID: id, TTL: 20 * time.Second, Delay: 5 * time.Second},
	})
	return store, log, id
}

// run runs a monitor until stop is called.
func run(t *testing.T, store *state.Store, log state.Log) (m *locks.Monitor, stop func()) {
	m = locks.New(0, store, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return m, func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// held reports whether the lock is held, and whether it is in its delay.
func held(store *state.Store) (held, lost bool) {
	l := store.Snapshot().Variable(key).Lock
	return l != nil && !l.Lost, l != nil && l.Lost
}

// A lock that is renewed stays; one that is not is lost after its time, and
// can be taken after its delay.
func TestLocksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log, id := locked(t)
		m, stop := run(t, store, log)
		defer stop()
		for range 10 {
			time.Sleep(15 * time.Second)
			if !m.Renew(key, id) {
				t.Fatal("it was not renewed in time")
			}
		}
		time.Sleep(20*time.Second - time.Millisecond)
		synctest.Wait()
		if h, _ := held(store); !h {
			t.Error("it is lost before its time is over")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if h, lost := held(store); h || !lost || m.Renew(key, id) {
			t.Error("it is held after its time")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if h, lost := held(store); h || lost {
			t.Error("its delay does not end")
		}
		if m.Renew(key, id) || m.Renew(berth.VariableKey{Path: "none"}, id) {
			t.Error("what is not held is renewed")
		}
	})
}

// Another leader gives the lock its full time again.
func TestANewTermBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log, id := locked(t)
		_, stop := run(t, store, log)
		time.Sleep(19 * time.Second)
		stop()
		time.Sleep(time.Minute) // nobody leads
		m, stop := run(t, store, log)
		defer stop()
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if h, _ := held(store); !h || !m.Renew(key, id) {
			t.Error("it is lost before its time in the new term is over")
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if h, _ := held(store); h {
			t.Error("it is never lost")
		}
	})
}

// A lock that was released is forgotten, and a new one has its own time.
func TestReleasedLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log, id := locked(t)
		m, stop := run(t, store, log)
		defer stop()
		time.Sleep(19 * time.Second)
		next := statetest.ID[berth.VariableLock](2)
		log.Must(t, &state.PutVariable{Namespace: key.Namespace, Path: key.Path, Lock: id, Release: true},
			&state.PutVariable{Namespace: key.Namespace, Path: key.Path, Acquire: &berth.VariableLock{ID: next, TTL: 20 * time.Second}})
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if h, _ := held(store); !h || m.Renew(key, id) || !m.Renew(key, next) {
			t.Error("the new lock is not the one that is held")
		}
	})
}
