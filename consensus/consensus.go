// Package consensus brings commands into the replicated log and applies them:
// it is hashicorp/raft between package state, whose commands it carries, and
// package logstore, which keeps them on disk.
//
// On the leader a command is applied when it is staged, before it is in the
// log: its answer is known at once, refused commands never reach the log, and
// whoever decides next can decide on the state with all that is on its way.
// Everything staged while an entry is on its way goes into the next entry, so
// one disk write serves many callers. Nobody is told of an outcome before it
// is safe. When the entry is committed, the state that was worked out becomes
// the state; on the other servers, and after a restart, the commands of the
// entry are applied one by one to the same effect.
package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"berth/consensus/logstore"
	"berth/consensus/snapstore"
	"berth/state"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Config says how a server takes part.
type Config struct {
	Dir    string // everything durable is below it
	ID     string // of the server; it must not change
	Logger *slog.Logger

	// SnapshotEvery is how many entries may gather before the state is saved
	// and they are dropped; 0 is a default.
	SnapshotEvery uint64
	// Patience is how long an entry may wait until raft takes it; 0 is 30 s. A
	// disk that hangs for longer ends the term.
	Patience time.Duration
}

// Defaults of a server by itself. It is its own majority, so an election needs
// no patience.
const (
	soloTimeout   = 50 * time.Millisecond
	snapshotEvery = 8192
	snapshotsKept = 2
	patience      = 30 * time.Second
)

// Server is this server's part in the cluster.
type Server struct {
	config Config
	store  *state.Store
	log    *logstore.Store
	raft   *raft.Raft
	fsm    *fsm
	notify chan bool
}

// Open opens what is on disk and takes part in the cluster: as its only server
// if there is nothing on disk. The store is at the newest saved state when it
// returns; what the log has beyond that follows while Run runs.
func Open(c Config, store *state.Store) (*Server, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = snapshotEvery
	}
	c.Patience = cmp.Or(c.Patience, patience)
	log, err := logstore.Open(filepath.Join(c.Dir, "log"), logstore.Options{Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, store: store, log: log, notify: make(chan bool, 16)}
	s.fsm = &fsm{store: store, broken: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return s, nil
}

func (s *Server) open() error {
	if err := s.readable(); err != nil {
		return err
	}
	hl := hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Error, Output: &logWriter{s.config.Logger}, DisableTime: true})
	snaps, err := snapstore.Open(filepath.Join(s.config.Dir, "snapshots"), snapshotsKept, s.config.Logger)
	if err != nil {
		return err
	}
	for _, err := range snaps.Aside() {
		s.config.Logger.Error("a saved state cannot be used and was set aside", "error", err)
	}
	if err := snaps.Continues(s.log); err != nil {
		return err
	}
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(s.config.ID)
	conf.Logger = hl
	conf.NotifyCh = s.notify
	conf.SnapshotThreshold = s.config.SnapshotEvery
	// If the newest saved state is damaged, the one before it and the log
	// between the two must do.
	conf.TrailingLogs = s.config.SnapshotEvery
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = soloTimeout, soloTimeout, soloTimeout
	conf.CommitTimeout = soloTimeout / 10
	addr, transport := raft.NewInmemTransport(raft.ServerAddress(s.config.ID))
	known, err := raft.HasExistingState(s.log, s.log, snaps)
	if err != nil {
		return err
	}
	if !known {
		self := raft.Configuration{Servers: []raft.Server{{ID: conf.LocalID, Address: addr}}}
		if err := raft.BootstrapCluster(conf, s.log, s.log, snaps, transport, self); err != nil {
			return fmt.Errorf("raft: bootstrap: %w", err)
		}
	}
	s.raft, err = raft.NewRaft(conf, s.fsm, s.log, s.log, snaps, transport)
	if err != nil {
		return fmt.Errorf("raft: %w", err)
	}
	return nil
}

// readable refuses to start on a log that holds a command which this build
// does not know: to find that out mid-run would be too late.
func (s *Server) readable() error {
	first, err := s.log.FirstIndex()
	if err != nil || first == 0 {
		return err
	}
	last, err := s.log.LastIndex()
	if err != nil {
		return err
	}
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := s.log.GetLog(i, &l); err != nil {
			return err
		}
		if l.Type != raft.LogCommand {
			continue
		}
		if _, err := state.DecodeEntry(l.Data); err != nil {
			return fmt.Errorf("raft log entry %d: %w", i, err)
		}
	}
	return nil
}

// A Term is this server's leadership, from its beginning to its end.
type Term struct {
	Number uint64
	Log    state.Log
}

// Run takes part until ctx ends or the disk fails. Whenever this server leads,
// it calls lead with a context that ends with the term, and waits for it to
// return.
func (s *Server) Run(ctx context.Context, lead func(context.Context, Term) error) error {
	defer s.close()
	for {
		select {
		case leads := <-s.notify:
			if !leads {
				continue
			}
			// A term can also end because an entry got stuck. Raft sends no news
			// of that: it leads on, and so must we.
			for again := true; again; again = s.Leader() && ctx.Err() == nil {
				if err := s.term(ctx, lead); err != nil {
					return err
				}
			}
		case <-s.log.Failed():
			return s.log.Err()
		case <-s.fsm.broken:
			return s.fsm.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// term leads from the moment that leadership is gained until it is lost.
func (s *Server) term(ctx context.Context, lead func(context.Context, Term) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // the term ends with the leadership, the disk, or the server
		select {
		case <-s.lost(stop):
			end(state.ErrLost)
		case <-s.log.Failed():
			end(s.log.Err())
		case <-s.fsm.broken:
			end(s.fsm.err)
		case <-stop:
		}
	}()
	// Everything of former terms is applied before anything is decided.
	if err := s.raft.Barrier(s.config.Patience).Error(); err != nil {
		s.config.Logger.Warn("leadership was lost before it began", "error", err)
		return nil
	}
	base := s.store.Snapshot()
	number := max(s.raft.CurrentTerm(), base.Term+1) // two of ours can be one of raft's
	p := newProposer(s.raft, s.fsm, s.config.Patience, base)
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	err := s.begin(ctx, p, number, lead)
	end(err)
	<-done
	s.fsm.forget()
	if cause := s.log.Err(); cause != nil {
		return cause
	}
	if s.fsm.err != nil {
		return s.fsm.err
	}
	if errors.Is(err, context.Canceled) || errors.Is(context.Cause(ctx), state.ErrLost) {
		return nil // the loop above sees whether the server is to end
	}
	return err
}

func (s *Server) begin(ctx context.Context, p *proposer, number uint64, lead func(context.Context, Term) error) error {
	if _, err := p.Propose(ctx, &state.BeginTerm{Term: number}); err != nil {
		return err
	}
	s.config.Logger.Info("this server leads", "term", number)
	return lead(ctx, Term{number, p})
}

// lost is closed when leadership is lost. News that it was gained again is
// kept for the loop in Run.
func (s *Server) lost(stop <-chan struct{}) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		for {
			select {
			case leads := <-s.notify:
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

func (s *Server) close() {
	if err := s.raft.Shutdown().Error(); err != nil {
		s.config.Logger.Warn("raft did not shut down", "error", err)
	}
	if err := s.log.Close(); err != nil {
		s.config.Logger.Warn("the raft log did not close", "error", err)
	}
}

// Leader says whether this server leads.
func (s *Server) Leader() bool { return s.raft.State() == raft.Leader }

// Stats are figures of the log for metrics.
type Stats struct {
	Term, LastIndex, AppliedIndex uint64
	Appended                      uint64 // bytes handed to the log since the start
	OnDisk                        int64  // bytes of its files now
}

// Stats returns figures of the log.
func (s *Server) Stats() Stats {
	appended, onDisk, _ := s.log.Bytes()
	return Stats{s.raft.CurrentTerm(), s.raft.LastIndex(), s.raft.AppliedIndex(), appended, onDisk}
}

// Save writes the state to disk now and drops the log before it.
func (s *Server) Save() error {
	err := s.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// logWriter hands what the library logs to ours.
type logWriter struct{ log *slog.Logger }

// Write implements io.Writer for lines such as "[WARN]  raft: text".
func (w *logWriter) Write(b []byte) (int, error) {
	level, text := slog.LevelWarn, string(b)
	if len(text) > 7 && text[:7] == "[ERROR]" {
		level = slog.LevelError
	}
	w.log.Log(context.Background(), level, trimLine(text))
	return len(b), nil
}

func trimLine(s string) string {
	for len(s) > 0 && (s[len(s)-1] == '\n' || s[len(s)-1] == ' ') {
		s = s[:len(s)-1]
	}
	if len(s) > 8 && s[0] == '[' {
		s = s[8:]
	}
	return s
}

var _ io.Writer = (*logWriter)(nil)
