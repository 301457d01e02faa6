// Package saferoot opens files under a directory by untrusted names: from
// users, tasks, peers, archives. Whatever the names are, and whatever a hostile
// task puts in their place meanwhile, nothing outside the directory is reached,
// no symbolic link is followed, neither at the end of a path nor on the way,
// and nothing blocks on a FIFO or a device.
//
// It walks one name at a time from an open directory with O_NOFOLLOW, and
// checks what it opened rather than what a name meant a moment ago, so there is
// no race to win. os.Root alone would follow links that stay inside, and a link
// from a log file to a secret stays inside.
package saferoot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth"
)

// MaxPath is the longest accepted path, in bytes.
const MaxPath = 4096

// Root is an open directory. Paths given to its methods are relative to it,
// separated by slashes, and may not contain "." or ".." as a name.
type Root struct {
	dir  *os.File
	path string
}

// Open opens a directory by a trusted path, such as one from the agent's
// configuration.
func Open(dir string) (*Root, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Root{f, dir}, nil
}

// Close closes the directory.
func (r *Root) Close() error { return r.dir.Close() }

// Path returns the path at which the directory was opened, for messages and for
// tasks. Do not open anything by it.
func (r *Root) Path() string { return r.path }

// ProcPath returns a short path of the open directory itself, even if it is
// renamed, for calls that only take a path. It is valid in this process while
// the Root is open.
func (r *Root) ProcPath() string { return "/proc/self/fd/" + strconv.Itoa(int(r.dir.Fd())) }

// Name returns an error if s cannot be the name of one file: "", ".", "..", and
// names with a slash, a backslash or a zero byte.
func Name(s string) error {
	switch {
	case s == "", s == ".", s == "..":
		return berth.Errorf(berth.Invalid, "%q is not a file name", s)
	case len(s) > 255:
		return berth.Errorf(berth.Invalid, "file name: must be at most 255 bytes, got %d", len(s))
	case strings.ContainsAny(s, "/\\\x00"):
		return berth.Errorf(berth.Invalid, "the file name %q has a slash, a backslash or a zero byte", s)
	}
	return nil
}

// split checks a path and splits it into names. "." alone is the root itself.
func split(p string) ([]string, error) {
	if p == "." {
		return nil, nil
	}
	if len(p) > MaxPath {
		return nil, berth.Errorf(berth.Invalid, "path: must be at most %d bytes, got %d", MaxPath, len(p))
	}
	if strings.HasPrefix(p, "/") {
		return nil, berth.Errorf(berth.Invalid, "the path %q must not begin with a slash", p)
	}
	names := strings.Split(p, "/")
	for _, n := range names {
		if err := Name(n); err != nil {
			return nil, fmt.Errorf("path %q: %w", p, err)
		}
	}
	return names, nil
}

// at calls f with the open directory that contains the last name of p.
func (r *Root) at(op, p string, f func(dir int, base string) error) error {
	names, err := split(p)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return berth.Errorf(berth.Invalid, "%s: the directory itself is not allowed here", op)
	}
	return r.walk(names[:len(names)-1], func(dir int) error {
		if err := f(dir, names[len(names)-1]); err != nil {
			return &fs.PathError{Op: op, Path: path.Join(r.path, p), Err: err}
		}
		return nil
	})
}

// walk opens the directories one inside the other and calls f with the last.
func (r *Root) walk(names []string, f func(dir int) error) error {
	raw, err := r.dir.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		dir := int(fd)
		for i, n := range names {
			next, err := openat(dir, n, unix.O_PATH|unix.O_DIRECTORY, 0)
			if dir != int(fd) {
				_ = unix.Close(dir)
			}
			if err != nil {
				inner = &fs.PathError{Op: "open", Path: path.Join(r.path, path.Join(names[:i+1]...)), Err: err}
				return
			}
			dir = next
		}
		inner = f(dir)
		if dir != int(fd) {
			_ = unix.Close(dir)
		}
	})
	return errors.Join(err, inner)
}

func openat(dir int, name string, flag int, perm uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Sub opens a subdirectory.
func (r *Root) Sub(p string) (*Root, error) {
	if p == "." {
		return nil, berth.Errorf(berth.Invalid, "the directory itself is not allowed here")
	}
	var out *Root
	err := r.at("open", p, func(dir int, base string) error {
		fd, err := openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		full := path.Join(r.path, p)
		out = &Root{os.NewFile(uintptr(fd), full), full}
		return nil
	})
	return out, err
}

// OpenFile opens or creates a regular file. Anything else at that path,
// including a link or a FIFO, is refused with an error of kind Invalid.
func (r *Root) OpenFile(p string, flag int, perm fs.FileMode) (*os.File, error) {
	var out *os.File
	err := r.at("open", p, func(dir int, base string) error {
		fd, err := openat(dir, base, flag|unix.O_NONBLOCK|unix.O_NOCTTY, uint32(perm.Perm()))
		if err == unix.ELOOP || err == unix.ENXIO || err == unix.EISDIR { // a link; a FIFO or socket without a reader
			return berth.Errorf(berth.Invalid, "not a regular file: %w", err)
		}
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			_ = unix.Close(fd)
			if err == nil {
				err = berth.Errorf(berth.Invalid, "not a regular file")
			}
			return err
		}
		// Regular files never block; without the flag Go would treat them as
		// pollable.
		if err := unix.SetNonblock(fd, false); err != nil {
			_ = unix.Close(fd)
			return err
		}
		out = os.NewFile(uintptr(fd), path.Join(r.path, p))
		return nil
	})
	return out, err
}

// ReadFile returns the content of a regular file, or an error if that is more
// than most bytes.
func (r *Root) ReadFile(p string, most int64) ([]byte, error) {
	f, err := r.OpenFile(p, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = berth.Errorf(berth.TooLarge, "%s: more than %d bytes", f.Name(), most)
	}
	return b, err
}

// Replace writes a file atomically, even if the process is killed meanwhile. It
// does not wait for the disk.
func (r *Root) Replace(p string, data []byte, perm fs.FileMode) error {
	return r.replace(p, data, perm, false)
}

// ReplaceSync is like Replace but also survives a crash of the machine. It
// returns when the file and its name are on disk.
func (r *Root) ReplaceSync(p string, data []byte, perm fs.FileMode) error {
	return r.replace(p, data, perm, true)
}

// Sync returns when the names in a directory are on disk; "." is the root
// itself.
func (r *Root) Sync(p string) error {
	names, err := split(p)
	if err != nil {
		return err
	}
	return r.walk(names, syncDir)
}

func syncDir(dir int) error {
	fd, err := openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}

func (r *Root) replace(p string, data []byte, perm fs.FileMode, sync bool) error {
	return r.at("replace", p, func(dir int, base string) error {
		tmp := base + ".new"
		if err := unix.Unlinkat(dir, tmp, 0); err != nil && err != unix.ENOENT {
			return err
		}
		fd, err := openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint32(perm.Perm()))
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), tmp)
		_, err = f.Write(data)
		err = errors.Join(err, f.Chmod(perm.Perm())) // whatever the umask
		if sync && err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err == nil {
			err = unix.Renameat(dir, tmp, dir, base)
		}
		if err != nil {
			_ = unix.Unlinkat(dir, tmp, 0)
			return err
		}
		if sync {
			err = syncDir(dir)
		}
		return err
	})
}

// Mkdir creates a directory with exactly these permissions, whatever the umask.
// An existing directory gets them too.
func (r *Root) Mkdir(p string, perm fs.FileMode) error {
	return r.at("mkdir", p, func(dir int, base string) error {
		if err := unix.Mkdirat(dir, base, 0o700); err != nil && err != unix.EEXIST {
			return err
		}
		return chmodDir(dir, base, perm)
	})
}

// MkdirAll creates a directory and its missing parents with exactly these
// permissions, whatever the umask. Directories that exist keep theirs.
func (r *Root) MkdirAll(p string, perm fs.FileMode) error {
	names, err := split(p)
	if err != nil {
		return err
	}
	for i := range names {
		err := r.at("mkdir", strings.Join(names[:i+1], "/"), func(dir int, base string) error {
			switch err := unix.Mkdirat(dir, base, uint32(perm.Perm())); err {
			case nil:
				return chmodDir(dir, base, perm)
			case unix.EEXIST:
				return isDir(dir, base)
			default:
				return err
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func chmodDir(dir int, base string, perm fs.FileMode) error {
	fd, err := openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mode := uint32(perm.Perm())
	if perm&fs.ModeSticky != 0 {
		mode |= unix.S_ISVTX
	}
	return unix.Fchmod(fd, mode)
}

// Chown changes the owner of the file or directory itself, not of a link's
// target.
func (r *Root) Chown(p string, uid, gid int) error {
	return r.at("chown", p, func(dir int, base string) error {
		return unix.Fchownat(dir, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Lstat describes the file at the path, without following a link.
func (r *Root) Lstat(p string) (fs.FileInfo, error) {
	var out fs.FileInfo
	err := r.at("lstat", p, func(dir int, base string) error {
		fd, err := openat(dir, base, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), base)
		defer f.Close()
		out, err = f.Stat()
		return err
	})
	return out, err
}

// ReadDir lists a directory in order of name; "." is the root itself. Names and
// types come from the open directory. Info of an entry would look it up by
// path; use Lstat instead.
func (r *Root) ReadDir(p string) ([]fs.DirEntry, error) { return r.ReadDirUpTo(p, 0) }

// ReadDirUpTo is ReadDir for a directory that others fill: with more than most
// entries, it is an error of kind TooLarge. 0 is no limit.
func (r *Root) ReadDirUpTo(p string, most int) ([]fs.DirEntry, error) {
	names, err := split(p)
	if err != nil {
		return nil, err
	}
	var out []fs.DirEntry
	err = r.walk(names, func(dir int) error {
		fd, err := openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: path.Join(r.path, p), Err: err}
		}
		f := os.NewFile(uintptr(fd), path.Join(r.path, p))
		defer f.Close()
		count := -1
		if most > 0 {
			count = most + 1
		}
		out, err = f.ReadDir(count)
		if err == io.EOF { // of an empty directory, with a limit
			err = nil
		}
		if err == nil && most > 0 && len(out) > most {
			return berth.Errorf(berth.TooLarge, "%s: more than %d entries", f.Name(), most)
		}
		slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		return err
	})
	return out, err
}

// Remove removes a file, or a link itself.
func (r *Root) Remove(p string) error {
	return r.at("remove", p, func(dir int, base string) error { return unix.Unlinkat(dir, base, 0) })
}

// RemoveAll removes the file or directory at the path with everything below it.
// It is not an error if nothing is there.
func (r *Root) RemoveAll(p string) error {
	err := r.at("remove", p, func(dir int, base string) error {
		// os.Root stays inside the directory while it removes, links or not.
		parent, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(dir))
		if err != nil {
			return err
		}
		defer parent.Close()
		return parent.RemoveAll(base)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Room returns how many bytes may still be written under the directory, and the
// total size of its file system.
func (r *Root) Room() (free, total uint64, err error) {
	var st unix.Statfs_t
	raw, err := r.dir.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.Fstatfs(int(fd), &st) })
	size := uint64(st.Bsize)
	return st.Bavail * size, st.Blocks * size, errors.Join(err, inner)
}

// Take moves the directory src of another directory, on the same file system, with
// all that is in it, to dst. There dst is missing or an empty directory.
func (r *Root) Take(from *Root, src, dst string) error { return r.take(from, src, dst, func() {}) }

// take is Take, and calls between after it has looked and before it moves, so that a
// test can come in between as a task can.
func (r *Root) take(from *Root, src, dst string, between func()) error {
	return from.at("take", src, func(sdir int, sbase string) error {
		if err := isDir(sdir, sbase); err != nil {
			return err
		}
		between()
		return r.at("place", dst, func(ddir int, dbase string) error {
			if err := unix.Renameat(sdir, sbase, ddir, dbase); err != nil {
				return err
			}
			// What was moved may be a link that somebody put there meanwhile. Nobody else
			// writes here.
			if err := isDir(ddir, dbase); err != nil {
				return errors.Join(berth.Errorf(berth.Invalid, "not a directory: %w", err), unix.Unlinkat(ddir, dbase, 0))
			}
			return nil
		})
	})
}

// isDir returns an error if something is not a directory.
func isDir(dir int, base string) error {
	fd, err := openat(dir, base, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// Symlink makes a link that says text. It is never followed here.
func (r *Root) Symlink(text, p string) error {
	return r.at("symlink", p, func(dir int, base string) error { return unix.Symlinkat(text, dir, base) })
}

// Readlink returns what a link says.
func (r *Root) Readlink(p string) (text string, err error) {
	err = r.at("readlink", p, func(dir int, base string) error {
		b := make([]byte, MaxPath)
		n, err := unix.Readlinkat(dir, base, b)
		if err == nil {
			text = string(b[:n])
		}
		return err
	})
	return text, err
}

// SyncAll returns when all that was written to the file system of the directory is
// on its disk.
func (r *Root) SyncAll() error {
	raw, err := r.dir.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.Syncfs(int(fd)) })
	return errors.Join(err, inner)
}
