package logstore

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/eventually"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// words is a state machine that remembers what it was told.
type words struct{ heard []string }

func (w *words) Apply(l *raft.Log) any {
	w.heard = append(w.heard, string(l.Data))
	return len(w.heard)
}

func (w *words) Snapshot() (raft.FSMSnapshot, error) { return told(slices.Clone(w.heard)), nil }

func (w *words) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(r)
	w.heard = strings.Fields(string(b))
	return err
}

type told []string

func (h told) Persist(s raft.SnapshotSink) error {
	if _, err := s.Write([]byte(strings.Join(h, " "))); err != nil {
		return err
	}
	return s.Close()
}

func (told) Release() {}

// server is one raft server on a folder.
type server struct {
	raft  *raft.Raft
	fsm   *words
	store *Store
}

func startServer(t testing.TB, dir string, bootstrap bool) *server {
	t.Helper()
	s := open(t, filepath.Join(dir, "log"))
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	c := raft.DefaultConfig()
	c.LocalID = "one"
	c.Logger = hclog.NewNullLogger()
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
	c.TrailingLogs = 5
	addr, transport := raft.NewInmemTransport("one")
	if bootstrap {
		if err := raft.BootstrapCluster(c, s, s, snaps, transport, raft.Configuration{Servers: []raft.Server{{ID: "one", Address: addr}}}); err != nil {
			t.Fatal(err)
		}
	}
	fsm := &words{}
	r, err := raft.NewRaft(c, fsm, s, s, snaps, transport)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.LeaderCh():
	case <-time.After(eventually.Limit):
		t.Fatal("no leader")
	}
	if err := r.Barrier(eventually.Limit).Error(); err != nil {
		t.Fatal(err)
	}
	return &server{r, fsm, s}
}

func (s *server) stop(t testing.TB) {
	t.Helper()
	if err := s.raft.Shutdown().Error(); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRaftRestartsOnTheStore runs the real raft in one-server mode through
// three lives, with snapshots that drop the log behind them.
func TestRaftRestartsOnTheStore(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for life := range 3 {
		s := startServer(t, dir, life == 0)
		for i := range 100 {
			w := fmt.Sprintf("word-%d-%d", life, i)
			if err := s.raft.Apply([]byte(w), 10*time.Second).Error(); err != nil {
				t.Fatal(err)
			}
			want = append(want, w)
			if i == 50 {
				if err := s.raft.Snapshot().Error(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if first, err := s.store.FirstIndex(); first < 10 || err != nil {
			t.Fatalf("the snapshot left the log from %d on (%v)", first, err)
		}
		s.stop(t)
		if !slices.Equal(s.fsm.heard, want) {
			t.Fatalf("life %d: the state machine heard %d words, want %d", life, len(s.fsm.heard), len(want))
		}
	}
}

// TestRaftRestoresABackupOnTheStore restores a snapshot from elsewhere, which
// empties the log first because it has no gaps.
func TestRaftRestoresABackupOnTheStore(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, dir, true)
	for i := range 20 {
		if err := s.raft.Apply(fmt.Appendf(nil, "old-%d", i), 10*time.Second).Error(); err != nil {
			t.Fatal(err)
		}
	}
	future := s.raft.Snapshot()
	if err := future.Error(); err != nil {
		t.Fatal(err)
	}
	m, r, err := future.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := s.raft.Apply([]byte("forgotten"), 10*time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	if err := s.raft.Restore(m, r, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := s.raft.Apply([]byte("new"), 10*time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	s = startServer(t, dir, false)
	s.stop(t)
	if n := len(s.fsm.heard); n != 21 || s.fsm.heard[20] != "new" || slices.Contains(s.fsm.heard, "forgotten") {
		t.Fatalf("after the restore: %q", s.fsm.heard)
	}
}

// TestRaftStopsLeadingOverAFailedLog shows what a server sees of a log that
// failed: the write is refused with the cause, and Failed tells it to stop.
func TestRaftStopsLeadingOverAFailedLog(t *testing.T) {
	s := startServer(t, t.TempDir(), true)
	s.store.disk.fail(io.ErrUnexpectedEOF)
	if err := s.raft.Apply([]byte("lost"), 10*time.Second).Error(); err == nil {
		t.Fatal("acknowledged what is not on disk")
	}
	<-s.store.Failed()
	if err := s.raft.Shutdown().Error(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(s.fsm.heard, "lost") {
		t.Fatal("applied what is not on disk")
	}
}
