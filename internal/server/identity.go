package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth"
	"berth/internal/claim"
	"berth/internal/state"
)

// Folder is the folder of a server's data while it is held: no other process
// makes a server of it.
type Folder struct {
	ID      string // by which consensus and gossip know the server
	Cluster string // the ID of the cluster of which it was part; "" if of none, as far as is known before it has its state
	claim   *claim.Claim
}

// Hold holds a folder, which it makes if need be. It is to be held before
// anything of the server is opened that others can see: one that is started
// twice by mistake must not be heard of. The error is a *claim.HeldError if
// another process still holds it after the wait.
func Hold(dir string, wait claim.Wait) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c, err := claim.Take(filepath.Join(dir, "server.lock"), wait)
	if err != nil {
		return nil, err
	}
	f := &Folder{claim: c}
	if f.ID, err = Identity(dir); err == nil {
		f.Cluster, err = clusterOf(dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close lets others hold the folder. To do so again does nothing.
func (f *Folder) Close() error { return f.claim.Close() }

// Identity returns the ID of the server whose data is in the folder, by which
// consensus and gossip know it. It is made with the folder, so that a machine
// may get another name.
func Identity(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "id")
	text, err := os.ReadFile(path)
	if err == nil {
		id, err := berth.ParseID[Server](strings.TrimSpace(string(text)))
		if err != nil || id.IsZero() {
			return "", fmt.Errorf("%s does not hold the ID of a server: %w", path, errors.Join(err, fs.ErrInvalid))
		}
		return id.String(), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var id berth.ID[Server]
	rand.Read(id[:])
	return id.String(), writeSynced(path, id.String()+"\n")
}

func clusterFile(dir string) string { return filepath.Join(dir, "cluster") }

// clusterOf returns the ID of the cluster of which the server was part whose
// data is in the folder, "" if it was part of none.
func clusterOf(dir string) (string, error) {
	path := clusterFile(dir)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id, err := berth.ParseID[state.Cluster](strings.TrimSpace(string(text)))
	if err != nil || id.IsZero() {
		return "", fmt.Errorf("%s does not hold the ID of a cluster: %w", path, errors.Join(err, fs.ErrInvalid))
	}
	return id.String(), nil
}

// writeSynced makes a file that is whole, or not there, after a crash.
func writeSynced(path, text string) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
