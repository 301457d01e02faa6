package consensus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/state"
	"berth/internal/state/codec"
)

// A Term is the time during which this server leads.
type Term struct {
	Number uint64
	Log    state.Log
	// Confirm returns nil once a majority has confirmed, after the call, that
	// this server has led without interruption since the term began. It is
	// asked before anything is answered that was decided on a committed state
	// without a command. The error wraps state.ErrLost, and nothing was done.
	Confirm func(context.Context) error
}

// errHung ends the term of a leader whose disk hangs.
var errHung = fmt.Errorf("%w: a write to the disk takes longer than %s", state.ErrLost, hangs)

// term leads from the moment that leadership is gained until it is lost.
func (s *Server) term(ctx context.Context, n *node, lead func(context.Context, Term) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.end.Store(&end)
	defer s.end.Store(nil)
	stop := make(chan struct{})
	var req *restore
	var watch sync.WaitGroup
	// A restore waits for the term's end, because nothing may be proposed while
	// the state is replaced.
	defer func() {
		close(stop)
		watch.Wait()
		if req != nil {
			req.done <- s.restore(n, req)
		}
	}()
	watch.Go(func() { // the term ends when leadership is lost, the disk fails, or the server stops
		select {
		case <-n.lost(stop):
			_ = failpoint.Hit("consensus/notice-lost") // a busy server may notice late: nothing that it answers meanwhile may be wrong
			end(state.ErrLost)
		case <-n.log.Failed():
			end(n.log.Err())
		case <-s.fsm.broken:
			end(s.fsm.failure())
		case req = <-s.restores:
			end(errRestore)
		case <-stop:
		}
	})
	if s.shared {
		if agreed := s.voter.agreed(); agreed != nil { // see vote.go
			select {
			case <-agreed:
			case <-ctx.Done():
				return s.endOf(n, nil)
			}
		}
	}
	// Everything of earlier terms is applied before anything is decided.
	if err := await(ctx, func() error { return n.raft.Barrier(s.config.Patience).Error() }); err != nil {
		if !errors.Is(context.Cause(ctx), context.Canceled) { // the server does not stop
			s.config.Logger.Warn("leadership was lost before it began", "error", err)
		}
		return s.endOf(n, nil)
	}
	base := s.store.Snapshot()
	number := max(n.raft.CurrentTerm(), base.Term+1) // two of our terms can fall within one of raft's
	p := newProposer(n.raft, s.fsm, &s.config, base)
	p.confirm, p.alone = s.askMajority, s.alone
	if s.shared {
		tell := s.newNoticer(n.raft)
		defer tell.close()
		p.landed = tell.notice
	}
	done := make(chan error, 1)
	go func() {
		lost := p.run(ctx)
		end(lost) // nothing can be proposed in this term any more, whether or not anybody tries
		done <- lost
	}()
	err := s.begin(ctx, n, p, number, lead)
	// Requests are refused first; then the proposer answers those that wait.
	s.leads.Store(nil)
	end(err)
	<-done
	s.fsm.forget()
	if errors.Is(err, context.Canceled) || errors.Is(context.Cause(ctx), state.ErrLost) {
		err = nil // Run's loop decides whether the server must end
	}
	return s.endOf(n, err)
}

// endOf returns why the server itself must end, nil if it need not.
func (s *Server) endOf(n *node, err error) error {
	if cause := n.log.Err(); cause != nil {
		return cause
	}
	if cause := s.fsm.failure(); cause != nil {
		return cause
	}
	return err
}

// begin starts this server's term: it commits the term's first command, then
// runs lead and the leader's own tasks until ctx ends. The first term that can
// assigns the ID of the cluster.
func (s *Server) begin(ctx context.Context, n *node, p *proposer, number uint64, lead func(context.Context, Term) error) error {
	first := &state.BeginTerm{Term: number}
	if s.store.Snapshot().Cluster.IsZero() {
		rand.Read(first.Cluster[:])
	}
	_, err := p.Propose(ctx, first)
	if errors.Is(err, state.ErrLogVersion) { // a later term assigns the cluster ID
		first = &state.BeginTerm{Term: number}
		_, err = p.Propose(ctx, first)
	}
	if err != nil {
		return err
	}
	raised, err := s.raise(ctx, p, number)
	if err != nil {
		return err
	}
	s.leads.Store(&lease{number, p.term})
	s.complete.Store(true)
	now := Term{Number: number, Log: p, Confirm: func(ctx context.Context) error { return s.confirm(ctx, number) }}
	s.config.Logger.Info("this server is the leader", "term", number)
	if s.shared {
		if err := s.correctAddress(ctx); err != nil {
			s.config.Logger.Warn("cannot correct the address of this server in the configuration", "error", err)
		}
		compares, stop := context.WithCancel(ctx)
		var compare sync.WaitGroup
		compare.Go(func() { s.proposeChecks(compares, now) })
		if !raised {
			compare.Go(func() { s.keepRaising(compares, p, number) })
		}
		defer compare.Wait()
		defer stop()
	}
	return lead(ctx, now)
}

// raiseEvery is how often a leader tries to raise the log version, once a server
// was too old for it. The last server of a rolling upgrade may come back without
// a new term.
const raiseEvery = time.Minute

// keepRaising raises the log version as soon as every server knows it.
func (s *Server) keepRaising(ctx context.Context, p *proposer, term uint64) {
	t := time.NewTicker(raiseEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if raised, err := s.raise(ctx, p, term); raised || err != nil {
			return // an error means that the term is over
		}
	}
}

// raise raises the log to this build's log version, and reports whether it has
// that version now. It has not while some server is too old for it.
func (s *Server) raise(ctx context.Context, p *proposer, term uint64) (bool, error) {
	if s.store.Snapshot().LogVersion >= codec.LogVersion {
		return true, nil
	}
	c := &state.RaiseLogVersion{To: codec.LogVersion}
	c.Stamp(term)
	_, err := p.Propose(ctx, c)
	if errors.Is(err, state.ErrLogVersion) || berth.KindOf(err) == berth.Limited {
		return false, nil
	}
	return err == nil, err
}

// correctAddress updates this server's address in the configuration. A log from
// the time when the server was alone has a name in place of the address.
func (s *Server) correctAddress(ctx context.Context) error {
	peers, err := s.Peers()
	if err != nil {
		return err
	}
	here := string(s.link.LocalAddr())
	for _, p := range peers {
		if p.ID == s.config.ID && p.Address != here {
			s.config.Logger.Info("changing the address of this server", "from", p.Address, "to", here)
			return s.AddVoter(ctx, Peer{ID: p.ID, Address: here})
		}
	}
	return nil
}

// lost returns a channel that is closed when leadership is lost. If it was
// gained again, that news remains for the loop in Run.
func (n *node) lost(stop <-chan struct{}) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		for {
			select {
			case leads := <-n.notify:
				if !leads {
					close(out)
					return
				}
			case <-stop:
				return
			}
		}
	}()
	return out
}
