package isolate

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth"
)

// The file tree of a task. Its root is the task's own directory, so a task that
// ran before may have left anything there, links included. Until the tree is
// the root of this process, every place in it is reached step by step from an
// open directory, and no link is followed.

// tree is the task's directory, mounted on itself.
type tree struct{ root int }

// buildTree mounts the tree and makes it the root of this process.
func buildTree(s *Spec) error {
	// Volumes are cloned first: what follows cuts the ties to the host's mounts
	// that two-way propagation needs.
	volumes := make([]int, len(s.Mounts))
	for i, m := range s.Mounts {
		fd, err := clone(m.Source)
		if err != nil {
			return fmt.Errorf("mount %q at %q: %w", m.Source, m.Destination, err)
		}
		volumes[i] = fd
	}
	nodes := make([]int, len(s.Devices))
	for i, d := range s.Devices {
		fd, err := cloneDevice(d.Source)
		if err != nil {
			return fmt.Errorf("device %q at %q: %w", d.Source, d.Destination, err)
		}
		nodes[i] = fd
	}
	groups := cgroupMounts()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts from the host: %w", err)
	}
	root, err := clone(s.Root)
	if err == nil {
		err = change(root, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, unix.MS_PRIVATE)
	}
	if err == nil {
		err = unix.MoveMount(root, "", unix.AT_FDCWD, s.Root, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("mount the task's directory: %w", err)
	}
	t := &tree{root}
	for _, step := range []func() error{
		func() error { return t.fileSystems(s) },
		func() error { return t.binds(s.Binds) },
		func() error { return t.alloc(s.Alloc) },
		func() error { return t.volumes(s.Mounts, volumes) },
		func() error { return t.devices(s.Devices, nodes) },
		t.enter,
		func() error { return devices(s) },
		func() error { return etc(s) },
		func() error { return seal(groups) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// clone returns a copy of the mounts at and below a path, which is not attached
// anywhere yet.
func clone(path string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err == unix.ENOENT {
		return -1, berth.Errorf(berth.Invalid, "%w", err)
	}
	return fd, err
}

// change sets attributes of cloned mounts, and their propagation if it is not 0.
func change(fd int, set uint64, propagation uint64) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: set, Propagation: propagation})
}

// at opens a place of the tree, and makes what is missing of it: directories,
// and the last as an empty file if dir is false. Links are not followed. What is
// in the way at the last step and has no content of worth, a link or an empty
// directory, is replaced.
func (t *tree) at(path string, dir bool) (int, error) {
	names := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	at, err := unix.FcntlInt(uintptr(t.root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for i, name := range names {
		if name == "" || name == ".." {
			_ = unix.Close(at)
			return -1, berth.Errorf(berth.Invalid, "%q is not a place below the task's root", path)
		}
		next, err := step(at, name, dir || i < len(names)-1)
		if err != nil && i == len(names)-1 && (err == unix.ENOTDIR || err == unix.EISDIR || err == unix.ELOOP) && clear(at, name) {
			next, err = step(at, name, dir)
		}
		_ = unix.Close(at)
		if err != nil {
			return -1, fmt.Errorf("make %q in the task's file tree: %w", path, err)
		}
		at = next
	}
	return at, nil
}

// step opens a directory or file in another, and makes it if it is missing.
func step(at int, name string, dir bool) (int, error) {
	if dir {
		if err := unix.Mkdirat(at, name, 0o755); err != nil && err != unix.EEXIST {
			if fd, e := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); e == nil {
				return fd, nil // there already, in a tree that is read-only
			}
			return -1, err
		}
		return unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		made, e := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
		if e != nil {
			return -1, e
		}
		_ = unix.Close(made)
		fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			err = unix.ELOOP
		case unix.S_IFDIR:
			err = unix.EISDIR
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// clear removes a link, a file or an empty directory.
func clear(at int, name string) bool {
	return unix.Unlinkat(at, name, 0) == nil || unix.Unlinkat(at, name, unix.AT_REMOVEDIR) == nil
}

// put attaches cloned mounts at a place of the tree.
func (t *tree) put(mounts int, path string, dir bool) error {
	at, err := t.at(path, dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.MoveMount(mounts, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// mount mounts a new file system at a place of the tree.
func (t *tree) mount(fstype, path string, flags uintptr, data string) error {
	at, err := t.at(path, true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.Mount(fstype, "/proc/self/fd/"+strconv.Itoa(at), fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// fileSystems mounts those that are not of the host.
func (t *tree) fileSystems(s *Spec) error {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	errs := []error{
		t.mount("proc", "/proc", quiet, ""),
		t.mount("sysfs", "/sys", quiet|unix.MS_RDONLY, ""),
		t.mount("tmpfs", "/dev", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k"),
		t.mount("tmpfs", "/run", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=16m"),
	}
	if !slices.ContainsFunc(s.Binds, func(b Bind) bool { return filepath.Clean(b.Destination) == "/etc" }) {
		errs = append(errs, t.mount("tmpfs", "/etc", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"))
	}
	return errors.Join(errs...)
}

// binds mounts what the tree has of the host, read-only. What the host does not
// have is left out. A link that leads to another of these is a link here, too.
func (t *tree) binds(all []Bind) error {
	all = slices.SortedFunc(slices.Values(all), func(a, b Bind) int { return cmp.Compare(a.Destination, b.Destination) })
	for _, b := range all {
		real, err := filepath.EvalSymlinks(b.Source)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s of the host: %w", b.Source, err)
		}
		if link, err := os.Readlink(b.Source); err == nil && b.Source == b.Destination && covered(real, all) {
			if err := t.link(link, b.Destination); err != nil {
				return err
			}
			continue
		}
		st, err := os.Stat(real)
		if err != nil {
			return fmt.Errorf("%s of the host: %w", b.Source, err)
		}
		fd, err := clone(real)
		if err == nil {
			err = change(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, unix.MS_PRIVATE)
		}
		if err != nil {
			return fmt.Errorf("mount %s of the host: %w", b.Source, err)
		}
		err = t.put(fd, b.Destination, st.IsDir())
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// covered reports whether a path of the host is at the same place of the tree.
func covered(path string, all []Bind) bool {
	return slices.ContainsFunc(all, func(b Bind) bool {
		return b.Source == b.Destination && strings.HasPrefix(path, strings.TrimSuffix(b.Source, "/")+"/")
	})
}

// link makes a symbolic link in the tree.
func (t *tree) link(text, path string) error {
	dir := t.root
	if parent := filepath.Dir(path); parent != "/" {
		fd, err := t.at(parent, true)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		dir = fd
	}
	err := unix.Symlinkat(text, dir, filepath.Base(path))
	if err == unix.EEXIST {
		clear(dir, filepath.Base(path))
		err = unix.Symlinkat(text, dir, filepath.Base(path))
	}
	if err != nil {
		return fmt.Errorf("link %q in the task's file tree: %w", path, err)
	}
	return nil
}

// alloc mounts the directory that the allocation's tasks share.
func (t *tree) alloc(source string) error {
	if source == "" {
		return nil
	}
	fd, err := clone(source)
	if err == nil {
		defer unix.Close(fd)
		err = change(fd, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, unix.MS_PRIVATE)
	}
	if err != nil {
		return fmt.Errorf("mount the allocation's directory: %w", err)
	}
	return t.put(fd, "/alloc", true)
}

// volumes attaches the cloned mounts of volumes.
func (t *tree) volumes(all []Mount, clones []int) error {
	for i, m := range all {
		st, err := os.Stat(m.Source)
		if err != nil {
			return Refused("mount at %q: %w", m.Destination, err)
		}
		set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
		if m.ReadOnly {
			set |= unix.MOUNT_ATTR_RDONLY
		}
		propagation := map[string]uint64{"": unix.MS_PRIVATE, "private": unix.MS_PRIVATE, "host-to-task": unix.MS_SLAVE, "bidirectional": 0}
		p, ok := propagation[m.Propagation]
		if !ok {
			return berth.Errorf(berth.Invalid, "mount at %q: unknown propagation %q: must be private, host-to-task or bidirectional", m.Destination, m.Propagation)
		}
		if err := change(clones[i], set, p); err != nil {
			return fmt.Errorf("mount %q at %q: %w", m.Source, m.Destination, err)
		}
		if err := t.put(clones[i], m.Destination, st.IsDir()); err != nil {
			return err
		}
		_ = unix.Close(clones[i])
	}
	return nil
}

// cloneDevice returns a copy of the mount of one device node.
func cloneDevice(path string) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return -1, Refused("%w", err)
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFCHR && kind != unix.S_IFBLK {
		return -1, berth.Errorf(berth.Invalid, "it is not a device")
	}
	return clone(path)
}

// devices puts device nodes of the host into the tree.
func (t *tree) devices(all []Bind, clones []int) error {
	for i, d := range all {
		err := change(clones[i], unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, unix.MS_PRIVATE)
		if err == nil {
			err = t.put(clones[i], d.Destination, false)
		}
		_ = unix.Close(clones[i])
		if err != nil {
			return fmt.Errorf("device %q at %q: %w", d.Source, d.Destination, err)
		}
	}
	return nil
}

// enter makes the tree the root of this process and lets go of the old root.
func (t *tree) enter() error {
	if err := unix.Fchdir(t.root); err != nil {
		return fmt.Errorf("enter the task's directory: %w", err)
	}
	_ = unix.Close(t.root)
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	// The old root is now mounted over the new one.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the host's file tree: %w", err)
	}
	return unix.Chdir("/")
}
