// Package files reads an allocation's directory for people: it lists and
// describes files, and streams them as they grow. No path leaves the directory,
// no link is followed, and secrets are not shown.
package files

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"

	"berth"
	"berth/internal/agent/supervise"
	"berth/internal/limit"
	"berth/internal/saferoot"
	"berth/op"
)

// MaxEntries is the most entries of a directory that is listed.
const MaxEntries = 10_000

var entriesLimit = limit.Declare(limit.Info{
	Name: "files_per_listing", Of: "Entries of a directory of an allocation that is listed", Unit: limit.Count, Default: MaxEntries,
	Beyond: "the listing is refused (413); its files can still be read by name",
})

// hidden are the directories of a task that only the task may read.
var hidden = []string{"secrets", "private"}

// Clean returns a path that somebody asked for as one below the allocation's
// directory, "." for that itself. It refuses, with the kind Denied, what is not
// shown.
func Clean(asked string) (string, error) {
	if len(asked) > saferoot.MaxPath {
		return "", berth.Errorf(berth.Invalid, "path: must be at most %d bytes, got %d", saferoot.MaxPath, len(asked))
	}
	p := strings.TrimPrefix(path.Clean("/"+asked), "/")
	names := strings.Split(p, "/")
	if names[0] == supervise.ControlDir {
		return "", berth.Errorf(berth.Denied, "path: %q belongs to the agent and is not shown", berth.Clip(asked, 100))
	}
	if len(names) > 1 && names[0] != "alloc" {
		for _, h := range hidden {
			if names[1] == h {
				return "", berth.Errorf(berth.Denied, "path: %q is in the %s of task %q, which only the task may read", berth.Clip(asked, 100), h, berth.Clip(names[0], 64))
			}
		}
	}
	return cmp.Or(p, "."), nil
}

// List describes what is in a directory, in order of name.
func List(root *saferoot.Root, asked string) ([]op.FileInfo, error) {
	p, err := Clean(asked)
	if err != nil {
		return nil, err
	}
	entries, err := root.ReadDirUpTo(p, MaxEntries)
	if err != nil {
		if berth.KindOf(err) == berth.TooLarge {
			entriesLimit.Refuse("path", asked)
		}
		return nil, told(err, asked)
	}
	entriesLimit.Use(int64(len(entries)), MaxEntries)
	out := []op.FileInfo{}
	for _, e := range entries {
		if p == "." && e.Name() == supervise.ControlDir {
			continue
		}
		st, err := root.Lstat(path.Join(p, e.Name()))
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, told(err, asked)
		}
		out = append(out, info(e.Name(), st))
	}
	return out, nil
}

// Stat describes a file or directory. Of a regular file it tells the type, by
// its first bytes.
func Stat(root *saferoot.Root, asked string) (*op.FileInfo, error) {
	p, err := Clean(asked)
	if err != nil {
		return nil, err
	}
	if p == "." {
		st, err := os.Stat(root.ProcPath())
		if err != nil {
			return nil, told(err, asked)
		}
		out := info("/", st)
		return &out, nil
	}
	st, err := root.Lstat(p)
	if err != nil {
		return nil, told(err, asked)
	}
	out := info(path.Base(p), st)
	if st.Mode().IsRegular() {
		if f, err := root.OpenFile(p, os.O_RDONLY, 0); err == nil {
			defer f.Close()
			head := make([]byte, 512)
			if n, err := io.ReadFull(f, head); n > 0 || err == io.EOF {
				out.ContentType = http.DetectContentType(head[:n])
			}
		}
	}
	return &out, nil
}

// info is a file as the API shows it.
func info(name string, st fs.FileInfo) op.FileInfo {
	return op.FileInfo{Name: name, IsDir: st.IsDir(), Size: st.Size(), FileMode: st.Mode().String(), ModTime: st.ModTime()}
}

// told gives an error of the file system the kind and the words for who asked.
func told(err error, asked string) error {
	shown := berth.Clip(cmp.Or(asked, "/"), 100)
	switch {
	case err == nil || berth.KindOf(err) != "":
		return err
	case errors.Is(err, fs.ErrNotExist):
		return berth.Errorf(berth.NotFound, "path: there is no file %q in the allocation's directory", shown)
	case isNotDir(err):
		return berth.Errorf(berth.Invalid, "path: %q is not a directory, or leads through a link, which is not followed", shown)
	case errors.Is(err, fs.ErrPermission):
		return berth.Errorf(berth.Denied, "path: the agent may not read %q", shown)
	}
	return err
}
