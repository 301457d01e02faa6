package saferoot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth"
)

// Adoption says how files are taken over.
type Adoption struct {
	UID, GID int // new owner; -1 leaves it
}

// adoptDepth is how deep a tree may be that is taken over.
const adoptDepth = 64

// Adopt moves the file or directory src of another directory to dst, which may be on
// another file system. Files there are replaced; directories are joined. Taken are
// regular files with one name, directories, and links that stay below dst; what
// else there is makes it an error of kind Invalid. Nobody may be writing to src.
func (r *Root) Adopt(from *Root, src, dst string, o Adoption) error {
	return from.at("take", src, func(sdir int, sbase string) error {
		return r.at("place", dst, func(ddir int, dbase string) error { return adopt(sdir, sbase, ddir, dbase, nil, &o) })
	})
}

// adopt moves one entry. within are the names on the way from the top.
func adopt(sdir int, sname string, ddir int, dname string, within []string, o *Adoption) error {
	bad := func(why string) error {
		return berth.Errorf(berth.Invalid, "%.200q %s", strings.Join(append(within, dname), "/"), why)
	}
	if len(within) > adoptDepth {
		return bad("is too deep: at most " + strconv.Itoa(adoptDepth) + " directories are allowed")
	}
	fd, err := openat(sdir, sname, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Nlink != 1 {
			return bad("has a second name")
		}
		if err := own(fd, st.Mode, o); err != nil {
			return err
		}
		err := unix.Renameat(sdir, sname, ddir, dname)
		if err == unix.EXDEV {
			if err = copyFile(fd, ddir, dname, st.Mode, o); err == nil {
				err = unix.Unlinkat(sdir, sname, 0)
			}
		}
		if err == unix.EISDIR {
			return bad("is a directory at its destination")
		}
		return err
	case unix.S_IFLNK:
		text := make([]byte, MaxPath)
		n, err := unix.Readlinkat(sdir, sname, text)
		if err != nil {
			return err
		}
		to := string(text[:n])
		if path.IsAbs(to) || strings.HasPrefix(path.Clean(path.Join(append(append([]string{"."}, within[min(1, len(within)):]...), to)...))+"/", "../") || len(within) == 0 {
			return bad("is a link that leads elsewhere")
		}
		if err := unix.Unlinkat(ddir, dname, 0); err != nil && err != unix.ENOENT {
			return bad("is a directory at its destination")
		}
		if err := unix.Symlinkat(to, ddir, dname); err != nil {
			return err
		}
		return unix.Fchownat(ddir, dname, o.UID, o.GID, unix.AT_SYMLINK_NOFOLLOW)
	case unix.S_IFDIR:
		return adoptDir(sdir, sname, ddir, dname, within, st.Mode, o)
	}
	return bad("is neither a file nor a directory nor a link")
}

// copyFile copies a file to another file system, where its name appears when all of
// it is there.
func copyFile(fd, ddir int, dname string, mode uint32, o *Adoption) error {
	from, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd)) // the open file itself
	if err != nil {
		return err
	}
	defer from.Close()
	tmp := dname + ".new"
	if err := unix.Unlinkat(ddir, tmp, 0); err != nil && err != unix.ENOENT {
		return err
	}
	made, err := openat(ddir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(made), tmp)
	_, err = io.Copy(to, from)
	if err == nil {
		err = own(made, mode, o)
	}
	if err = errors.Join(err, to.Close()); err == nil {
		if err = unix.Renameat(ddir, tmp, ddir, dname); err == nil {
			return nil
		}
	}
	_ = unix.Unlinkat(ddir, tmp, 0)
	return err
}

// adoptDir moves what is in a directory.
func adoptDir(sdir int, sname string, ddir int, dname string, within []string, mode uint32, o *Adoption) error {
	made := unix.Mkdirat(ddir, dname, 0o755)
	if made != nil && made != unix.EEXIST {
		return made
	}
	to, err := openat(ddir, dname, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return berth.Errorf(berth.Invalid, "%.200q is not a directory at its destination: %w", strings.Join(append(within, dname), "/"), err)
	}
	defer unix.Close(to)
	if made == nil {
		if err := own(to, mode|0o500, o); err != nil {
			return err
		}
	}
	at, err := openat(sdir, sname, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(at), sname)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	within = append(within[:len(within):len(within)], dname)
	for _, name := range names {
		if err := adopt(at, name, to, name, within, o); err != nil {
			return err
		}
	}
	return nil
}

// own gives a file its owner and its permissions, without those that would give
// others its owner's rights.
func own(fd int, mode uint32, o *Adoption) error {
	p := "/proc/self/fd/" + strconv.Itoa(fd)
	if err := os.Chmod(p, fs.FileMode(mode)&0o777); err != nil {
		return err
	}
	if o.UID < 0 && o.GID < 0 {
		return nil
	}
	return unix.Fchownat(unix.AT_FDCWD, p, o.UID, o.GID, 0)
}
