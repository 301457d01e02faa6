package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth"
)

// How a supervisor answers calls.

// accept serves connections.
func (s *server) accept(wg *sync.WaitGroup) {
	for {
		conn, err := s.sock.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of files; some will be closed
			continue
		}
		s.mu.Lock()
		// More callers than this are a mistake; they are turned away unheard.
		full := s.calls >= maxCalls
		if !full {
			s.calls++
		}
		s.mu.Unlock()
		if full {
			_ = conn.Close()
			continue
		}
		wg.Go(func() {
			s.serve(conn)
			_ = conn.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			// The last caller to go may be what the end waited for.
			s.calls--
			s.endIfIdle()
		})
	}
}

// serve answers the one request of a connection.
func (s *server) serve(conn *net.UnixConn) {
	if err := checkPeer(conn); err != nil {
		s.log.Warn("refused a caller", "error", err)
		return
	}
	_ = conn.SetDeadline(time.Now().Add(requestTime))
	var req request
	err := readFrame(conn, &req)
	if err == nil {
		err = req.check()
	}
	var resp response
	if err == nil {
		resp, err = s.answer(conn, &req)
	}
	resp.V = version
	if err != nil {
		resp.Kind, resp.Err = berth.KindOf(err), err.Error()
		if errors.Is(err, ErrUnknown) {
			resp.Kind = berth.NotFound
		}
	}
	_ = conn.SetDeadline(time.Now().Add(requestTime))
	_ = writeFrame(conn, &resp)
}

// checkPeer lets in the user that the supervisor runs as, and root.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, inner); err != nil {
		return err
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("process %d of user %d", cred.Pid, cred.Uid)
	}
	return nil
}

// callerGone reports whether the caller has hung up. The start that it asked
// for is nobody's then: the next to ask, an agent that took its place or the
// same one with other orders, may have been told already that the launch is not
// known.
func callerGone(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := true
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		for err == unix.EINTR {
			n, err = unix.Poll(p, 0)
		}
		gone = err != nil || n > 0
	})
	return gone || err != nil
}

// answer carries out a request. All calls but a wait are short and hold mu, so
// they happen one after the other. conn is needed to notice that the caller has
// gone.
func (s *server) answer(conn *net.UnixConn, req *request) (resp response, err error) {
	if req.Call == callWait {
		return s.wait(conn, req)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.Call {
	case callHello:
		if s.ending { // what it knows is in its state, soon to be read there
			return resp, berth.Errorf(berth.Unavailable, "the supervisor ends")
		}
		resp.Launches = append(resp.Launches, s.state.Launches...)
		// The caller may conclude that a launch it does not find never
		// happened, so a request to start it that comes later is refused.
		if req.Task != "" {
			s.gone[req.Task] = max(s.gone[req.Task], req.Launch)
		}
		return resp, nil
	case callStart, callIsolate:
		if callerGone(conn) {
			return resp, berth.Errorf(berth.Unavailable, "the caller is gone")
		}
		resp.Launch, err = s.start(req)
		return resp, err
	case callExtend:
		return resp, s.extend(req.Until)
	case callEnd:
		if len(s.live) > 0 {
			return resp, berth.Errorf(berth.Conflict, "%d tasks run", len(s.live))
		}
		s.used, s.state.Launches = true, nil
		return resp, s.save()
	}
	l := s.state.find(req.Task, req.Launch)
	if l == nil {
		return resp, ErrUnknown
	}
	p := s.live[l.Task]
	switch req.Call {
	case callSignal:
		if p == nil || p.launch.Number != l.Number {
			return resp, berth.Errorf(berth.Conflict, "task %q has ended", l.Task)
		}
		return resp, p.signal(syscall.Signal(req.Signal))
	case callStop:
		if p != nil && p.launch.Number == l.Number {
			p.stop(syscall.Signal(req.Signal), req.Timeout)
		}
		return resp, nil
	case callRelease:
		if l.Exit == nil {
			return resp, berth.Errorf(berth.Conflict, "task %q still runs", l.Task)
		}
		l.Released = true
		return resp, s.save()
	}
	return resp, berth.Errorf(berth.Invalid, "there is no call %q", req.Call)
}

// wait answers when the launch has ended. It gives up when the caller does.
func (s *server) wait(conn *net.UnixConn, req *request) (resp response, err error) {
	s.mu.Lock()
	l := s.state.find(req.Task, req.Launch)
	var done <-chan struct{}
	if l != nil && l.Exit == nil {
		done = s.live[l.Task].done
	}
	s.mu.Unlock()
	if l == nil {
		return resp, ErrUnknown
	}
	if done != nil {
		// A task may run for years, and so may the wait.
		_ = conn.SetDeadline(time.Time{})
		gone, stop := context.WithCancel(context.Background())
		defer stop()
		go func() { // ends with the connection, which our caller closes
			var b [1]byte
			_, _ = conn.Read(b[:])
			stop()
		}()
		select {
		case <-done:
		case <-gone.Done():
			return resp, errors.New("the caller went away")
		case <-s.end:
			return resp, berth.Errorf(berth.Unavailable, "the supervisor ends")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// It was unlocked meanwhile: another caller may have removed the launch.
	if l = s.state.find(req.Task, req.Launch); l == nil {
		return resp, ErrUnknown
	}
	c := *l
	resp.Launch = &c
	return resp, nil
}
