package worker

import (
	"sync"
	"testing"

	"berth/internal/state"
)

// The state that workers of a follower decide on never goes back: an evaluation
// that a worker was just given would be taken for a deleted one.
func TestTheStateOfAFollowerNeverGoesBack(t *testing.T) {
	store := state.New()
	f := NewFollower(nil, store)
	over := make(chan struct{})
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				index := store.Snapshot().Index
				if err := f.catchUp(t.Context(), index); err != nil {
					t.Error(err)
					return
				}
				if got := f.Tip().Index; got < index {
					t.Errorf("after catching up with %d the state is %d", index, got)
					return
				}
			}
		})
	}
	for range 20_000 {
		tx := state.Begin(store.Snapshot())
		if r := tx.Apply(&state.BeginTerm{Term: store.Snapshot().Term + 1}); r.Err != nil {
			t.Fatal(r.Err)
		}
		store.Publish(tx.End())
	}
	close(over)
	workers.Wait()
}
