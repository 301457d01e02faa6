package logstore

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"berth"
)

// tmpfs mounts a disk of its own of some bytes. It needs root, as do the tests
// of the agent.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk fills the disk, by the log's own growth and by others, in steps
// that make it run full at different moments. The store says so, the process
// lives, and with room again all that was acknowledged is there.
func TestFullDisk(t *testing.T) {
	for _, size := range []int{2000, 40_000, 700_000} {
		dir := filepath.Join(tmpfs(t, "size=112m"), "raft")
		ballast := filepath.Join(filepath.Dir(dir), "ballast")
		if err := os.WriteFile(ballast, make([]byte, 72<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		m := model{}
		err := error(nil)
		for life := range 2 {
			var s *Store
			if s, err = Open(dir, quiet()); err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
			if life > 0 {
				// The last append of the life before may be there or not.
				if last, _ := s.LastIndex(); last > m.last() {
					m = appendOp(m, int(last-m.last()), size, 1).then(m)
				}
			}
			if err := m.holds(s); err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
			for {
				o := appendOp(m, 1+16_000/size, size, 1)
				if err = o.do(s); err != nil {
					break
				}
				m = o.then(m)
			}
			if berth.KindOf(err) != berth.Unavailable || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("life %d: %v", life, err)
			}
			poisoned(t, s, err)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			// With the disk still full the store opens or says why not; either
			// way nothing is lost.
			if s, err := Open(dir, quiet()); err == nil {
				s.Close()
			} else if berth.KindOf(err) != berth.Unavailable || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("life %d, on a full disk: %v", life, err)
			}
			// A start writes the entries of the engine's log, up to a memtable or
			// two, into a table: that much room it needs.
			if err := os.Truncate(ballast, int64(40-40*life)<<20); err != nil {
				t.Fatal(err)
			}
		}
		if len(m.logs) < 10 {
			t.Fatalf("only %d entries were stored", len(m.logs))
		}
	}
}

// TestFullDiskAtTheStart makes no store, and none in the way of a later one.
func TestFullDiskAtTheStart(t *testing.T) {
	disk := tmpfs(t, "size=1m")
	ballast := filepath.Join(disk, "ballast")
	for room := range 20 {
		if err := os.WriteFile(ballast, make([]byte, 1<<20-room*4096), 0o600); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(disk, "raft")
		s, err := Open(dir, quiet())
		if err == nil {
			has(t, s, nil)
			s.Close()
		} else if !errors.Is(err, syscall.ENOSPC) || berth.KindOf(err) != berth.Unavailable {
			t.Fatalf("with %d KiB free: %v", room*4, err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	has(t, open(t, filepath.Join(disk, "raft")), nil)
}
