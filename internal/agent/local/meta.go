package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/agent/record"
	"berth/internal/saferoot"
)

// fileMeta is the file in the state directory that holds the metadata of the
// node that was changed while the agent ran.
const fileMeta = "dynamic-meta"

// PutMeta records changed metadata in dir; nil stands for a key that was removed.
// It is on disk when PutMeta returns.
func PutMeta(dir string, meta map[string]*string) error {
	b, err := record.Append(nil, "metadata", meta)
	if err != nil {
		return err
	}
	root, err := saferoot.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.ReplaceSync(fileMeta, b, 0o600)
}

// GetMeta returns what was recorded last, and nothing if nothing was. A damaged
// record is set aside beside it; the error says so.
func GetMeta(dir string) (map[string]*string, error) {
	path := filepath.Join(dir, fileMeta)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return map[string]*string{}, nil
	case err != nil:
		return map[string]*string{}, err
	}
	var meta map[string]*string
	if err := record.Decode(b, "metadata", &meta); err != nil {
		aside := path + ".damaged"
		return map[string]*string{}, errors.Join(fmt.Errorf("the file %s is damaged and becomes %s: %w", path, aside, err), os.Rename(path, aside))
	}
	if meta == nil {
		meta = map[string]*string{}
	}
	return meta, nil
}
