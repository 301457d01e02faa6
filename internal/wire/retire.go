package wire

import "time"

// retirement is what a session knows of its end to come. Guarded by the session's
// mu.
type retirement struct {
	busy    int  // calls and streams in progress, of both ends
	retired bool // Retire was called
}

// Retire ends the session once neither end has had a call or a stream in progress
// on it for five seconds: what has begun ends as it would have without Retire,
// and a far end that has not heard of a newer session yet may still begin
// something. It returns at once; Done tells of the end.
func (s *Session) Retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.endIfIdle()
}

// begin counts a call or a stream until end is called.
func (s *Session) begin() {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
}

// end ends what begin began.
func (s *Session) end() {
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
	s.endIfIdle()
}

// endIfIdle ends a retired session that is idle now, and still is some time later.
func (s *Session) endIfIdle() {
	idle := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.retired && s.busy == 0
	}
	if idle() {
		time.AfterFunc(s.server.cfg.retireTime, func() {
			if idle() {
				_ = s.shut()
			}
		})
	}
}

// busy counts a call or a stream of the far end until done is called.
func (p *Peer) busy() (done func()) {
	if p.session == nil {
		return func() {}
	}
	p.session.begin()
	return p.session.end
}
