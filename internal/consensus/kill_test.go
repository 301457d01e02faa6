package consensus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/consensus"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// childEnv makes the test binary a server in the folder it names.
const childEnv = "CONSENSUS_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		proposeForEver(dir)
	}
	os.Exit(m.Run())
}

// proposeForEver proposes random commands, several groups at a time, and saves
// the state now and then. It prints the state that a group will lead to before
// it proposes it, and again once the group is committed.
func proposeForEver(dir string) {
	store := state.New()
	s, err := consensus.Open(consensus.Config{Dir: dir, ID: "s1", SnapshotEvery: 50}, store)
	exit(err)
	exit(s.Run(context.Background(), func(ctx context.Context, term consensus.Term) error {
		fmt.Println("proposes", store.Snapshot().Hash())
		fmt.Println("safe")
		flight := make(chan *state.Pending, 4)
		go func() {
			for p := range flight {
				exit(p.Wait(ctx))
				fmt.Println("safe")
			}
		}()
		rapid.Custom(func(t *rapid.T) int {
			draw := statetest.Random{First: int(store.Snapshot().Index)}
			for n := 1; ; n++ {
				tx := state.Begin(term.Log.Tip())
				cmds := drawSome(t, &draw, tx)
				fmt.Println("proposes", tx.Seal().Hash())
				p, err := term.Log.Stage(cmds...)
				exit(err)
				flight <- p
				if n%30 == 0 {
					exit(s.Save())
				}
			}
		}).Example(os.Getpid())
		return nil
	}))
}

// drawSome draws commands and applies them.
func drawSome(t *rapid.T, draw *statetest.Random, tx *state.Tx) (cmds []state.Command) {
	for range rapid.IntRange(1, 4).Draw(t, "commands") {
		c := draw.Command(t, tx.Snapshot)
		if _, ok := c.(*state.BeginTerm); !ok { // terms begin when raft says so
			tx.Apply(c)
			cmds = append(cmds, c)
		}
	}
	return cmds
}

func exit(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

// A server that is killed at any moment comes back with a state that it had
// computed, to the last bit, and with everything that it had acknowledged.
func TestKillLosesNothingAnswered(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		states, safe := runAndKill(t, dir, time.Duration(rand.IntN(300))*time.Millisecond)
		got := recovered(t, dir)
		at := len(states) - 1
		for at >= 0 && states[at] != got.Hash() { // the last: a group that was refused leads to the state before it
			at--
		}
		switch {
		case at < 0:
			t.Fatalf("round %d: the state at index %d is not one of the %d that the server could have", round, got.Index, len(states))
		case at < safe-1:
			t.Fatalf("round %d: %d groups were answered, %d are there", round, safe, at+1)
		}
		for _, v := range invariant.Check(got) {
			t.Error(v)
		}
		t.Logf("round %d: %d groups proposed, %d answered, %d there; %d allocations at index %d",
			round, len(states), safe, at+1, got.Count(state.Allocs), got.Index)
	}
}

// recovered returns the state with which a server starts before its term
// begins, and checks that saving and loading it gives the same state.
func recovered(t *testing.T, dir string) *state.Snapshot {
	t.Helper()
	var found, begun *state.Snapshot
	for _, save := range []bool{true, false} {
		store := state.New()
		first := store.Commit()
		s, err := consensus.Open(consensus.Config{Dir: dir, ID: "s1"}, store)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		err = s.Run(ctx, func(context.Context, consensus.Term) error {
			defer stop()
			if save {
				return s.Save()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		before := first
		for c := first; c != nil; c = c.TryNext() { // the last is the beginning of the term
			if c.TryNext() != nil {
				before = c
			}
		}
		if save {
			found, begun = before.Snapshot, store.Snapshot()
		} else if before.Hash() != begun.Hash() {
			t.Error("the state that was saved is another when a server starts from it")
		}
	}
	return found
}

// runAndKill lets a child propose for a while after its first word. It returns
// the hashes of the states that it was to have, and how many of them it was
// told are safe.
func runAndKill(t *testing.T, dir string, after time.Duration) (states []uint64, safe int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var kill *time.Timer
	for lines.Scan() {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "proposes":
			h, err := strconv.ParseUint(rest, 10, 64)
			if err != nil {
				t.Error(err)
			}
			states = append(states, h)
		case "safe":
			safe++
		default:
			t.Errorf("the child says %q", lines.Text())
		}
		if kill == nil {
			kill = time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child was to be killed, but: %v", err)
	}
	return states, safe
}
