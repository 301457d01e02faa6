package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"berth/internal/agent/record"
)

// fileContact is the file in the state directory that holds the last contact.
const fileContact = "last-contact"

// Contact is when servers were last reached, and how often they wanted to be.
type Contact struct {
	At  time.Time     // zero if that is not known
	TTL time.Duration // of the heartbeat

	// The same by the clock of the machine that nobody can set.
	Boot     string `json:",omitempty"` // which run of the kernel; "" in records of older releases
	BootTime int64  `json:",omitempty"` // in that run, in nanoseconds; see supervise.BootTime
}

// PutContact records a contact in dir. It is written often, so it does not wait
// for the disk: a crash of the machine loses the last few.
func PutContact(dir string, c Contact) error {
	b, err := record.Append(nil, "last contact", c)
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
// was. Of a damaged record it returns the zero Contact and an error.
func GetContact(dir string) (c Contact, err error) {
	b, err := os.ReadFile(filepath.Join(dir, fileContact))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return c, err
	}
	if err := record.Decode(b, "last contact", &c); err != nil {
		return Contact{}, fmt.Errorf("the file %s: %w", fileContact, err)
	}
	return c, nil
}
