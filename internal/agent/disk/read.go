package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"berth"
	"berth/internal/saferoot"
	"berth/op"
)

// Read returns a part of the data in the directory of an allocation that has ended.
// Of what a directory has, it shows files, directories and links.
func Read(dir *saferoot.Root, p op.DiskPart) (*op.DiskAnswer, error) {
	if !p.List {
		return readFile(dir, p)
	}
	out := &op.DiskAnswer{State: op.DiskReady}
	list, err := dir.ReadDir(p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		out.Why = "there is no such directory"
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range list {
		if e.Name() <= p.After {
			continue
		}
		if out.More = len(out.Entries) == op.MaxDiskEntries; out.More {
			return out, nil
		}
		x, err := entryOf(dir, p.Path+"/"+e.Name(), e.Name())
		if err != nil {
			return nil, err
		}
		if x != nil {
			out.Entries = append(out.Entries, *x)
		}
	}
	return out, nil
}

// entryOf describes a file, a directory or a link; nil stands for anything else.
func entryOf(dir *saferoot.Root, p, name string) (*op.DiskEntry, error) {
	st, err := dir.Lstat(p)
	if err != nil {
		return nil, err
	}
	e := &op.DiskEntry{Name: name, Mode: uint32(st.Mode().Perm()), ModTime: st.ModTime().UnixNano()}
	if of, ok := st.Sys().(*syscall.Stat_t); ok {
		e.UID, e.GID = int(of.Uid), int(of.Gid)
	}
	switch st.Mode().Type() {
	case 0:
		e.Kind, e.Size = op.DiskFile, st.Size()
	case fs.ModeDir:
		e.Kind = op.DiskDir
	case fs.ModeSymlink:
		e.Kind = op.DiskLink
		e.Link, err = dir.Readlink(p)
	default:
		return nil, nil
	}
	return e, err
}

// readFile returns a part of a file.
func readFile(dir *saferoot.Root, p op.DiskPart) (*op.DiskAnswer, error) {
	if p.Offset < 0 {
		return nil, berth.Errorf(berth.Invalid, "Offset: must be at least 0, got %d", p.Offset)
	}
	f, err := dir.OpenFile(p.Path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, op.MaxDiskBytes)
	n, err := f.ReadAt(b, p.Offset)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return &op.DiskAnswer{State: op.DiskReady, Data: b[:n]}, nil
}
