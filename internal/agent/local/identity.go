package local

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"berth"
	"berth/internal/claim"
	"berth/internal/saferoot"
)

// Identity returns the node's ID and secret, which are made once and kept in
// dir. Where a file is missing or damaged, a new one is made, unless allocations
// are recorded in dir: another node would have to end them, so that is an error
// that says how to mend it. With ofHost a new ID is made from that of the machine,
// so that the node keeps it when its state is lost; two agents on one machine
// would then be one node.
func Identity(dir string, ofHost bool, log *slog.Logger) (id berth.NodeID, secret string, err error) {
	if err := claim.MakeDir(dir, 0o700); err != nil {
		return id, "", err
	}
	root, err := saferoot.Open(dir)
	if err != nil {
		return id, "", err
	}
	defer root.Close()
	first := newUUID
	if ofHost {
		first = func() string { return hostUUID(log) }
	}
	text, err := identity(root, "client-id", first, log)
	if err != nil {
		return id, "", err
	}
	if secret, err = identity(root, "secret-id", newUUID, log); err != nil {
		return id, "", err
	}
	id, err = berth.ParseID[berth.Node](text)
	return id, secret, err
}

// identity returns the UUID in a file of dir, and makes one if the file is
// missing or damaged. Only the agent's user may read the file.
func identity(dir *saferoot.Root, name string, first func() string, log *slog.Logger) (string, error) {
	path := filepath.Join(dir.Path(), name)
	b, err := os.ReadFile(path)
	// A file that cannot be read now may be whole: a new identity would lose
	// the node's allocations.
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	damaged := err == nil
	if id, e := berth.ParseID[berth.Node](text); e == nil && !id.IsZero() {
		return id.String(), os.Chmod(path, 0o600)
	}
	recorded, err := filepath.Glob(filepath.Join(dir.Path(), dirAllocs, "*"))
	if err != nil {
		return "", err
	}
	if len(recorded) > 0 {
		what := "missing"
		if damaged {
			what = "damaged"
		}
		return "", berth.Errorf(berth.Conflict, "%s is %s, and servers would take this agent for another node, whose start ends the allocations that run here (%d are recorded). "+
			"Put the file back from a backup. To give the allocations up and start as a new node: delete client-id, secret-id and %s in %s", path, what, len(recorded), dirAllocs, dir.Path())
	}
	if damaged {
		log.Warn("a file of the node's identity is damaged; the node gets a new one", "file", path)
	}
	text = first()
	return text, dir.ReplaceSync(name, []byte(text), 0o600)
}

// hostFiles are where a machine says which one it is.
var hostFiles = []string{"/sys/class/dmi/id/product_uuid", "/etc/machine-id"}

// hostUUID returns the ID of a machine as that of a node. It is hashed: makers of
// machines give IDs that differ in few digits, or none. A machine without an ID
// gets a random one.
func hostUUID(log *slog.Logger) string {
	for _, file := range hostFiles {
		b, err := os.ReadFile(file)
		if text := strings.ToLower(strings.TrimSpace(string(b))); err == nil && len(text) >= 32 && strings.Trim(text, "0-") != "" {
			sum := sha256.Sum256([]byte("berth node " + text))
			return asUUID(berth.NodeID(sum[:16]))
		}
	}
	log.Warn("this machine has no ID of its own: the node gets a random one", "looked_at", strings.Join(hostFiles, " "))
	return newUUID()
}

// newUUID returns a random UUID (version 4).
func newUUID() string {
	var id berth.NodeID
	_, _ = rand.Read(id[:]) // never fails
	return asUUID(id)
}

// asUUID marks an ID as a UUID of version 4.
func asUUID(id berth.NodeID) string {
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
