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
	"berth/internal/consensus"
	"berth/internal/durable"
	"berth/internal/state"
)

// Folder is the locked data folder of a server: no other process can start a
// server on it.
type Folder struct {
	ID      string       // the server's ID in Raft and gossip
	Cluster string       // the last known cluster ID; "" if the server has not joined one
	claim   *claim.Claim // the lock
}

// Hold locks a folder, and creates it if needed. Lock it before the server opens
// anything that other servers see, so that they never see a server that was
// started twice by mistake. The error is a *claim.HeldError if another process
// still holds the lock after the wait.
func Hold(dir string, wait claim.Wait) (*Folder, error) {
	if err := claim.MakeDir(dir, 0o700); err != nil {
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

// Close unlocks the folder. Closing it again does nothing.
func (f *Folder) Close() error { return f.claim.Close() }

// Identity returns the ID of the server whose data is in the folder. It creates
// one if there is none. The ID does not depend on the machine's name, so that a
// machine can be renamed.
func Identity(dir string) (string, error) {
	if err := claim.MakeDir(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "id")
	text, err := os.ReadFile(path)
	if err == nil {
		id, err := berth.ParseID[Server](strings.TrimSpace(string(text)))
		if err != nil || id.IsZero() {
			return "", fmt.Errorf("%s does not contain a server ID: %w", path, errors.Join(err, fs.ErrInvalid))
		}
		return id.String(), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// With another ID the server would be a stranger to its own log, and nobody
	// could elect it.
	if _, err := os.Stat(filepath.Join(dir, "log")); err == nil {
		return "", lostIdentity(dir, path)
	}
	var id berth.ID[Server]
	rand.Read(id[:])
	return id.String(), durable.Replace(path, []byte(id.String()+"\n"))
}

// lostIdentity returns the error for a folder with a log whose server's ID is
// missing. It says which ID it can have been.
func lostIdentity(dir, path string) error {
	peers, err := consensus.PeersOf(dir)
	switch {
	case err != nil:
		return fmt.Errorf("%s is missing, and without this server's ID its log is of no use; the log cannot be read either: %w", path, err)
	case len(peers) == 0:
		return fmt.Errorf("%s is missing, and the log beside it names no server; put the file back from a backup, or delete %s to start as a new server", path, dir)
	case len(peers) == 1:
		return fmt.Errorf("%s is missing, and without this server's ID its log is of no use; to put it back: echo %s > %s", path, peers[0].ID, path)
	}
	var list []string
	for _, p := range peers {
		list = append(list, p.ID+" ("+p.Address+")")
	}
	return fmt.Errorf("%s is missing, and without this server's ID its log is of no use; write the ID of this server into it, which is one of: %s", path, strings.Join(list, ", "))
}

// clusterFile returns the path of the file that holds the cluster ID.
func clusterFile(dir string) string { return filepath.Join(dir, "cluster") }

// clusterOf returns the cluster ID that is stored in the folder, "" if there is
// none.
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
		return "", fmt.Errorf("%s does not contain a cluster ID: %w", path, errors.Join(err, fs.ErrInvalid))
	}
	return id.String(), nil
}
