// Package freeport finds free ports on loopback for short-lived processes of
// tests and demos.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Ports are searched below the ephemeral range, so that one stays free until
// its process listens, and again when that restarts.
const (
	lowest = 10_000
	count  = 9_000
)

// given are the locks of the ports returned so far. They are held for the life
// of the process: what listens at a port starts some time after the port was
// found, and may restart.
var given struct {
	mu    sync.Mutex
	locks map[int]*os.File
}

// Take returns a port that nothing listens on, with TCP or UDP, and that
// neither this process nor another one that runs now was given before.
func Take() (int, error) {
	given.mu.Lock()
	defer given.mu.Unlock()
	for range 500 {
		port := lowest + rand.N(count)
		if given.locks[port] != nil {
			continue
		}
		lock, err := reserve(folder(), port)
		if err != nil {
			return 0, err
		}
		if lock == nil {
			continue
		}
		if !free(port) {
			lock.Close()
			continue
		}
		if given.locks == nil {
			given.locks = map[int]*os.File{}
		}
		given.locks[port] = lock
		return port, nil
	}
	return 0, errors.New("no free port on loopback")
}

// folder is where the processes of this user lock ports, a file for each.
func folder() string { return filepath.Join(os.TempDir(), fmt.Sprint("berth-ports-", os.Getuid())) }

// reserve locks a port against other processes. It returns nil if another one
// holds the lock. The lock ends with the process or when the file is closed.
func reserve(dir string, port int) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("reserving port %d: %w", port, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("reserving port %d: %w", port, err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, f.Close()
	default:
		f.Close()
		return nil, fmt.Errorf("reserving port %d: %w", port, err)
	}
}

// free reports whether nothing listens at a port.
func free(port int) bool {
	at := fmt.Sprintf("127.0.0.1:%d", port)
	tcp, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	udp.Close()
	return true
}
