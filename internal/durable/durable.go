// Package durable replaces files so that a crash leaves the old content or the
// new one, never a part.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes b to the file at path, readable for its owner only. When it
// returns nil, the content and the name are on disk. On an error, and after a
// crash, the file is as before or complete; a file path+".new" may be left, and
// the next call overwrites it. Calls for one path must not overlap.
func Replace(path string, b []byte) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	// The new name is on disk only once its directory is.
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
