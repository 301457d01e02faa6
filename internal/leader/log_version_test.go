package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// behind is a log that takes nothing of the newer dialect yet.
type behind struct {
	state.Log
	upgraded atomic.Bool
	refused  atomic.Int64
}

// Propose implements state.Log.
func (b *behind) Propose(ctx context.Context, cmds ...state.Command) ([]state.Result, error) {
	if b.upgraded.Load() {
		return b.Log.Propose(ctx, cmds...)
	}
	b.refused.Add(1)
	err := &berth.Error{Kind: berth.Unavailable, Err: state.ErrLogVersion}
	return []state.Result{{Err: err}}, err
}

// names wants the cluster to have a name, and asks for it every ten minutes.
type names struct{}

// Step implements leader.Controller.
func (names) Step(s *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	if s.Cluster.IsZero() {
		do = append(do, &state.BeginTerm{Term: s.Term + 1, Cluster: state.ClusterID{1}})
	}
	return do, now.Add(10 * time.Minute)
}

// What a controller wants that not all servers know yet is refused, which ends
// nothing and is no reason to ask at once; it goes on when the last server is
// upgraded.
func TestControllersWaitForUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, &state.BeginTerm{Term: 3})
		b := &behind{Log: log}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- leader.Run(ctx, names{}, 3, store, b) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := b.refused.Load(); n < 6 || n > 7 {
			t.Errorf("in an hour it asked %d times", n)
		}
		b.upgraded.Store(true)
		time.Sleep(11 * time.Minute)
		if store.Snapshot().Cluster.IsZero() {
			t.Error("it does not go on")
		}
		end()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended: %v", err)
		}
	})
}
