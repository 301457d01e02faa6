// Package accept takes in connections, so that no number of callers ends an
// agent or keeps it from its work. A Listener survives every error but its own
// closing, also when the process has no file descriptors left. A Gate limits
// connections before a byte of them is read. Ports divides the descriptors of
// the process among the ports. Who calls, and with which rights, is decided by
// those who use the connections.
package accept

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/throttle"
)

// Pauses after an error of Accept, doubled each time.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
	// pollPause is the pause while the process has no descriptors and nobody
	// calls.
	pollPause = 20 * time.Millisecond
)

// spares is how many descriptors a listener holds in reserve. One would do if
// nobody else could take it in the moment in which it is given away.
const spares = 3

// Listener is a listener whose Accept fails only after Close. It holds a few
// file descriptors in reserve. When there are no others, it accepts connections
// in their place and ends them, so that callers learn at once that they are
// refused instead of waiting in the kernel's queue.
type Listener struct {
	net.Listener
	log   *throttle.Log
	spare []io.Closer // in reserve; of the goroutine that accepts

	once  sync.Once
	ended chan struct{} // closed by Close
}

// Listen returns a Listener over ln, which it owns from now on.
func Listen(ln net.Listener, log *throttle.Log) *Listener {
	l := &Listener{Listener: ln, log: log, ended: make(chan struct{})}
	l.hold()
	return l
}

// Accept implements net.Listener. One goroutine at a time may call it.
func (l *Listener) Accept() (net.Conn, error) {
	pause := firstPause
	for {
		conn, err := l.Listener.Accept()
		switch {
		case l.over() || errors.Is(err, net.ErrClosed):
			if err == nil {
				conn.Close()
			}
			for len(l.spare) > 0 {
				l.release()
			}
			return nil, net.ErrClosed
		case err == nil && l.hold():
			return conn, nil
		case err == nil:
			l.refuse(conn)
			pause = firstPause
			continue
		case exhausted(err) && !l.called():
			l.rest(pollPause)
			continue
		case exhausted(err) && len(l.spare) > 0:
			l.release()
			continue
		}
		l.log.Warn("cannot accept a connection; retrying", "address", l.Addr(), "error", err)
		l.rest(pause)
		l.hold()
		pause = min(2*pause, maxPause)
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// over reports whether Close was called.
func (l *Listener) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// rest waits for a while, or until Close.
func (l *Listener) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.ended:
	}
}

// called reports whether a connection waits to be accepted. Without
// descriptors, Accept fails whether or not there is one.
func (l *Listener) called() bool {
	s, ok := l.Listener.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	n := 1
	_ = raw.Control(func(fd uintptr) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return n != 0
}

// hold fills the reserve. It reports whether the reserve is full.
func (l *Listener) hold() bool {
	for len(l.spare) < spares {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return false
		}
		l.spare = append(l.spare, f)
	}
	return true
}

// release gives a descriptor of the reserve away.
func (l *Listener) release() {
	last := len(l.spare) - 1
	l.spare[last].Close()
	l.spare = l.spare[:last]
}

// refuse ends a connection that has one of the last descriptors. The descriptor
// stays in the reserve: nobody else can take it in between.
func (l *Listener) refuse(conn net.Conn) {
	l.log.Warn("connection refused: the process has no file descriptors left (see RLIMIT_NOFILE)", "address", l.Addr())
	half, ok := conn.(interface {
		CloseRead() error
		CloseWrite() error
	})
	if !ok || len(l.spare) >= spares {
		conn.Close()
		return
	}
	half.CloseRead()
	half.CloseWrite()
	l.spare = append(l.spare, conn)
}

// exhausted reports whether the process or the machine is out of descriptors.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
