// Package consensus brings commands into the replicated log and applies them.
// It runs hashicorp/raft between package state, whose commands the log carries,
// and package logstore, which keeps them on disk.
//
// The leader applies a command when it is staged, before it is in the log. So
// its result is known at once, refused commands never reach the log, and the
// next decision is made on a state that includes everything not yet committed.
// Everything staged while one entry is being committed goes into the next
// entry, so one disk write serves many callers. No outcome is reported before
// it is committed. When the entry is committed, the state that the leader
// computed becomes the state. On the other servers, and after a restart, the
// commands of the entry are applied one by one, with the same result.
package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"berth/op"

	"github.com/hashicorp/raft"
)

// Config configures a server's part in the cluster.
type Config struct {
	Dir    string // directory of everything durable
	ID     string // of the server; must not change
	Logger *slog.Logger

	// Transport connects to the other servers. Run closes it before it returns.
	// A server with a nil Transport stays alone forever: it bootstraps a
	// cluster of itself.
	Transport raft.Transport
	// Timing between servers; zero fields get defaults. A server that stays
	// alone has its own timing.
	Timing Timing

	// SnapshotEvery is the number of log entries after which the state is saved
	// and older entries are dropped; 0 means 8192.
	SnapshotEvery uint64
	// SnapshotInterval is how often the number of entries is checked, drawn
	// between this and twice this. 0 means two minutes.
	SnapshotInterval time.Duration
	// TrailingLogs is how many entries before a snapshot are kept, for servers
	// that lag and in case the newest snapshot is damaged. It is at least
	// SnapshotEvery.
	TrailingLogs uint64
	// Patience is how long an entry may wait until raft takes it; 0 means 30 s.
	// A disk that hangs for longer ends the term, unless this server is the only
	// voter.
	Patience time.Duration

	// Reserve is the free disk space, in bytes, below which this server does
	// not lead unless it is alone. 0 means a hundredth of the disk, but 64 to
	// 256 MiB. Below half of it, and below 32 MiB at most, nothing is written.
	Reserve uint64
	// DiskSpace returns the free space and the size of the disk that holds a
	// directory, in bytes; nil asks the operating system.
	DiskSpace func(dir string) (free, size uint64, err error)

	// CompareEvery is how often the servers compare their states; 0 means ten
	// minutes.
	CompareEvery time.Duration
	// Exchange passes this server's ballot to another server's method of that
	// name and returns the answer. nil means that no other server answers.
	Exchange func(ctx context.Context, with Peer, own op.Ballot) (op.Ballot, error)

	// Allow is asked before the first command of a log version is proposed;
	// what names the command. It refuses with an error that has a kind, wraps
	// state.ErrLogVersion and names the server that does not support the
	// version. It is called while the log is locked and must not use the log.
	// nil means that all servers support what this build supports.
	Allow func(what string, version int) error
	// Mixed reports whether a server of the cluster has another log version
	// than this one. Hashes differ between builds, so states are not compared
	// then. nil means that none has.
	Mixed func() bool
}

// Timing holds the time limits between servers.
type Timing struct {
	Heartbeat time.Duration // a follower that hears nothing for this long campaigns
	Election  time.Duration // a campaign without a result starts again after this long
	Lease     time.Duration // a leader that reaches no majority for this long steps down
	Commit    time.Duration // a follower hears of commits at least this often
}

// Multiplied returns the default timing with all waits multiplied by a factor
// (the option raft_multiplier).
func Multiplied(factor int) Timing {
	t, f := clusterTiming, time.Duration(max(factor, 1))
	return Timing{t.Heartbeat * f, t.Election * f, t.Lease * f, t.Commit}
}

// Defaults. A server by itself is its own majority, so its elections can be
// quick.
const (
	// snapshotEvery counts entries. patience bounds the wait for Raft to accept
	// an entry.
	soloTimeout   = 50 * time.Millisecond
	snapshotEvery = 8192
	snapshotsKept = 2
	patience      = 30 * time.Second
	termPause     = 10 * time.Millisecond // between two of our terms within one of raft's
)

var (
	// The fields are Heartbeat, Election, Lease and Commit.
	soloTiming    = Timing{soloTimeout, soloTimeout, soloTimeout, soloTimeout / 10}
	clusterTiming = Timing{time.Second, time.Second, time.Second / 2, 50 * time.Millisecond}
)

// or returns t with zero fields taken from d.
func (t Timing) or(d Timing) Timing {
	return Timing{cmp.Or(t.Heartbeat, d.Heartbeat), cmp.Or(t.Election, d.Election), cmp.Or(t.Lease, d.Lease), cmp.Or(t.Commit, d.Commit)}
}

// Server is this server's part in the cluster.
type Server struct {
	config     Config
	shared     bool // there may be other servers
	opened     time.Time
	store      *state.Store
	fsm        *fsm
	link       *link
	guard      *guard
	rounds     rounds
	now        atomic.Pointer[node]
	leadership chan struct{} // holds a token after a change of leadership

	leads atomic.Pointer[lease] // the term that this server leads; nil if it leads none, or the term has not begun
	// complete is true from the beginning of this server's first term. While it
	// is alone its state then has everything that was ever answered.
	complete atomic.Bool
	diskErr  atomic.Pointer[berth.Error]             // see DiskError; nil: none
	asked    atomic.Uint64                           // questions to the majority, since the start
	end      atomic.Pointer[context.CancelCauseFunc] // ends the current term

	notices     sync.WaitGroup
	restores    chan *restore // received while a term lasts
	comparer    *comparer
	voter       *voter                        // nil if there are no other servers, like comparer
	halt        atomic.Pointer[chan struct{}] // closed before raft is shut down, to end waits of the fsm
	refillUntil atomic.Uint64                 // the entry up to which this server must be refilled; 0 if it has everything
}

// node is a running raft and its storage. After a full disk there is a new one.
type node struct {
	raft  *raft.Raft
	log   *logstore.Store
	disk  *disk
	snaps *snapstore.Store
	// notify receives true when Raft gains leadership, false when it loses it.
	notify chan bool
}

// raft returns the running Raft node. It changes when the node is restarted, so
// callers do not keep it.
func (s *Server) raft() *raft.Raft { return s.now.Load().raft }

// Open opens what is on disk and takes part in the cluster. When it returns,
// the store holds the newest saved state; newer log entries are applied while
// Run runs. Without a transport and with nothing on disk the server bootstraps
// a cluster of itself. With a transport it waits for Bootstrap or for a leader.
func Open(c Config, store *state.Store) (*Server, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.SnapshotEvery = cmp.Or(c.SnapshotEvery, snapshotEvery)
	c.SnapshotInterval = cmp.Or(c.SnapshotInterval, raft.DefaultConfig().SnapshotInterval)
	// If the newest saved state is damaged, the one before it and the log
	// between the two must be enough.
	c.TrailingLogs = max(c.TrailingLogs, c.SnapshotEvery)
	c.Patience = cmp.Or(c.Patience, patience)
	c.CompareEvery = cmp.Or(c.CompareEvery, compareEvery)
	s := &Server{config: c, shared: c.Transport != nil, store: store, opened: time.Now(), restores: make(chan *restore), leadership: make(chan struct{}, 1)}
	s.guard = &guard{dir: c.Dir, reserve: c.Reserve, statDisk: c.DiskSpace}
	if c.DiskSpace == nil {
		s.guard.statDisk = diskSpace
	}
	if s.shared {
		s.config.Timing = c.Timing.or(clusterTiming)
	} else {
		s.config.Timing = soloTiming
		_, s.config.Transport = raft.NewInmemTransport(raft.ServerAddress(c.ID))
	}
	s.fsm = &fsm{store: store, log: c.Logger, broken: make(chan struct{})}
	s.link = newLink(s.config.Transport)
	if s.shared {
		s.voter = newVoter(s)
		s.comparer = newComparer(s.voter.hashed)
		s.fsm.published, s.fsm.disputed, s.fsm.replaced = s.comparer.note, s.voter.dispute, s.voter.replaced
	}
	s.removeLeftovers()
	err := s.beginRefill()
	if err == nil && s.shared {
		err = s.voter.loadVoid()
	}
	if err == nil {
		err = s.recoverPeers()
	}
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, errors.Join(err, s.link.close())
	}
	s.electAlone()
	return s, nil
}

// open starts a node from what is on disk.
func (s *Server) open() error {
	log, err := logstore.Open(filepath.Join(s.config.Dir, "log"), logstore.Options{Logger: s.config.Logger})
	if err != nil {
		return err
	}
	n := &node{log: log, notify: make(chan bool, 16)}
	n.disk = &disk{Store: log, guard: s.guard, id: s.config.ID, holds: &s.link.kept, trailing: s.config.TrailingLogs, closing: make(chan struct{})}
	halt := make(chan struct{})
	s.halt.Store(&halt)
	s.fsm.halted.Store(false)
	if err := s.start(n); err != nil {
		return errors.Join(err, log.Close())
	}
	has, member := n.has, func() bool { is, _ := s.Member(); return is }
	s.link.hasApplied.Store(&has)
	s.now.Store(n)
	s.observe(n.raft)
	s.link.isMember.Store(&member)
	s.link.ended.Store(false)
	return nil
}

// has reports whether this server has applied an entry. An entry that the log
// no longer holds is part of a saved state.
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
	// Raft must not see damaged snapshots.
	for _, err := range n.snaps.SetAside() {
		s.config.Logger.Error("a damaged saved state was set aside", "error", err)
	}
	if err := n.snaps.Continues(n.log); err != nil {
		return err
	}
	// Raft would take an older one, or report that none can be loaded.
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
		conf.NoSnapshotRestoreOnStart = true // after a full disk: the state in memory is newer
	}
	// A server that shares its log is given its configuration from outside; one
	// that is alone makes its own.
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
	n.raft, err = raft.NewRaft(conf, s.fsm, n.disk, n.disk, s.snapshots(n), s.link)
	if err != nil {
		return fmt.Errorf("raft: %w", err)
	}
	return nil
}

// raftConfig returns the configuration of Raft for n: the library's defaults
// with the timing and the snapshot settings of this server.
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
	// A removed server stays up, because it can be added again.
	conf.ShutdownOnRemove = false
	conf.NoLegacyTelemetry = true
	return conf
}

// readable fails if the log holds a command that this build does not know. It
// is better to find that out at the start than later.
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

// Run takes part in the cluster until ctx ends or the disk fails. Whenever this
// server becomes leader, Run calls lead with a context that ends with the term,
// and waits for it to return.
func (s *Server) Run(ctx context.Context, lead func(context.Context, Term) error) error {
	defer s.close()
	watch, stop := context.WithCancel(ctx)
	var watches sync.WaitGroup
	watches.Go(func() { s.watchDisk(watch) })
	if s.shared {
		watches.Go(func() { s.comparer.run(watch) })
		watches.Go(func() { s.voter.run(watch) })
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

// serve runs one node until it fails or ctx ends.
func (s *Server) serve(ctx context.Context, n *node, lead func(context.Context, Term) error) error {
	for {
		select {
		case leads := <-n.notify:
			if !leads {
				continue
			}
			// A term can also end because an entry got stuck. Raft does not
			// announce that: it still leads, so a new term must begin.
			for again := true; again; again = s.Leader() && ctx.Err() == nil {
				if err := s.term(ctx, n, lead); err != nil {
					return err
				}
				select { // a leader that is handing over leadership refuses everything at once
				case <-time.After(termPause):
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

// close stops raft and everything below it.
func (s *Server) close() {
	s.rounds.close()
	s.shut(s.now.Load())
	if err := s.link.close(); err != nil {
		s.config.Logger.Warn("cannot close the transport to the other servers", "error", err)
	}
	s.notices.Wait()
}

// shut stops a node.
func (s *Server) shut(n *node) {
	s.link.ended.Store(true)
	close(*s.halt.Load())
	down := n.raft.Shutdown()
	n.disk.release()
	if err := down.Error(); err != nil {
		s.config.Logger.Warn("raft shutdown failed", "error", err)
	}
	s.link.drained() // a heartbeat may write a term, and raft panics if it cannot
	if err := n.log.Close(); err != nil {
		s.config.Logger.Warn("cannot close the raft log", "error", err)
	}
}

// Leader reports whether this server leads.
func (s *Server) Leader() bool { return s.raft().State() == raft.Leader }

// Stats are figures of the log for metrics.
type Stats struct {
	Term, LastIndex, AppliedIndex uint64
	Appended                      uint64 // bytes written to the log since the start
	OnDisk                        int64  // size of its files in bytes
}

// Stats returns figures of the log.
func (s *Server) Stats() Stats {
	n := s.now.Load()
	appended, onDisk, _ := n.log.Bytes()
	return Stats{n.raft.CurrentTerm(), n.raft.LastIndex(), n.raft.AppliedIndex(), appended, onDisk}
}

// LogRange returns the first and the last entry of the log on disk.
func (s *Server) LogRange() (first, last uint64) {
	n := s.now.Load()
	first, _ = n.log.FirstIndex()
	last, _ = n.log.LastIndex()
	return first, last
}

// Save writes the state to disk now and drops older log entries.
func (s *Server) Save() error {
	err := s.raft().Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}
