package secretdir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/saferoot"
)

// open returns a directory of an allocation with the task "app", in which nothing is
// mounted when the test ends.
func open(t *testing.T) (*saferoot.Root, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	path := t.TempDir()
	root, err := saferoot.Open(path)
	must(t, err)
	t.Cleanup(func() {
		must(t, UnmountAll(root))
		must(t, root.Close())
		mounts, err := os.ReadFile("/proc/self/mounts")
		must(t, err)
		if strings.Contains(string(mounts), path) {
			t.Errorf("mounts are left:\n%s", mounts)
		}
	})
	must(t, root.Mkdir("app", 0o711))
	must(t, root.Mkdir("app/"+Name, 0o700))
	return root, filepath.Join(path, "app", Name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// It is in memory, of the size that was asked for, and nothing in it can be run or
// used as a device. To mount it again changes nothing, to unmount it leaves nothing.
func TestSecretsAreInMemory(t *testing.T) {
	root, dir := open(t)
	must(t, os.WriteFile(filepath.Join(dir, "old"), []byte("on disk"), 0o600))
	must(t, Mount(root, "app/"+Name, 2, 0o700))
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	if st.Type != unix.TMPFS_MAGIC || int64(st.Blocks)*st.Bsize != 2<<20 {
		t.Errorf("type %x with %d bytes", st.Type, int64(st.Blocks)*st.Bsize)
	}
	const closed = unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV
	if st.Flags&closed != closed {
		t.Errorf("flags %x", st.Flags)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "key"), []byte("secret"), 0o600))
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 3<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("3 MiB fit into 2: %v", err)
	}
	must(t, Mount(root, "app/"+Name, 2, 0o700))
	if text, err := os.ReadFile(filepath.Join(dir, "key")); err != nil || string(text) != "secret" {
		t.Errorf("mounted twice: %q %v", text, err)
	}
	must(t, Unmount(root, "app/"+Name))
	must(t, Unmount(root, "app/"+Name))
	// What was on the disk before was removed, not hidden.
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// A link that a task put in the place of its directory leads nowhere.
func TestALinkIsNotMountedOn(t *testing.T) {
	root, dir := open(t)
	other := t.TempDir()
	must(t, os.Remove(dir))
	must(t, os.Symlink(other, dir))
	if err := Mount(root, "app/"+Name, 1, 0o700); err == nil {
		t.Error("a link was mounted on")
	}
	must(t, unix.Mount("x", other, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(other, 0)) })
	must(t, UnmountAll(root))
	var st unix.Statfs_t
	if must(t, unix.Statfs(other, &st)); st.Type != unix.TMPFS_MAGIC {
		t.Error("what a link leads to was unmounted")
	}
}

// All tasks of an allocation lose theirs, and the directory can be removed.
func TestAllAreUnmounted(t *testing.T) {
	root, dir := open(t)
	must(t, Try(root))
	must(t, root.Mkdir("web", 0o711))
	must(t, root.Mkdir("web/"+Name, 0o700))
	must(t, root.Mkdir("alloc", 0o711)) // has none
	for _, task := range []string{"app", "web"} {
		must(t, Mount(root, task+"/"+Name, 0, 0o777))
	}
	f, err := os.Create(filepath.Join(dir, "open"))
	must(t, err)
	defer f.Close()
	must(t, UnmountAll(root)) // though something is open
	for _, name := range []string{"app", "web", "alloc"} {
		must(t, root.RemoveAll(name))
	}
	if left, err := root.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
