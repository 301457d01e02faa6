package evals

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/state"
)

// seedEnv is the environment variable that makes one history happen again.
const seedEnv = "BERTH_SEED"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // workers say what went wrong, and here much does
	os.Exit(m.Run())
}

// happen lets the history of a seed happen in a bubble.
func happen(t *testing.T, seed uint64, d *defect) (h *history) {
	synctest.Test(t, func(*testing.T) { h = run(seed, d) })
	return h
}

func (h *history) failure() string {
	story := h.story
	const most = 60
	if n := len(story); n > most && os.Getenv(seedEnv) == "" {
		story = append([]string{"…"}, story[n-most:]...)
	}
	return fmt.Sprintf("%s\n\nseed %d; %s=%d lets it happen again. What had happened:\n%s",
		strings.Join(h.found, "\n"), h.seed, seedEnv, h.seed, strings.Join(story, "\n"))
}

// Whatever happens to jobs, nodes, workers and leaders: what must hold holds
// after every commit, and when nothing happens any more every evaluation has
// ended or rightly waits.
func TestHistories(t *testing.T) {
	if s := os.Getenv(seedEnv); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if h := happen(t, seed, nil); h.failed() {
			t.Fatal(h.failure())
		}
		return
	}
	fixed, random, least := 40, 5, int64(0)
	if os.Getenv("BERTH_LONG") != "" {
		fixed, random, least = 9900, 100, 100
	}
	var seeds []uint64
	for i := range fixed {
		seeds = append(seeds, uint64(i))
	}
	for range random {
		seeds = append(seeds, rand.Uint64())
	}
	var cover coverage
	var next atomic.Int64
	var hands sync.WaitGroup
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		hands.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(seeds)) && !t.Failed(); i = next.Add(1) - 1 {
				h := happen(t, seeds[i], nil)
				cover.add(&h.cover)
				if h.failed() {
					t.Error(h.failure())
				}
			}
		})
	}
	hands.Wait()
	t.Logf("%d histories in %s\n%s", next.Load(), time.Since(began).Round(time.Millisecond), &cover)
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
