package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"berth"
	"berth/internal/consensus"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

// led runs a server on a folder and calls f while it leads.
func led(t *testing.T, dir string, f func(store *state.Store, s *consensus.Server, term consensus.Term)) *state.Store {
	t.Helper()
	return ledAs(t, dir, "s1", f)
}

// ledAs is led with the server's ID.
func ledAs(t *testing.T, dir, id string, f func(store *state.Store, s *consensus.Server, term consensus.Term)) *state.Store {
	t.Helper()
	store := state.New()
	s, err := consensus.Open(consensus.Config{Dir: dir, ID: id, SnapshotEvery: 50}, store)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err = s.Run(ctx, func(_ context.Context, term consensus.Term) error {
		f(store, s, term)
		stop()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return store
}

// What was answered is there after a restart, to the last bit.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	var want uint64
	for round := range 4 {
		store := led(t, dir, func(store *state.Store, s *consensus.Server, term consensus.Term) {
			if round > 0 && store.Snapshot().Hash() == 0 {
				t.Error("no state")
			}
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					n := round*100 + i
					job := statetest.Job(t, fmt.Sprintf(`{"ID":"job%d","TaskGroups":[{"Name":"g"}]}`, n))
					if _, err := term.Log.Propose(t.Context(), statetest.AddNode(n, 4000, 4000), statetest.Register(job, n)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if round == 2 {
				if err := s.Save(); err != nil {
					t.Error(err)
				}
			}
			if term.Log.Tip().Hash() != store.Snapshot().Hash() {
				t.Error("all is committed, but the tip is not the state")
			}
			if v := invariant.Check(store.Snapshot()); len(v) > 0 {
				t.Error(v)
			}
		})
		got := store.Snapshot()
		if got.Count(state.Jobs) != 40*(round+1) {
			t.Fatalf("round %d: %d jobs", round, got.Count(state.Jobs))
		}
		want = got.Hash()
	}
	led(t, dir, func(store *state.Store, _ *consensus.Server, term consensus.Term) {
		// The new term is one command beyond what was there.
		if got := store.Snapshot(); got.Term <= 1 || got.Count(state.Jobs) != 160 {
			t.Errorf("term %d with %d jobs after hash %x", got.Term, got.Count(state.Jobs), want)
		}
	})
}

// A refusal is answered with its kind and leaves no trace; commands of an
// older term are refused.
func TestRefusals(t *testing.T) {
	led(t, t.TempDir(), func(store *state.Store, _ *consensus.Server, term consensus.Term) {
		_, err := term.Log.Propose(t.Context(), &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: "none"}})
		if berth.KindOf(err) != berth.NotFound {
			t.Errorf("stopping an unknown job: %v", err)
		}
		old := &state.CancelEvals{}
		old.Stamp(term.Number - 1)
		if _, err := term.Log.Propose(t.Context(), old); berth.KindOf(err) != berth.Conflict {
			t.Errorf("a command of an older term: %v", err)
		}
		if _, err := term.Log.Propose(t.Context(), statetest.AddNode(1, 1, 1)); err != nil {
			t.Error(err)
		}
	})
}

// A command that is too large to be read from the log again never gets there.
func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	large := statetest.Job(t, `{"ID":"large","TaskGroups":[{"Name":"g"}]}`)
	large.Meta = map[string]string{"text": strings.Repeat("x", codec.MaxCommand)}
	small := statetest.Job(t, `{"ID":"small","TaskGroups":[{"Name":"g"}]}`)
	var want uint64
	led(t, dir, func(store *state.Store, _ *consensus.Server, term consensus.Term) {
		pending, err := term.Log.Stage(statetest.AddNode(1, 1, 1), statetest.Register(large, 1), statetest.Register(small, 2))
		if err == nil {
			err = pending.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		r := pending.Results
		if r[0].Err != nil || berth.KindOf(r[1].Err) != berth.TooLarge || r[2].Err != nil || r[1].Index != r[0].Index || r[2].Index != r[0].Index+1 {
			t.Errorf("results: %v", r)
		}
		if s := store.Snapshot(); s.Count(state.Jobs) != 1 || term.Log.Tip().Hash() != s.Hash() {
			t.Errorf("%d jobs", s.Count(state.Jobs))
		}
		want = store.Snapshot().Job(small.Key()).ModifyIndex
	})
	led(t, dir, func(store *state.Store, _ *consensus.Server, _ consensus.Term) {
		if s := store.Snapshot(); s.Count(state.Jobs) != 1 || s.Job(small.Key()).ModifyIndex != want {
			t.Errorf("after a restart there are %d jobs", s.Count(state.Jobs))
		}
	})
}

// After the term nothing is taken.
func TestEndOfTerm(t *testing.T) {
	var log state.Log
	led(t, t.TempDir(), func(_ *state.Store, _ *consensus.Server, term consensus.Term) { log = term.Log })
	if _, err := log.Propose(t.Context(), statetest.AddNode(1, 1, 1)); !errors.Is(err, state.ErrLost) || berth.KindOf(err) != "" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkPropose(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			store := state.New()
			s, err := consensus.Open(consensus.Config{Dir: b.TempDir(), ID: "s1", Logger: slog.New(slog.DiscardHandler)}, store)
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			err = s.Run(ctx, func(_ context.Context, term consensus.Term) error {
				defer stop()
				b.ResetTimer()
				var wg sync.WaitGroup
				var failed atomic.Pointer[error]
				for caller := range callers {
					wg.Go(func() {
						for n := caller; n < b.N; n += callers {
							if _, err := term.Log.Propose(b.Context(), statetest.AddNode(n%1000, 4000, 4000)); err != nil {
								failed.Store(&err)
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				if err := failed.Load(); err != nil {
					return *err
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				b.Fatal(err)
			}
		})
	}
}
