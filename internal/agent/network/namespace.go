package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// makeNamespace makes a network namespace with a loopback interface that is up,
// and mounts it at path. Like those of "ip netns" it lives as long as the mount.
func makeNamespace(path string) error {
	done := make(chan error)
	go func() {
		// The thread is in the new namespace from here on, so it is given up: a
		// goroutine that ends while it is locked takes its thread with it.
		runtime.LockOSThread()
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			if err := loopbackUp(); err != nil {
				return fmt.Errorf("loopback interface: %w", err)
			}
			return mountNamespace(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path)
		}()
	}()
	return <-done
}

// loopbackUp starts the loopback interface of the thread's namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

// mountNamespace mounts the namespace that source names at path, in place of
// what an agent that was killed left there.
func mountNamespace(source, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := removeNamespace(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("mount %s: %w", source, err), os.Remove(path))
	}
	return nil
}

// removeNamespace unmounts the namespace at path, if there is one.
func removeNamespace(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing is mounted there
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isNamespace reports whether a namespace is mounted at path.
func isNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.NSFS_MAGIC
}

// sameNamespace reports whether two paths are of one namespace. source must be
// one.
func sameNamespace(source, path string) (bool, error) {
	a, err := os.Stat(source)
	if err != nil {
		return false, err
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b), nil
}
