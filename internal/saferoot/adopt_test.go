package saferoot

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What is taken over can come from another file system: files are copied then, and
// nothing of them stays behind.
func TestFilesComeFromAnotherFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	src, dst := t.TempDir(), t.TempDir()
	must(t, unix.Mount("x", dst, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(dst, unix.MNT_DETACH)) })
	must(t, os.MkdirAll(filepath.Join(src, "in", "d"), 0o750))
	must(t, os.WriteFile(filepath.Join(src, "in", "d", "run"), []byte("program"), 0o755))
	must(t, os.Chmod(filepath.Join(src, "in", "d", "run"), 0o4755))
	must(t, os.Symlink("d/run", filepath.Join(src, "in", "link")))
	must(t, os.MkdirAll(filepath.Join(dst, "out", "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(dst, "out", "d", "run"), []byte("old"), 0o600))
	from, err := Open(src)
	must(t, err)
	defer from.Close()
	to, err := Open(dst)
	must(t, err)
	defer to.Close()
	must(t, to.Adopt(from, "in", "out", Adoption{UID: 12, GID: 34}))
	got := filepath.Join(dst, "out", "d", "run")
	info, err := os.Stat(got)
	must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	if info.Mode() != 0o755 || st.Uid != 12 || st.Gid != 34 {
		t.Errorf("%v of %d:%d", info.Mode(), st.Uid, st.Gid)
	}
	if text, err := os.ReadFile(filepath.Join(dst, "out", "link")); err != nil || string(text) != "program" {
		t.Errorf("%q %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Join(src, "in", "d")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(dst, "out", "d")); err != nil || len(left) != 1 {
		t.Errorf("there: %v %v", left, err)
	}
}
