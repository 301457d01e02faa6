package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const fileContact = "last-contact"

// Contact is when servers were last reached, and how often they wanted to be.
type Contact struct {
	At  time.Time     // zero if that is not known
	TTL time.Duration // of the heartbeat
}

// PutContact records a contact in dir. It is written often, so it does not wait
// for the disk: what a crash of the machine takes is the last few.
func PutContact(dir string, c Contact) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, fileContact)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// GetContact returns what was recorded last, and the zero Contact if nothing
// was. A damaged record is that with an error.
func GetContact(dir string) (c Contact, err error) {
	b, err := os.ReadFile(filepath.Join(dir, fileContact))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return Contact{}, fmt.Errorf("the file %s is damaged: %w", fileContact, err)
	}
	return c, nil
}
