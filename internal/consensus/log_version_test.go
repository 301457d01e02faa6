package consensus_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/consensus/consensustest"
	"berth/internal/consensus/logstore"
	"berth/internal/consensus/snapstore"
	"berth/internal/state"
	"berth/internal/state/codec"

	"github.com/hashicorp/raft"
)

// errBehind is why a cluster refuses commands of a newer log version.
var errBehind = &berth.Error{Kind: berth.Unavailable, Err: fmt.Errorf("s3 is of an older build: %w", state.ErrLogVersion)}

// mixed makes a cluster in which one server supports an older log version,
// until it is changed.
func mixed(t testing.TB) (c *cluster, behind *atomic.Bool, asked *atomic.Int64) {
	behind, asked = new(atomic.Bool), new(atomic.Int64)
	behind.Store(true)
	c = newCluster(t, func(conf *consensus.Config) {
		conf.CompareEvery = time.Minute
		conf.Mixed = behind.Load
		conf.Allow = func(string, int) error {
			asked.Add(1)
			if behind.Load() {
				return errBehind
			}
			return nil
		}
	})
	return c, behind, asked
}

// A term begins even if not all servers support the cluster ID; the next term
// assigns it once they do. A command that not all support is refused and not
// logged, but commands proposed with it are taken. For a version that the log
// already holds nothing asks again.
func TestLogVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, behind, asked := mixed(t)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		log := leader.leading().Log
		if err := c.propose(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		before := leader.store.Snapshot()
		if !before.Cluster.IsZero() || before.LogVersion != 1 || asked.Load() != 2 {
			t.Errorf("cluster %s, log version %d, asked %d times", before.Cluster, before.LogVersion, asked.Load())
		}
		left := &state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: state.EvalSeed{ID: berth.EvalID{1}}, Left: true}}}
		results, err := log.Propose(t.Context(), left, &state.CheckHash{})
		if !errors.Is(err, state.ErrLogVersion) || berth.KindOf(err) != berth.Unavailable || results[1].Err != nil {
			t.Errorf("%v, %v", results, err)
		}
		if now := leader.store.Snapshot(); now.Index != before.Index+1 || now.LogVersion != 1 {
			t.Errorf("the state went from index %d to %d, with log version %d", before.Index, now.Index, now.LogVersion)
		}
		behind.Store(false)
		if err := leader.Transfer(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		c.within(time.Minute, "the cluster has an ID on all servers", func() bool {
			for _, id := range c.running() {
				if s := c.at(id).store.Snapshot(); s.Cluster.IsZero() || s.LogVersion != codec.LogVersion {
					return false
				}
			}
			return true
		})
		was := asked.Load()
		behind.Store(true)
		if _, err := c.leader().leading().Log.Propose(t.Context(), left); err != nil || asked.Load() != was {
			t.Errorf("of what the log holds already: %v, asked %d times", err, asked.Load()-was)
		}
		c.converge()
		for _, id := range c.running() { // from the log, and from a saved state
			if err := c.at(id).Save(); err != nil {
				t.Fatal(err)
			}
			c.halt(id)
			c.leader()
			if s := c.start(id).store.Snapshot(); s.LogVersion != codec.LogVersion {
				t.Errorf("%s: the saved state has log version %d", id, s.LogVersion)
			}
		}
		c.converge()
	})
}

// States are compared only among servers with the same log version, because
// others have different hashes.
func TestMixedServersDoNotCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, behind, _ := mixed(t)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		c.converge()
		id := "s1"
		if leader.id == id {
			id = "s2"
		}
		other := c.at(id)
		c.part(id)
		time.Sleep(time.Hour)
		select {
		case err := <-other.ended:
			t.Fatalf("it ended: %v", err)
		default:
		}
		if check := leader.store.Snapshot().Check(); check != nil {
			t.Errorf("there was a check: %+v", check)
		}
		behind.Store(false)
		if err := <-other.ended; !errors.Is(err, consensus.ErrDiffers) {
			t.Error(err)
		}
		c.mu.Lock()
		delete(c.servers, id)
		c.mu.Unlock()
	})
}

// A snapshot with a log version that not all servers support is not restored.
func TestRestoreOfANewerLogVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newer := newCluster(t, nil)
		defer newer.close()
		newer.boot(1)
		var saved bytes.Buffer
		if b, err := newer.leader().SaveTo(&saved); err != nil || b.Version != codec.SnapshotVersion {
			t.Fatal(b, err)
		}
		c, behind, _ := mixed(t)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		if b, err := leader.SaveTo(io.Discard); err != nil || b.Version != 3 {
			t.Errorf("saved is version %d, %v", b.Version, err)
		}
		before := leader.store.Snapshot().Restored
		if _, err := leader.RestoreFrom(t.Context(), bytes.NewReader(saved.Bytes())); !errors.Is(err, state.ErrLogVersion) {
			t.Errorf("restored: %v", err)
		}
		leader = c.leader() // the term ended for it
		if s := leader.store.Snapshot(); s.Restored != before || s.LogVersion != 1 {
			t.Error("the state was replaced")
		}
		behind.Store(false)
		if _, err := leader.RestoreFrom(t.Context(), bytes.NewReader(saved.Bytes())); err != nil {
			t.Fatal(err)
		}
		c.converge()
	})
}

// A server whose build is older than its log or its saved state does not start,
// and reports why.
func TestOlderBuildsDoNotStart(t *testing.T) {
	open := func(dir string) error {
		s, err := consensus.Open(consensus.Config{
			Dir: dir, ID: "s1", Transport: consensustest.NewNetwork().Transport("s1"), Logger: slog.New(slog.DiscardHandler),
		}, state.New())
		if err == nil {
			t.Cleanup(func() { s.Raft().Shutdown() })
		}
		return err
	}
	dir := t.TempDir()
	log, err := logstore.Open(filepath.Join(dir, "log"), logstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	data := codec.EncodeEntryOn(1, codec.LogVersion+1, state.AppendCommand(nil, &state.BeginTerm{Term: 1}))
	if err := log.StoreLog(&raft.Log{Index: 1, Term: 1, Type: raft.LogCommand, Data: data}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("log version %d, written by a newer build; this build reads 1 to %d", codec.LogVersion+1, codec.LogVersion)) {
		t.Errorf("a newer log: %v", err)
	}

	dir = t.TempDir()
	snaps, err := snapstore.Open(filepath.Join(dir, "snapshots"), 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, transport := raft.NewInmemTransport("s1")
	sink, err := snaps.Create(raft.SnapshotVersionMax, 7, 1, raft.Configuration{Servers: []raft.Server{{ID: "s1", Address: "s1"}}}, 1, transport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(sink, "berth snapshot %d\n", codec.SnapshotVersion+1); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the snapshot has version %d; this build reads 1 to %d", codec.SnapshotVersion+1, codec.SnapshotVersion)) {
		t.Errorf("a newer saved state: %v", err)
	}
}
