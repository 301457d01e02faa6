//go:build faults

package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"berth/internal/consensus"
	"berth/internal/failpoint"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A disk that hangs for longer than an entry may wait ends the term, and when
// it goes on a new one begins by itself. What was answered is there; what was
// not may or may not be.
func TestDiskThatHangs(t *testing.T) {
	defer failpoint.Reset()
	store := state.New()
	s, err := consensus.Open(consensus.Config{Dir: t.TempDir(), ID: "s1", Patience: 50 * time.Millisecond}, store)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var terms []uint64
	var mu sync.Mutex
	answered := map[int]bool{}
	register := func(ctx context.Context, term consensus.Term, n int) error {
		_, err := term.Log.Propose(ctx, statetest.AddNode(n, 4000, 4000))
		if err == nil {
			mu.Lock()
			answered[n] = true
			mu.Unlock()
		}
		return err
	}
	err = s.Run(ctx, func(ctx context.Context, term consensus.Term) error {
		terms = append(terms, term.Number)
		if len(terms) > 1 {
			failpoint.Reset()
			if err := register(ctx, term, 1000); err != nil {
				t.Errorf("in the new term: %v", err)
			}
			stop()
			return nil
		}
		if err := failpoint.Enable("consensus/log-append-before=delay(200ms)*"); err != nil {
			return err
		}
		var callers sync.WaitGroup
		for n := range 20 {
			callers.Go(func() {
				for i := 0; ; i++ { // until the term is lost
					if err := register(ctx, term, 20*i+n); err != nil {
						if !errors.Is(err, state.ErrLost) && !errors.Is(err, context.Canceled) {
							t.Errorf("caller %d: %v", n, err)
						}
						return
					}
				}
			})
		}
		callers.Wait()
		return fmt.Errorf("the callers are told: %w", state.ErrLost)
	})
	if !errors.Is(err, context.Canceled) || len(terms) != 2 || terms[1] <= terms[0] {
		t.Fatalf("terms %v, %v", terms, err)
	}
	snap := store.Snapshot()
	for n := range answered {
		if snap.Node(statetest.Node(n, 4000, 4000).ID) == nil {
			t.Errorf("node %d was answered and is not there", n)
		}
	}
}
