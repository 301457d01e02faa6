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
	"sync"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/consensus/logstore"
	"berth/internal/consensus/snapstore"
	"berth/internal/state"
	"berth/internal/state/codec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Config says how a server takes part.
type Config struct {
	Dir    string // everything durable is below it
	ID     string // of the server; it must not change
	Logger *slog.Logger

	// Transport leads to the other servers; it is closed when Run returns. nil
	// is a server that is alone for ever: it makes itself the cluster.
	Transport raft.Transport
	// Timing between servers; zero fields are defaults. A server that is alone
	// for ever has its own.
	Timing Timing

	// SnapshotEvery is how many entries may gather before the state is saved
	// and those before them are dropped; 0 is a default.
	SnapshotEvery uint64
	// SnapshotInterval is how often it is seen whether so many have gathered;
	// it is drawn between this and twice this. 0 is two minutes.
	SnapshotInterval time.Duration
	// TrailingLogs is how many entries before a snapshot are kept for servers
	// that lag, and for the case that the newest snapshot is damaged, so never
	// fewer than SnapshotEvery; 0 is that.
	TrailingLogs uint64
	// Patience is how long an entry may wait until raft takes it; 0 is 30 s. A
	// disk that hangs for longer ends the term.
	Patience time.Duration

	// Reserve is the room, in bytes, below which this server does not lead if it
	// is not alone; 0 is a hundredth of the disk, 64 to 256 MiB. Below half of
	// it, at the most 32 MiB, nothing is written.
	Reserve uint64
	// Room says how much room the disk of a folder has; nil asks the operating
	// system.
	Room func(dir string) (free, size uint64, err error)

	// CompareEvery is how often the states of the servers are compared; 0 is
	// ten minutes.
	CompareEvery time.Duration

	// Allow is asked before the first command of a dialect is proposed, of which
	// what says what it is of: an error, which has a kind and wraps
	// state.ErrLogVersion, says which server does not know it. It is called while the
	// log is locked, and must ask nothing of it. nil: all know what this build
	// knows.
	Allow func(what string, dialect int) error
	// Mixed says whether a server of the cluster knows another dialect than this
	// one. Builds have hashes of their own, so states are not compared then. nil:
	// none does.
	Mixed func() bool
}

// Timing is how patient servers are with each other.
type Timing struct {
	Heartbeat time.Duration // a follower that hears nothing for so long campaigns
	Election  time.Duration // a campaign without end begins anew after so long
	Lease     time.Duration // a leader that reaches no majority for so long steps down
	Commit    time.Duration // a follower hears of commits at least so often
}

// Multiplied returns the default timing, slower by a factor: raft_multiplier.
func Multiplied(factor int) Timing {
	t, f := severalTiming, time.Duration(max(factor, 1))
	return Timing{t.Heartbeat * f, t.Election * f, t.Lease * f, t.Commit}
}

// Defaults. A server by itself is its own majority, so an election needs no
// patience.
const (
	soloTimeout   = 50 * time.Millisecond
	snapshotEvery = 8192
	snapshotsKept = 2
	patience      = 30 * time.Second
	breath        = 10 * time.Millisecond // between two terms of ours in one of raft's
)

var (
	soloTiming    = Timing{soloTimeout, soloTimeout, soloTimeout, soloTimeout / 10}
	severalTiming = Timing{time.Second, time.Second, time.Second / 2, 50 * time.Millisecond}
)

// or returns t with the zero fields from d.
func (t Timing) or(d Timing) Timing {
	return Timing{cmp.Or(t.Heartbeat, d.Heartbeat), cmp.Or(t.Election, d.Election), cmp.Or(t.Lease, d.Lease), cmp.Or(t.Commit, d.Commit)}
}

// Server is this server's part in the cluster.
type Server struct {
	config Config
	shared bool // there can be other servers
	opened time.Time
	store  *state.Store
	fsm    *fsm
	link   *link
	guard  *guard
	rounds rounds
	now    atomic.Pointer[node]
	news   chan struct{} // holds a token after a change of leadership

	leads atomic.Uint64                           // the term that this server leads; 0: none, or it has not begun
	end   atomic.Pointer[context.CancelCauseFunc] // of the term in hand

	notices  sync.WaitGroup
	restores chan *restore // taken while a term lasts
	comparer *comparer
	until    atomic.Uint64 // the entry up to which this server must be filled; 0: it has all
}

// node is raft and what it stands on. After a full disk there is a new one.
type node struct {
	raft   *raft.Raft
	log    *logstore.Store
	disk   *disk
	snaps  *snapstore.Store
	notify chan bool
}

func (s *Server) raft() *raft.Raft { return s.now.Load().raft }

// Open opens what is on disk and takes part in the cluster. The store is at the
// newest saved state when it returns; what the log has beyond that follows
// while Run runs. Without a transport and with nothing on disk the server makes
// itself the cluster; with one it waits until Bootstrap or a leader tells it.
func Open(c Config, store *state.Store) (*Server, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.SnapshotEvery = cmp.Or(c.SnapshotEvery, snapshotEvery)
	c.SnapshotInterval = cmp.Or(c.SnapshotInterval, raft.DefaultConfig().SnapshotInterval)
	// If the newest saved state is damaged, the one before it and the log
	// between the two must do.
	c.TrailingLogs = max(c.TrailingLogs, c.SnapshotEvery)
	c.Patience = cmp.Or(c.Patience, patience)
	c.CompareEvery = cmp.Or(c.CompareEvery, compareEvery)
	s := &Server{config: c, shared: c.Transport != nil, store: store, opened: time.Now(), restores: make(chan *restore), news: make(chan struct{}, 1)}
	s.guard = &guard{dir: c.Dir, reserve: c.Reserve, ask: c.Room, start: time.Now()}
	if c.Room == nil {
		s.guard.ask = diskRoom
	}
	if s.shared {
		s.config.Timing = c.Timing.or(severalTiming)
	} else {
		s.config.Timing = soloTiming
		_, s.config.Transport = raft.NewInmemTransport(raft.ServerAddress(c.ID))
	}
	s.fsm = &fsm{store: store, log: c.Logger, broken: make(chan struct{})}
	s.link = newLink(s.config.Transport)
	if s.shared {
		s.comparer = newComparer(s.differs)
		s.fsm.published, s.fsm.differs = s.comparer.note, s.differs
	}
	s.removeRemains()
	err := s.beginRefill()
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, errors.Join(err, s.link.close())
	}
	s.electAlone()
	return s, nil
}

// open makes a node of what is on disk.
func (s *Server) open() error {
	log, err := logstore.Open(filepath.Join(s.config.Dir, "log"), logstore.Options{Logger: s.config.Logger})
	if err != nil {
		return err
	}
	n := &node{log: log, notify: make(chan bool, 16)}
	n.disk = &disk{Store: log, guard: s.guard, id: s.config.ID, closing: make(chan struct{})}
	if err := s.start(n); err != nil {
		return errors.Join(err, log.Close())
	}
	has, member := n.has, func() bool { is, _ := s.Member(); return is }
	s.link.has.Store(&has)
	s.now.Store(n)
	s.observe(n.raft)
	s.link.member.Store(&member)
	s.link.ended.Store(false)
	return nil
}

// has says whether an entry was applied here. One that the log does not hold
// any more is in a saved state.
func (n *node) has(index, term uint64) bool {
	if index > n.raft.AppliedIndex() {
		return false
	}
	var l raft.Log
	err := n.log.GetLog(index, &l)
	return errors.Is(err, raft.ErrLogNotFound) || err == nil && l.Term == term
}

// start starts raft on a log.
func (s *Server) start(n *node) error {
	if err := readable(n.log); err != nil {
		return err
	}
	var err error
	n.snaps, err = snapstore.Open(filepath.Join(s.config.Dir, "snapshots"), snapshotsKept, s.config.Logger)
	if err != nil {
		return err
	}
	for _, err := range n.snaps.Aside() {
		s.config.Logger.Error("a saved state cannot be used and was set aside", "error", err)
	}
	if err := n.snaps.Continues(n.log); err != nil {
		return err
	}
	// The library would take an older one, or say that none can be loaded.
	if line := n.snaps.FirstLine(); line != "" {
		if _, err := codec.ReadableVersion(line); berth.KindOf(err) == berth.Unavailable {
			return fmt.Errorf("the newest saved state in %s was written by a newer build: %w", filepath.Join(s.config.Dir, "snapshots"), err)
		}
	}
	if err := n.snaps.Overtake(n.log); err != nil {
		return err
	}
	conf := s.raftConfig(n)
	if all, err := n.snaps.List(); err == nil && len(all) > 0 && all[0].Index <= s.fsm.applied.Load() {
		conf.NoSnapshotRestoreOnStart = true // after a full disk: the state is there, and further
	}
	known, err := raft.HasExistingState(n.log, n.log, n.snaps)
	if err != nil {
		return err
	}
	if !known && !s.shared {
		self := raft.Configuration{Servers: []raft.Server{{ID: conf.LocalID, Address: s.link.LocalAddr()}}}
		if err := raft.BootstrapCluster(conf, n.log, n.log, n.snaps, s.link, self); err != nil {
			return fmt.Errorf("raft: bootstrap: %w", err)
		}
	}
	n.raft, err = raft.NewRaft(conf, s.fsm, n.disk, n.disk, &snapshots{n.snaps, s.guard, s.link}, s.link)
	if err != nil {
		return fmt.Errorf("raft: %w", err)
	}
	return nil
}

func (s *Server) raftConfig(n *node) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(s.config.ID)
	conf.Logger = logger(s.config.Logger)
	conf.NotifyCh = n.notify
	conf.SnapshotThreshold = s.config.SnapshotEvery
	conf.SnapshotInterval = s.config.SnapshotInterval
	conf.TrailingLogs = s.config.TrailingLogs
	t := s.config.Timing
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout, conf.CommitTimeout = t.Heartbeat, t.Election, t.Lease, t.Commit
	// A server that was removed stays up: it can be added again.
	conf.ShutdownOnRemove = false
	conf.NoLegacyTelemetry = true
	return conf
}

// readable refuses to start on a log that holds a command which this build
// does not know: to find that out mid-run would be too late.
func readable(log *logstore.Store) error {
	first, err := log.FirstIndex()
	if err != nil || first == 0 {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
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

// Run takes part until ctx ends or the disk fails. Whenever this server leads,
// it calls lead with a context that ends with the term, and waits for it to
// return.
func (s *Server) Run(ctx context.Context, lead func(context.Context, Term) error) error {
	defer s.close()
	watch, stop := context.WithCancel(ctx)
	var watches sync.WaitGroup
	watches.Go(func() { s.watchDisk(watch) })
	if s.comparer != nil {
		watches.Go(func() { s.comparer.run(watch) })
	}
	defer watches.Wait()
	defer stop()
	for {
		n := s.now.Load()
		if err := s.serve(ctx, n, lead); !full(n.log.Err()) || s.fsm.failure() != nil || ctx.Err() != nil {
			return err
		}
		if err := s.reopen(ctx, n); err != nil {
			return err
		}
	}
}

// serve takes part with one node.
func (s *Server) serve(ctx context.Context, n *node, lead func(context.Context, Term) error) error {
	for {
		select {
		case leads := <-n.notify:
			if !leads {
				continue
			}
			// A term can also end because an entry got stuck. Raft sends no news
			// of that: it leads on, and so must we.
			for again := true; again; again = s.Leader() && ctx.Err() == nil {
				if err := s.term(ctx, n, lead); err != nil {
					return err
				}
				select { // a leader that is handing over refuses everything at once
				case <-time.After(breath):
				case <-ctx.Done():
				}
			}
		case <-n.log.Failed():
			return n.log.Err()
		case <-s.fsm.broken:
			return s.fsm.failure()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close ends raft and all below it.
func (s *Server) close() {
	s.rounds.close()
	s.shut(s.now.Load())
	if err := s.link.close(); err != nil {
		s.config.Logger.Warn("the way to the other servers did not close", "error", err)
	}
	s.notices.Wait()
}

// shut ends a node.
func (s *Server) shut(n *node) {
	s.link.ended.Store(true)
	down := n.raft.Shutdown()
	n.disk.let()
	if err := down.Error(); err != nil {
		s.config.Logger.Warn("raft did not shut down", "error", err)
	}
	if err := n.log.Close(); err != nil {
		s.config.Logger.Warn("the raft log did not close", "error", err)
	}
}

// Leader says whether this server leads.
func (s *Server) Leader() bool { return s.raft().State() == raft.Leader }

// Stats are figures of the log for metrics.
type Stats struct {
	Term, LastIndex, AppliedIndex uint64
	Appended                      uint64 // bytes handed to the log since the start
	OnDisk                        int64  // bytes of its files now
}

// Stats returns figures of the log.
func (s *Server) Stats() Stats {
	n := s.now.Load()
	appended, onDisk, _ := n.log.Bytes()
	return Stats{n.raft.CurrentTerm(), n.raft.LastIndex(), n.raft.AppliedIndex(), appended, onDisk}
}

// Save writes the state to disk now and drops the log before it.
func (s *Server) Save() error {
	err := s.raft().Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// logger returns the library's logger over ours.
func logger(log *slog.Logger) hclog.Logger {
	if log == nil {
		log = slog.Default()
	}
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Error, Output: &logWriter{log}, DisableTime: true})
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
