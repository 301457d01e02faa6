// Package secretdir keeps the secrets directories of tasks in memory: each is a
// small tmpfs of its own, which holds no programs, no devices and no set-user-ID
// bits, and whose content is gone with it. A mount is found again by looking at the
// directory, so an agent that is restarted needs no record of it.
package secretdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/saferoot"
)

// Name is that of the directory in the directory of a task.
const Name = "secrets"

// DefaultMB is how large one is that the job does not say, in MiB.
const DefaultMB = 1

// flags of the mounts.
const flags = unix.MS_NOEXEC | unix.MS_NOSUID | unix.MS_NODEV

// Try returns why this process cannot mount directories, nil if it can. It makes a
// mount in a directory of its own below root, and removes both.
func Try(root *saferoot.Root) (err error) {
	const probe = ".secrets-probe"
	if err := root.Mkdir(probe, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, Unmount(root, probe), root.RemoveAll(probe)) }()
	return Mount(root, probe, DefaultMB, 0o700)
}

// Mount makes the directory at path p of root one in memory, of a size in MiB and
// with these permissions, unless it is one already. What was in it is removed.
func Mount(root *saferoot.Root, p string, size int, perm fs.FileMode) error {
	dir, err := root.Sub(p)
	if err != nil {
		return err
	}
	defer dir.Close()
	if mounted, err := isMount(dir); err != nil || mounted {
		return err
	}
	// The mount would only hide it.
	entries, err := dir.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := dir.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("size=%dm,mode=%o", max(size, DefaultMB), perm.Perm())
	// The open directory is what is mounted on, whatever is at its path by now.
	err = unix.Mount("berth-secrets", dir.ProcPath(), "tmpfs", flags, options+",noswap")
	if err == unix.EINVAL { // a kernel before 6.4 does not know noswap
		err = unix.Mount("berth-secrets", dir.ProcPath(), "tmpfs", flags, options)
	}
	if err != nil {
		return berth.Errorf(berth.Unavailable, "mount a tmpfs at %s: %w", dir.Path(), err)
	}
	return nil
}

// Unmount drops what Mount made at path p of root, with all that is in it. It is not
// an error if nothing is there. A task that still has it open keeps it until it ends.
func Unmount(root *saferoot.Root, p string) error {
	for {
		dir, err := root.Sub(p)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil
		}
		if err != nil {
			return err
		}
		mounted, err := isMount(dir)
		if err == nil && mounted {
			err = unix.Unmount(dir.ProcPath(), unix.MNT_DETACH)
		}
		_ = dir.Close()
		if err != nil || !mounted {
			return err
		}
	}
}

// UnmountAll drops the directories of all tasks of an allocation, whose directory
// root is.
func UnmountAll(root *saferoot.Root) error {
	entries, err := root.ReadDir(".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, Unmount(root, e.Name()+"/"+Name))
		}
	}
	return errors.Join(errs...)
}

// isMount reports whether a directory is the root of a tmpfs of its own.
func isMount(dir *saferoot.Root) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir.ProcPath(), &st); err != nil {
		return false, os.NewSyscallError("statfs", err)
	}
	if int64(st.Type) != unix.TMPFS_MAGIC {
		return false, nil
	}
	var at, above unix.Stat_t
	err := unix.Stat(dir.ProcPath(), &at)
	if err == nil {
		err = unix.Stat(dir.ProcPath()+"/..", &above)
	}
	if err != nil {
		return false, os.NewSyscallError("stat", err)
	}
	return at.Dev != above.Dev, nil
}
