package state_test

import (
	"runtime"
	"testing"

	"berth/internal/eventually"
	"berth/internal/state"
)

// Who follows the commits and stands still keeps a bounded number of them in
// memory. When it goes on it is told that some are missing, and goes on from the
// newest state. Others notice nothing.
func TestAFollowerThatStandsStill(t *testing.T) {
	store := state.New()
	commit := func(n int) {
		t.Helper()
		for range n {
			tx := state.Begin(store.Snapshot())
			if r := tx.Apply(&state.BeginTerm{Term: store.Snapshot().Term + 1}); r.Err != nil {
				t.Fatal(r.Err)
			}
			store.Publish(tx.End())
		}
	}
	still, quick := store.Follow(), store.Follow()
	defer quick.Stop()
	commit(1)
	freed := make(chan struct{})
	runtime.AddCleanup(store.Commit(), func(ch chan struct{}) { close(ch) }, freed)
	for range state.MostBehind - 1 {
		commit(1)
		if c, err := quick.Next(t.Context()); err != nil || c.Reset {
			t.Fatal("a follower that keeps up misses something")
		}
	}
	if c := still.Commit().TryNext(); c == nil || c.Reset {
		t.Fatal("what was in bounds is forgotten")
	}
	commit(2)
	newest := store.Snapshot()
	commit(1)
	eventually.True(t, "the commits that nobody reads are freed", func() bool {
		for c := quick.TryNext(); c != nil; c = quick.TryNext() {
		}
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	})
	c, err := still.Next(t.Context())
	if err != nil || !c.Reset || c.Index < newest.Index {
		t.Fatalf("after standing still: %+v, %v", c, err)
	}
	commit(1)
	for still.Commit().Index < store.Snapshot().Index {
		if c, err = still.Next(t.Context()); err != nil || c.Reset {
			t.Fatalf("it does not go on: %+v, %v", c, err)
		}
	}
	still.Stop()
	commit(state.MostBehind + 2) // nobody bounds one that has stopped
	if c := still.Commit().TryNext(); c == nil || c.Reset {
		t.Error("a follower that has stopped is still bounded")
	}
}
