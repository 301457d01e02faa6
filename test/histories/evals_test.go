package histories

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/state"
)

// seedEnv is the environment variable that makes one history happen again, and
// replays how often: what happens follows from the seed, but in which order
// goroutines run that wake at the same moment does not.
const (
	seedEnv = "BERTH_SEED"
	replays = 500
)

// partEnv is the environment variable that names the histories of one part of a
// long run, by their first and last seeds, so that several machines can share it.
const partEnv = "BERTH_HISTORIES"

// failuresMost is how many histories may fail before the rest is left out.
const failuresMost = 10

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // workers say what went wrong, and here much does
	os.Exit(m.Run())
}

// realTime is how long a history may take by the clock on the wall; most take a
// fraction of a second. Virtual time stands still while something is busy, so
// what goes round without end is seen only from outside.
const realTime = 5 * time.Minute

// happen lets the history of a seed happen in a bubble.
func happen(t *testing.T, seed uint64, d *defect) (h *history) {
	guard := time.AfterFunc(realTime, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("the history of seed %d is not over after %s: something goes round without end", seed, realTime))
	})
	defer guard.Stop()
	synctest.Test(t, func(*testing.T) { h = run(seed, d) })
	return h
}

func (h *history) failure() string {
	story := h.story
	const most = 60
	if n := len(story); n > most && os.Getenv(seedEnv) == "" {
		story = append([]string{"…"}, story[n-most:]...)
	}
	return fmt.Sprintf("%s\n\nseed %d; %s=%d lets the same happen up to %d times, until this is found. What had happened:\n%s",
		strings.Join(h.found, "\n"), h.seed, seedEnv, h.seed, replays, strings.Join(story, "\n"))
}

// again lets the history of one seed happen until it fails.
func again(t *testing.T, seed string) {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedEnv, err)
	}
	for i := range replays {
		if h := happen(t, n, nil); h.failed() {
			t.Fatalf("the %d. time: %s", i+1, h.failure())
		}
	}
}

// drawn returns the seeds of the histories that are to happen, and how often
// each row must be taken by them.
func drawn(t *testing.T) (seeds []uint64, least int64) {
	if part := os.Getenv(partEnv); part != "" {
		var from, to uint64
		if _, err := fmt.Sscanf(part, "%d-%d", &from, &to); err != nil || from > to {
			t.Fatalf("%s is %q; wanted are the first and the last seed, such as 1000-1999", partEnv, part)
		}
		for n := from; n <= to; n++ {
			seeds = append(seeds, n)
		}
		return seeds, 0
	}
	fixed, random := 40, 0 // what nobody drew before is for the long form: the short one is to say what a change broke
	if os.Getenv("BERTH_LONG") != "" {
		fixed, random, least = 9900, 100, 100
	}
	for i := range fixed {
		seeds = append(seeds, uint64(i))
	}
	for range random {
		seeds = append(seeds, rand.Uint64())
	}
	return seeds, least
}

// Whatever happens to jobs, deployments, drains, nodes, workers and leaders: what
// must hold holds after every commit, and when nothing happens any more every
// evaluation, deployment and drain has ended or rightly waits.
func TestHistories(t *testing.T) {
	if s := os.Getenv(seedEnv); s != "" {
		again(t, s)
		return
	}
	seeds, least := drawn(t)
	var cover coverage
	var next, done, failures atomic.Int64
	var hands sync.WaitGroup
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		hands.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(seeds)) && failures.Load() < failuresMost; i = next.Add(1) - 1 {
				h := happen(t, seeds[i], nil)
				cover.add(&h.cover)
				if done.Add(1); h.failed() {
					failures.Add(1)
					t.Error(h.failure())
				}
			}
		})
	}
	hands.Wait()
	t.Logf("%d histories in %s\n%s", done.Load(), time.Since(began).Round(time.Millisecond), &cover)
	if t.Failed() {
		return
	}
	for r, name := range rowNames {
		if n := cover[r].Load(); n < least {
			t.Errorf("%q was taken %d times; at least %d are wanted", name, n, least)
		}
	}
	if err := state.CheckFrozen(); err != nil {
		t.Error(err)
	}
}
