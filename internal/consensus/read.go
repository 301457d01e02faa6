package consensus

import (
	"context"
	"fmt"
	"sync"

	"berth/internal/failpoint"
	"berth/internal/state"
)

// Verify returns nil if this server led, in one and the same term that had
// begun, from the call on until a moment after it: a majority said so. Calls
// that wait at once share one round. The error wraps state.ErrLost, or is the
// context's.
func (s *Server) Verify(ctx context.Context) error {
	term := s.leads.Load()
	if term == 0 {
		return state.ErrLost
	}
	if !s.shared { // there are no others to ask
		return nil
	}
	if failpoint.Hit("consensus/lease-read") != nil { // a defect that the fault runner must find
		return nil
	}
	if err := s.rounds.ask(ctx, s.verify); err != nil {
		return err
	}
	if s.leads.Load() != term {
		return fmt.Errorf("%w: leadership changed in the meantime", state.ErrLost)
	}
	return nil
}

// ReadIndex returns a state index that includes all that was answered anywhere
// before the call: a read of a state that has come this far, on any server, is
// linearisable. Only the leader knows; the others answer with ErrLost. The
// leader itself may have to wait for the index, too.
func (s *Server) ReadIndex(ctx context.Context) (uint64, error) {
	term := s.leads.Load()
	index := s.fsm.reach(s.raft().CommitIndex())
	if err := s.Verify(ctx); err != nil {
		return 0, err
	}
	// Noted in an earlier term of ours, the index may be older than what others
	// answered between the two.
	if term == 0 || s.leads.Load() != term {
		return 0, fmt.Errorf("%w: leadership changed in the meantime", state.ErrLost)
	}
	return index, nil
}

func (s *Server) verify() error { return lost(s.raft().VerifyLeader().Error()) }

// rounds lets callers share what costs a round trip to a majority: who comes
// while a round is under way waits for the next one, with all others who do.
type rounds struct {
	mu      sync.Mutex
	next    *round
	running bool
	closed  bool
	idle    sync.WaitGroup
}

type round struct {
	done chan struct{}
	err  error
}

func (r *rounds) ask(ctx context.Context, verify func() error) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return state.ErrLost
	}
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	mine := r.next
	if !r.running {
		r.running = true
		r.idle.Go(func() { r.run(verify) })
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rounds) run(verify func() error) {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		if now == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		now.err = verify()
		close(now.done)
	}
}

// close refuses later calls and waits for those that wait.
func (r *rounds) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.idle.Wait()
}
