package keyring

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"
	"berth/internal/durable"
)

// Wrapping is the type parameter of the IDs of wrapping keys.
type Wrapping struct{}

// WrappingID names a wrapping key.
type WrappingID = berth.ID[Wrapping]

// Files wraps root keys with keys in the files of a folder, one each, named
// ID.key and readable by their owner only. A server makes one when it makes the
// first root key of a cluster; other servers get it from there.
type Files struct{ dir string }

// FileProvider is the name of Files in rows, and of its configuration.
const FileProvider = "aead"

// NewFiles returns the wrapper that keeps its keys in a folder, which need not
// exist.
func NewFiles(dir string) *Files { return &Files{dir} }

// Provider implements Wrapper.
func (*Files) Provider() string { return FileProvider }

// path returns the file of a key.
func (f *Files) path(id WrappingID) string { return filepath.Join(f.dir, id.String()+".key") }

// Key returns a key. The error is fs.ErrNotExist if this server does not have
// it.
func (f *Files) Key(id WrappingID) ([]byte, error) {
	text, err := os.ReadFile(f.path(id))
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("%s does not contain a key of %d bytes in base64", f.path(id), keyBytes)
	}
	return key, nil
}

// Add stores a key. It is durable when Add returns.
func (f *Files) Add(id WrappingID, key []byte) error {
	if id.IsZero() || len(key) != keyBytes {
		return berth.Errorf(berth.Invalid, "wrapping key %s: must have %d bytes, got %d", id, keyBytes, len(key))
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return durable.Replace(f.path(id), []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
}

// ids returns the keys that there are, in order of ID.
func (f *Files) ids() (out []WrappingID, err error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".key")
		if id, err := berth.ParseID[Wrapping](name); ok && err == nil && !id.IsZero() {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b WrappingID) int { return strings.Compare(a.String(), b.String()) })
	return out, err
}

// Wrap implements Wrapper. The key is that of like, else one that is there, else
// a new one.
func (f *Files) Wrap(secret, aad []byte, like *berth.WrappedKey) (w berth.WrappedKey, err error) {
	var id WrappingID
	if like != nil {
		id, err = berth.ParseID[Wrapping](like.By)
	} else {
		var there []WrappingID
		if there, err = f.ids(); len(there) > 0 {
			id = there[0]
		}
	}
	if err != nil {
		return w, err
	}
	if id.IsZero() {
		key := make([]byte, keyBytes)
		rand.Read(key)
		rand.Read(id[:])
		if err := f.Add(id, key); err != nil {
			return w, err
		}
	}
	key, err := f.key(id)
	if err != nil {
		return w, err
	}
	w = berth.WrappedKey{Provider: FileProvider, By: id.String()}
	w.Data, err = seal(key, secret, aad)
	return w, err
}

// key returns a key, or an Unavailable error that says how to get it.
func (f *Files) key(id WrappingID) ([]byte, error) {
	key, err := f.Key(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, berth.Errorf(berth.Unavailable, "this server does not have wrapping key %s, and has not got it from another server yet: its file is %s", id, f.path(id))
	}
	if err != nil {
		return nil, berth.Errorf(berth.Unavailable, "wrapping key: %w", err)
	}
	return key, nil
}

// Unwrap implements Wrapper.
func (f *Files) Unwrap(w *berth.WrappedKey, aad []byte) ([]byte, error) {
	id, err := berth.ParseID[Wrapping](w.By)
	if err != nil {
		return nil, err
	}
	key, err := f.key(id)
	if err != nil {
		return nil, err
	}
	secret, err := open(key, w.Data, aad)
	if err != nil {
		return nil, berth.Errorf(berth.Unavailable, "wrapping key %s is not the one that wrapped the root key: %w", id, err)
	}
	return secret, nil
}

// Missing returns the wrapping keys that root keys need and this server does
// not have.
func (f *Files) Missing(keys []*berth.RootKey) (out []WrappingID) {
	for _, k := range keys {
		if k.Wrapped.Provider != FileProvider {
			continue
		}
		id, err := berth.ParseID[Wrapping](k.Wrapped.By)
		if err != nil || id.IsZero() || slices.Contains(out, id) {
			continue
		}
		if _, err := os.Stat(f.path(id)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, id)
		}
	}
	return out
}
