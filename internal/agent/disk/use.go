package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"berth/internal/saferoot"
)

// errEnough ends the walk of a tree.
var errEnough = errors.New("enough")

// Use returns how much of the disk a directory takes, in bytes, and whether all of
// it was counted: it stops beyond a number of bytes, or of files. What is mounted in
// it does not count, and no link is followed. A file with several names counts once
// for each.
func Use(dir *saferoot.Root, most int64, files int) (bytes int64, all bool, err error) {
	root, err := os.OpenRoot(dir.ProcPath())
	if err != nil {
		return 0, false, err
	}
	defer root.Close()
	var device uint64
	err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !ok:
			return nil
		case p == ".":
			device = st.Dev
		case st.Dev != device && e.IsDir():
			return fs.SkipDir
		}
		bytes += st.Blocks * 512
		if files--; files < 0 || bytes > most {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return bytes, false, nil
	}
	return bytes, err == nil, err
}
