// Package claim reserves a directory for one process: starting an agent twice
// by mistake fails before the second one touches anything. A claim ends with
// the process, however that ends.
//
// It may end a moment later than the process seems to. A killed process holds
// its files until the kernel has torn it down, and a child that it was just
// starting shares them until the child executes its own program. So an agent
// that is restarted waits for the claim ([ForRestart]).
package claim

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/failpoint"
)

// HeldError means that another process has claimed the directory.
type HeldError struct {
	Dir string
	PID int // in that process's PID namespace; 0 if unknown
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("another agent uses the directory %s; each agent needs its own", e.Dir)
	}
	return fmt.Sprintf("another agent, process %d, uses the directory %s; each agent needs its own", e.PID, e.Dir)
}

// Wait limits how long a claim waits for another process to release the
// directory. The zero Wait does not wait.
type Wait struct {
	Most time.Duration
	Log  *slog.Logger // one message when it starts to wait; nil for none
}

const (
	restartWait = 10 * time.Second      // for the last agent's remains to be gone
	lookEvery   = 20 * time.Millisecond // polling, because a blocking flock cannot be limited
)

// ForRestart returns how long an agent waits for its directories. It may have
// been started right after the last one was killed.
func ForRestart(log *slog.Logger) Wait {
	if failpoint.Hit("claim/no-wait") != nil {
		return Wait{}
	}
	return Wait{Most: restartWait, Log: log}
}

// Claim is a directory that other processes cannot claim with the same file.
type Claim struct{ file *os.File }

// Take claims the existing directory that contains the file path. The error is
// a *HeldError if another process still has it after the wait. A claim belongs
// to the open file, so a process cannot take it twice either.
//
// No program that this process starts inherits the claim: Go opens all files
// with O_CLOEXEC.
func Take(path string, w Wait) (*Claim, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f, filepath.Dir(path), w); err != nil {
		if held, ok := errors.AsType[*HeldError](err); ok {
			held.PID = holder(f)
		}
		return nil, errors.Join(err, f.Close())
	}
	// The process ID is for people. A full disk must not keep an agent from
	// starting, so the old number is overwritten in place, and nothing depends
	// on it.
	_, _ = f.WriteAt(fmt.Appendf(nil, "%-*d\n", pidWidth, os.Getpid()), 0)
	return &Claim{f}, nil
}

// TakeDir claims a directory without a file in it, for directories that people
// list. Its HeldError has no PID.
func TakeDir(dir string, w Wait) (*Claim, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := lock(f, dir, w); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Claim{f}, nil
}

func lock(f *os.File, dir string, w Wait) error {
	for end, logged := time.Now().Add(w.Most), false; ; time.Sleep(lookEvery) {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if !time.Now().Before(end) {
			return &HeldError{Dir: dir}
		}
		if !logged && w.Log != nil {
			w.Log.Info("another process still uses the directory; waiting for it to end", "dir", dir, "wait", w.Most)
		}
		logged = true
	}
}

// pidWidth gives every text the same length.
const pidWidth = 10

// holder returns the process that has the claim, or 0. The holder may not have
// written its number yet.
func holder(f *os.File) int {
	b := make([]byte, pidWidth+1)
	n, _ := f.ReadAt(b, 0)
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
	return max(pid, 0)
}

// Close releases the claim. Closing it again does nothing.
func (c *Claim) Close() error {
	if err := c.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
