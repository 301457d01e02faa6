package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/failpoint"
)

// When a supervisor ends.

// endIfIdle ends the supervisor if no task runs and every exit is recorded, or
// nobody came for one for a while. The caller holds mu.
func (s *server) endIfIdle() {
	if s.ending || !s.used || len(s.live) > 0 || s.calls > 0 {
		return
	}
	for _, l := range s.state.Launches {
		if !l.Released && !s.quit {
			s.startIdleTimeout()
			return
		}
	}
	s.ending = true
	close(s.end)
}

// startIdleTimeout begins to wait for an agent to ask for the exits. The caller
// holds mu.
func (s *server) startIdleTimeout() {
	wait := idleAtLast
	if failpoint.Hit("supervise/no-patience") != nil {
		wait = 10 * time.Millisecond
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	s.idle = time.AfterFunc(wait, s.idleTimeout)
}

// idleTimeout ends the supervisor although exits wait for the agent, if none has
// called meanwhile: the next supervisor finds them in the state. If they cannot
// be written it stays, unless nobody can ask any more because the allocation's
// directory is gone.
func (s *server) idleTimeout() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || len(s.live) > 0 || s.calls > 0 {
		return
	}
	var here unix.Stat_t
	gone := unix.Stat(s.control.ProcPath(), &here) == nil && here.Nlink == 0
	if !gone && s.save() != nil {
		s.startIdleTimeout()
		return
	}
	s.quit = true
	s.endIfIdle()
}

// terminate stops all tasks: somebody wants the supervisor itself to end.
func (s *server) terminate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quit, s.used = true, true
	for _, p := range s.live {
		p.stop(unix.SIGTERM, terminateMax)
	}
	s.endIfIdle()
}
