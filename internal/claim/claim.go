// Package claim keeps a folder to one process: whoever starts an agent twice
// by mistake is told so before the second one touches anything. A claim ends
// with the process, however that ends.
package claim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// HeldError says that another process has the folder.
type HeldError struct {
	Dir string
	PID int // as that process knows itself; 0 if it is not known
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("another agent uses the folder %s; each needs its own", e.Dir)
	}
	return fmt.Sprintf("another agent, process %d, uses the folder %s; each needs its own", e.PID, e.Dir)
}

// Claim is a folder that other processes cannot claim by the same file.
type Claim struct{ file *os.File }

// Take claims the folder that the file is in, and which is there. It waits for
// nobody: if another process has it, the error is a *HeldError. A claim is one
// of the open file, so a process cannot take it twice either.
func Take(path string) (*Claim, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f, filepath.Dir(path)); err != nil {
		if held, ok := errors.AsType[*HeldError](err); ok {
			held.PID = holder(f)
		}
		return nil, errors.Join(err, f.Close())
	}
	// Who has it is for people to read. A full disk must not keep an agent from
	// starting, so what is there is written over, and nothing depends on it.
	_, _ = f.WriteAt(fmt.Appendf(nil, "%-*d\n", pidWidth, os.Getpid()), 0)
	return &Claim{f}, nil
}

// TakeDir claims a folder without a file in it, for one that people list. Who
// has it is not told then.
func TakeDir(dir string) (*Claim, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := lock(f, dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Claim{f}, nil
}

func lock(f *os.File, dir string) error {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return &HeldError{Dir: dir}
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// pidWidth has every text be as long as the one before it.
const pidWidth = 10

// holder reads who has the claim. It may be about to write that.
func holder(f *os.File) int {
	b := make([]byte, pidWidth+1)
	n, _ := f.ReadAt(b, 0)
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
	return max(pid, 0)
}

// Close gives the folder up. To do so again does nothing.
func (c *Claim) Close() error {
	if err := c.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
