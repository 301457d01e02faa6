package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"berth"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// model is the log as it should be.
type model struct {
	logs []*raft.Log
	keys map[string]uint64
}

func (m model) first() uint64 { return m.logs[0].Index }
func (m model) last() uint64  { return m.logs[len(m.logs)-1].Index }

// holds compares a store with the model.
func (m model) holds(s *Store) error {
	if err := same(s, m.logs); err != nil {
		return err
	}
	for k, want := range m.keys {
		if got, err := s.GetUint64([]byte(k)); got != want || err != nil {
			return fmt.Errorf("key %s is %d (%v), want %d", k, got, err, want)
		}
	}
	return nil
}

// op is one thing that raft does to its log.
type op struct {
	name string
	do   func(*Store) error
	then func(model) model
}

func appendOp(m model, n, size int, term uint64) op {
	next := uint64(1)
	if len(m.logs) > 0 {
		next = m.last() + 1
	}
	logs := entries(next, next+uint64(n)-1, term, size)
	return op{fmt.Sprintf("append %d of %d bytes at %d", n, size, next),
		func(s *Store) error { return s.StoreLogs(logs) },
		func(m model) model { return model{append(slices.Clone(m.logs), logs...), m.keys} }}
}

func deleteOp(low, high uint64) op {
	return op{fmt.Sprintf("delete %d to %d", low, high),
		func(s *Store) error { return s.DeleteRange(low, high) },
		func(m model) model {
			return model{slices.DeleteFunc(slices.Clone(m.logs), func(l *raft.Log) bool { return l.Index >= low && l.Index <= high }), m.keys}
		}}
}

func setOp(key string, v uint64) op {
	return op{fmt.Sprintf("set %s to %d", key, v),
		func(s *Store) error { return s.SetUint64([]byte(key), v) },
		func(m model) model {
			keys := map[string]uint64{key: v}
			for k, v := range m.keys {
				if k != key {
					keys[k] = v
				}
			}
			return model{m.logs, keys}
		}}
}

// drawOp draws something that raft might do next.
func drawOp(t *rapid.T, m model, term uint64) op {
	kinds := []string{"append", "append", "append", "set"}
	if len(m.logs) > 0 {
		kinds = append(kinds, "prefix", "suffix", "all")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "append":
		return appendOp(m, rapid.IntRange(1, 8).Draw(t, "n"), rapid.SampledFrom([]int{0, 1, 100, 5000, 40_000, 150_000}).Draw(t, "size"), term)
	case "prefix":
		return deleteOp(m.first(), rapid.Uint64Range(m.first(), m.last()).Draw(t, "to"))
	case "suffix":
		return deleteOp(rapid.Uint64Range(m.first(), m.last()).Draw(t, "from"), m.last())
	case "all":
		return deleteOp(0, 1<<40)
	default:
		return setOp(rapid.SampledFrom([]string{"CurrentTerm", "LastVoteTerm"}).Draw(t, "key"), term)
	}
}

// TestCrashLosesNothingAcknowledged cuts the power at a random file operation,
// keeping any part of what was not synced, and holds what is found afterwards
// against a model: all that was acknowledged, and of the call under way all or
// nothing. Then life goes on from there.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := vfs.NewCrashableMem()
		m := model{}
		term := uint64(0)
		for life := range rapid.IntRange(1, 4).Draw(t, "lives") {
			crash := &crasher{disk: disk, at: int64(rapid.IntRange(1, 400).Draw(t, "crash at")),
				cfg: vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "kept %"),
					RNG: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}}
			s, err := Open("log", Options{Logger: quiet().Logger, fs: errorfs.Wrap(disk, crash)})
			if err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
			if err := m.holds(s); err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
			possible := []model{m}
			for crash.clone() == nil && len(possible[0].logs) < 150 {
				term++
				o := drawOp(t, m, term)
				after := o.then(m)
				if err := o.do(s); err != nil {
					t.Fatalf("%s: %v", o.name, err)
				}
				possible = []model{m, after}
				m = after
			}
			if crash.clone() == nil {
				crash.now()
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			disk = crash.clone()
			m, err = whichHolds(disk, possible)
			if err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
		}
	})
}

// whichHolds opens what a crash left and returns the model that it equals.
func whichHolds(disk vfs.FS, possible []model) (model, error) {
	s, err := Open("log", Options{Logger: quiet().Logger, fs: disk})
	if err != nil {
		return model{}, err
	}
	defer s.Close()
	for _, m := range possible {
		var e error
		if e = m.holds(s); e == nil {
			return m, nil
		}
		err = errors.Join(err, e)
	}
	return model{}, fmt.Errorf("neither before nor after the last call: %w", err)
}

// crasher remembers the disk as the power cut at one file operation leaves it.
type crasher struct {
	disk *vfs.MemFS
	at   int64
	cfg  vfs.CrashCloneCfg
	ops  atomic.Int64

	mu   sync.Mutex
	left *vfs.MemFS
}

func (c *crasher) String() string { return "power cut" }

func (c *crasher) MaybeError(o errorfs.Op) error {
	if o.Kind.ReadOrWrite() == errorfs.OpIsWrite && c.ops.Add(1) == c.at {
		c.now()
	}
	return nil
}

func (c *crasher) now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = c.disk.CrashClone(c.cfg)
}

func (c *crasher) clone() *vfs.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// script is a life that makes the engine do everything it does: rotate logs,
// write tables, compact, delete.
func script(m model) (ops []op) {
	add := func(o op) { ops, m = append(ops, o), o.then(m) }
	add(setOp("CurrentTerm", 1))
	for range 12 {
		add(appendOp(m, 3, 20_000, 1))
	}
	add(deleteOp(m.first(), m.first()+20))
	add(appendOp(m, 2, 100, 2))
	add(deleteOp(m.last()-3, m.last()))
	for range 12 {
		add(appendOp(m, 3, 20_000, 3))
	}
	add(setOp("CurrentTerm", 3))
	add(deleteOp(0, 1<<40))
	add(appendOp(m, 1, 1000, 4))
	return ops
}

// TestFirstFailureEndsAllWriting makes one file operation after another fail,
// once: from then on every call returns that error, nothing more reaches the
// disk, and a new start finds what was acknowledged.
func TestFirstFailureEndsAllWriting(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		t.Run(cause.Error(), func(t *testing.T) {
			step := int64(7)
			if *long {
				step = 1
			}
			for n := int64(1); ; n += step {
				if !failAt(t, n, cause) {
					t.Logf("%d operations", n)
					return
				}
			}
		})
	}
}

// failAt runs the script with the nth writing operation failing. It returns
// false if there are not that many.
func failAt(t *testing.T, n int64, cause error) bool {
	disk := vfs.NewMem()
	var ops atomic.Int64
	fails := errorfs.InjectorFunc(func(o errorfs.Op) error {
		if o.Kind.ReadOrWrite() == errorfs.OpIsWrite && ops.Add(1) == n {
			return cause
		}
		return nil
	})
	m := model{}
	possible := []model{m}
	s, err := Open("log", Options{Logger: quiet().Logger, fs: errorfs.Wrap(disk, fails)})
	if err == nil {
		for _, o := range script(m) {
			after := o.then(m)
			possible = []model{m, after}
			if err = o.do(s); err != nil {
				break
			}
			m, possible = after, []model{after}
		}
		if err != nil {
			poisoned(t, s, err)
		}
		if e := s.Close(); e != nil {
			t.Fatalf("operation %d: close: %v", n, e)
		}
		if err == nil && ops.Load() >= n {
			err = cause // in the background after the last call, or while closing
		}
	}
	if err != nil && !errors.Is(err, cause) {
		t.Fatalf("operation %d: %v", n, err)
	}
	if cause == syscall.ENOSPC && err != nil && err != cause && berth.KindOf(err) != berth.Unavailable {
		t.Fatalf("operation %d: a full disk is of kind %q", n, berth.KindOf(err))
	}
	if _, e := whichHolds(disk, possible); e != nil {
		t.Fatalf("operation %d, %v, then restarted: %v", n, err, e)
	}
	return err != nil
}

// poisoned fails the test unless every call returns the first error.
func poisoned(t *testing.T, s *Store, first error) {
	t.Helper()
	<-s.Failed()
	var l raft.Log
	_, err1 := s.FirstIndex()
	_, err2 := s.LastIndex()
	_, err3 := s.Get([]byte("CurrentTerm"))
	for i, err := range []error{s.Err(), err1, err2, err3, s.StoreLog(entry(1, 1, 1)), s.GetLog(1, &l), s.DeleteRange(1, 2), s.SetUint64([]byte("k"), 1)} {
		if err == nil || err.Error() != first.Error() {
			t.Fatalf("call %d after the failure: %v; the first was: %v", i, err, first)
		}
	}
}
