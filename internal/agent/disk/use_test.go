package disk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/saferoot"
)

// The use of a directory is that of the files in it, not of what links lead to and
// what is mounted there; and no more is looked at than must be.
func TestUseOfADirectory(t *testing.T) {
	path, other := t.TempDir(), t.TempDir()
	root, err := saferoot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	write := func(name string, size int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(path, "app/local/a"), 1<<20)
	write(filepath.Join(path, "alloc/data/b"), 2<<20)
	write(filepath.Join(other, "big"), 64<<20)
	if err := os.Symlink(other, filepath.Join(path, "app/out")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		mounted := filepath.Join(path, "app/secrets")
		if err := os.Mkdir(mounted, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("x", mounted, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(mounted, 0) })
		write(filepath.Join(mounted, "s"), 8<<20)
	}
	const mib = 1 << 20
	got, all, err := Use(root, 1<<40, 1000)
	if err != nil || !all || got < 3*mib || got > 4*mib {
		t.Errorf("%d bytes, all %t, %v; want a little more than 3 MiB", got, all, err)
	}
	if got, all, err := Use(root, 1*mib, 1000); err != nil || all || got <= mib {
		t.Errorf("beyond a MiB: %d bytes, all %t, %v", got, all, err)
	}
	if _, all, err := Use(root, 1<<40, 3); err != nil || all {
		t.Errorf("of three files: all %t, %v", all, err)
	}
}
