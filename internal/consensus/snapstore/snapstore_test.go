package snapstore

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"

	"github.com/hashicorp/raft"
)

var quiet = slog.New(slog.DiscardHandler)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, 2, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin begins a snapshot at an index.
func begin(s *Store, index uint64) (raft.SnapshotSink, error) {
	_, transport := raft.NewInmemTransport("one")
	c := raft.Configuration{Servers: []raft.Server{{ID: "one", Address: "one"}}}
	return s.Create(raft.SnapshotVersionMax, index, 1, c, 1, transport)
}

// take takes a whole snapshot.
func take(t *testing.T, s *Store, index uint64, state []byte) {
	t.Helper()
	k, err := begin(s, index)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Write(state); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
}

// indexes lists the snapshots that are there, the newest first.
func indexes(t *testing.T, s *Store) (out []uint64) {
	t.Helper()
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		out = append(out, m.Index)
	}
	return out
}

// usable opens the snapshots in turn, as raft does when it starts, and returns
// the index of the first whose state is whole. It must be what was written.
func usable(t *testing.T, s *Store, state func(index uint64) []byte) uint64 {
	t.Helper()
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		_, r, err := s.Open(m.ID)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(b, state(m.Index)) {
			t.Fatalf("snapshot %d was opened, and is not what was written (%v)", m.Index, err)
		}
		return m.Index
	}
	return 0
}

func state(index uint64) []byte { return bytes.Repeat([]byte{byte(index)}, 5000) }

func TestNewestSnapshotsAreKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for i := uint64(1); i <= 4; i++ {
		take(t, s, i*10, state(i*10))
	}
	s = open(t, dir)
	if got := indexes(t, s); len(got) != 2 || got[0] != 40 || got[1] != 30 {
		t.Fatal(got)
	}
	if usable(t, s, state) != 40 || len(s.SetAside()) != 0 {
		t.Fatal(s.SetAside())
	}
}

// TestUnfinishedSnapshotsAreRemoved: whether dropped, left by a crash before
// the rename, or after it and before the seal.
func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	take(t, s, 10, state(10))
	dropped, err := begin(s, 20)
	if err != nil {
		t.Fatal(err)
	}
	dropped.Write(state(20))
	if err := dropped.Cancel(); err != nil {
		t.Fatal(err)
	}
	if left := folders(t, dir); len(left) != 1 {
		t.Fatal("after Cancel:", left)
	}
	crashed, err := begin(s, 30)
	if err != nil {
		t.Fatal(err)
	}
	crashed.Write(state(30))
	s = open(t, dir)
	if left := folders(t, dir); len(left) != 1 || usable(t, s, state) != 10 {
		t.Fatal("after a crash:", left)
	}
	take(t, s, 40, state(40))
	if err := os.Remove(filepath.Join(dir, snapshotsDir, folders(t, dir)[1], sumName)); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if usable(t, s, state) != 10 || len(s.SetAside()) != 1 {
		t.Fatal("after a crash before the seal:", s.SetAside())
	}
}

func folders(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(dir, snapshotsDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		names = append(names, d.Name())
	}
	return names
}

// TestDamagedSnapshotGivesWayToTheOneBefore flips every bit of meta.json, and
// some of the state, and cuts both: what is opened is what was written.
func TestDamagedSnapshotGivesWayToTheOneBefore(t *testing.T) {
	good := t.TempDir()
	s := open(t, good)
	take(t, s, 10, state(10))
	take(t, s, 20, state(20))
	newest := folders(t, good)[1]
	r := rand.New(rand.NewPCG(1, 1))
	try := func(file string, harm func([]byte) []byte) {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, snapshotsDir, newest, file)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, harm(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := usable(t, open(t, dir), state); got != 10 {
			t.Fatalf("%s harmed: snapshot %d was opened", file, got)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	meta, err := os.ReadFile(filepath.Join(good, snapshotsDir, newest, metaName))
	if err != nil {
		t.Fatal(err)
	}
	for bit := 0; bit < len(meta)*8; bit += 11 { // every byte is hit, and every bit of a byte
		try(metaName, func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b })
	}
	for range 30 {
		at, bit := r.IntN(5000), r.IntN(8)
		try("state.bin", func(b []byte) []byte { b[at] ^= 1 << bit; return b })
		try("state.bin", func(b []byte) []byte { return b[:at] })
		try(metaName, func(b []byte) []byte { return b[:at%len(b)] })
		try(sumName, func(b []byte) []byte { b[at%len(b)] ^= 1 << bit; return b })
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	take(t, s, 10, state(10))
	folder := filepath.Join(dir, snapshotsDir, folders(t, dir)[0])
	b, err := os.ReadFile(filepath.Join(folder, metaName))
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`"Version":1`), []byte(`"Version":2`), 1)
	if err := errors.Join(os.WriteFile(filepath.Join(folder, metaName), b, 0o600), os.WriteFile(filepath.Join(folder, sumName), []byte(sum(b)), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 2, quiet); berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), "newer than this build: version 2, but this build reads 1") {
		t.Fatal(err)
	}
}

// TestFullDiskCostsOnlyTheNewSnapshot fails at each stage of a snapshot for
// want of room; the room it took is free again, and the one before stays.
func TestFullDiskCostsOnlyTheNewSnapshot(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	defer func() { // it can be unmounted once nothing in it is open any more
		err := syscall.Unmount(disk, 0)
		for end := time.Now().Add(eventually.Limit); err == syscall.EBUSY && time.Now().Before(end); err = syscall.Unmount(disk, 0) {
			runtime.Gosched()
		}
		if err != nil {
			t.Error(err)
		}
	}()
	dir := filepath.Join(disk, "raft")
	s := open(t, dir)
	take(t, s, 10, state(10))
	failures := 0
	for pages := range 8 {
		ballast := filepath.Join(disk, "ballast")
		var fs syscall.Statfs_t
		if err := syscall.Statfs(disk, &fs); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ballast, make([]byte, (int(fs.Bavail)-pages)*4096), 0o600); err != nil {
			t.Fatal(err)
		}
		err := attempt(s, uint64(20+pages)) // the library names them by index and millisecond
		if err != nil {
			failures++
			if !errors.Is(err, syscall.ENOSPC) || berth.KindOf(err) != berth.Unavailable {
				t.Fatalf("with %d pages free: %v", pages, err)
			}
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		for _, name := range folders(t, dir) {
			if strings.HasSuffix(name, tempSuffix) {
				t.Fatalf("with %d pages free: %s is left", pages, name)
			}
		}
		if usable(t, open(t, dir), state) == 0 {
			t.Fatalf("with %d pages free: no snapshot is left", pages)
		}
	}
	if failures == 0 || failures == 8 {
		t.Fatalf("%d of 8 failed", failures)
	}
}

func attempt(s *Store, index uint64) error {
	k, err := begin(s, index)
	if err != nil {
		return err
	}
	if _, err := k.Write(state(index)); err != nil {
		return errors.Join(err, dropped(k))
	}
	return k.Close()
}

// dropped cancels a snapshot. The library complains of the full disk again.
func dropped(k raft.SnapshotSink) error {
	if err := k.Cancel(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// TestStartNeedsALogThatGoesOn: an older snapshot serves only if the log
// reaches back to it.
func TestStartNeedsALogThatGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	take(t, s, 10, state(10))
	take(t, s, 20, state(20))
	if err := s.Continues(log(21, 25)); err != nil {
		t.Fatal(err)
	}
	if err := s.Continues(log(22, 25)); err == nil || !strings.Contains(err.Error(), "ends with entry 20 but the log begins with entry 22") {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, snapshotsDir, folders(t, dir)[1], "state.bin"), 100); err != nil {
		t.Fatal(err)
	}
	if err := s.Continues(log(11, 25)); err != nil {
		t.Fatal(err)
	}
	err := s.Continues(log(12, 25))
	if err == nil || !strings.Contains(err.Error(), "ends with entry 10") || !strings.Contains(err.Error(), "CRC") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	if err := open(t, t.TempDir()).Continues(log(1, 5)); err != nil {
		t.Fatal(err)
	}
	if err := open(t, t.TempDir()).Continues(log(0, 0)); err != nil {
		t.Fatal(err)
	}
	for i, name := range folders(t, dir) {
		if err := os.Truncate(filepath.Join(dir, snapshotsDir, name, metaName), int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, dir).Continues(log(0, 0)); err == nil || !strings.Contains(err.Error(), "no snapshot in") {
		t.Fatal(err)
	}
}

// log returns a log of some entries, none if last is 0.
func log(first, last uint64) raft.LogStore {
	l := raft.NewInmemStore()
	for i := first; i <= last && last > 0; i++ {
		l.StoreLog(&raft.Log{Index: i})
	}
	return l
}

// A log that ends before the newest snapshot is emptied; one that reaches it, or
// is empty, is left as it is.
func TestALogThatASnapshotOvertook(t *testing.T) {
	for last, left := range map[uint64]uint64{0: 0, 11: 0, 12: 12, 20: 20} {
		s, log := open(t, t.TempDir()), raft.NewInmemStore()
		take(t, s, 12, []byte("state"))
		for i := uint64(5); i <= last; i++ {
			if err := log.StoreLog(&raft.Log{Index: i, Term: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.Continues(log), s.Overtake(log)); err != nil {
			t.Fatal(err)
		}
		if is, _ := log.LastIndex(); is != left {
			t.Errorf("of a log that ended at %d what is left ends at %d, want %d", last, is, left)
		}
	}
}
