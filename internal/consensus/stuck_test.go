//go:build faults

package consensus_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"berth/internal/consensus"
	"berth/internal/failpoint"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// The disk of the only server is slower than an entry may wait: its term goes
// on, and what it answers is there. Callers wait.
func TestDiskThatHangs(t *testing.T) {
	defer failpoint.Reset()
	store := state.New()
	s, err := consensus.Open(consensus.Config{Dir: t.TempDir(), ID: "s1", Patience: 50 * time.Millisecond}, store)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	terms := 0
	err = s.Run(ctx, func(ctx context.Context, term consensus.Term) error {
		terms++
		if err := failpoint.Enable("consensus/log-append-before=delay(200ms)*"); err != nil {
			return err
		}
		var callers sync.WaitGroup
		for n := range 20 {
			callers.Go(func() {
				for i := range 5 {
					if _, err := term.Log.Propose(ctx, statetest.AddNode(20*i+n, 4000, 4000)); err != nil {
						t.Errorf("caller %d: %v", n, err)
					}
				}
			})
		}
		callers.Wait()
		stop()
		return nil
	})
	if !errors.Is(err, context.Canceled) || terms != 1 {
		t.Fatalf("%d terms, %v", terms, err)
	}
	for n := range 100 {
		if store.Snapshot().Node(statetest.Node(n, 4000, 4000).ID) == nil {
			t.Errorf("node %d was answered and is not there", n)
		}
	}
}
