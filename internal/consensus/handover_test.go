package consensus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/state"
)

// A handover of leadership that fails leaves the leader in place, but Raft has
// refused what was proposed meanwhile, so the term is over. The next one begins
// by itself, though nobody in the old one proposes anything more.
func TestATermEndsWithItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		old := leader.leading()
		away := names(3)[0]
		if away == leader.id {
			away = names(3)[1]
		}
		// The one that is to lead cannot be reached, so the handover fails in time.
		for _, id := range names(3) {
			c.net.Cut(id, away)
			c.net.Cut(away, id)
		}
		failed := make(chan error, 1)
		go func() { failed <- leader.Transfer(t.Context(), away) }()
		refused := false
		for !refused {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := c.propose(ctx, old.Log)
			cancel()
			switch {
			case errors.Is(err, state.ErrLost):
				refused = true
			case len(failed) > 0:
				t.Fatalf("the handover has failed (%v) before anything was refused", <-failed)
			case err != nil:
				t.Fatal(err)
			}
		}
		if err := <-failed; err == nil {
			t.Fatal("leadership was handed to a server that cannot be reached")
		}
		c.within(time.Minute, "the next term has begun", func() bool {
			now := leader.leading()
			return now != nil && now.Number != old.Number
		})
		c.net.Heal()
		c.converge()
	})
}
