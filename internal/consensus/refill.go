package consensus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/consensus/logstore"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// ErrDiffers ends a server whose state differs from that of a majority.
var ErrDiffers = errors.New("the state of this server differs from that of the cluster")

// A server that finds that its state differs starts over. At its next start its
// log and snapshots are set aside and the leader refills it. It had
// acknowledged the entries that it forgets this way. So until it has all of
// them again it neither votes nor campaigns: a majority that counts on it could
// lose what was committed. It keeps its term and vote.

// refill is the content of the file of that name. The file exists from the
// moment that a refill becomes necessary until it is complete.
type refill struct {
	Reason string
	Until  uint64 // the last entry that it had; 0 if its data is not set aside yet
}

const (
	refillName   = "refill.json"
	setAsideName = "differs" // the directory of the data that was set aside
)

// stableKeys are the keys of raft's stable store.
var stableKeys = []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand"}

// differs takes this server out of the cluster.
func (s *Server) differs(err error) {
	if noted := s.mustRefill(err); noted != nil {
		err = fmt.Errorf("%w; this cannot be recorded on disk, so remove the server's data: %w", err, noted)
	}
	s.fsm.fail(err)
}

// path returns the path of a file in the directory of this server.
func (s *Server) path(names ...string) string {
	return filepath.Join(append([]string{s.config.Dir}, names...)...)
}

// mustRefill records on disk that this server must be refilled.
func (s *Server) mustRefill(reason error) error {
	if err := os.RemoveAll(s.path(setAsideName)); err != nil {
		return err
	}
	return writeRefill(s.config.Dir, refill{Reason: reason.Error()})
}

// beginRefill sets the data aside if the file requires it. It may be repeated
// after a crash.
func (s *Server) beginRefill() error {
	r, err := readRefill(s.config.Dir)
	if err != nil || r == nil {
		return err
	}
	if !s.shared {
		err = errors.New("there are no other servers to refill this one from")
	} else if r.Until == 0 {
		err = s.setAside(r)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.path(refillName), err)
	}
	s.config.Logger.Warn("this server is being refilled from the leader and does not vote meanwhile", "reason", r.Reason, "until", r.Until, "aside", s.path(setAsideName))
	s.refillUntil.Store(r.Until)
	s.link.mayVote.Store(false)
	s.link.noCampaign.Store(true)
	return nil
}

// setAside moves the data away and creates an empty log that keeps the term and
// the vote.
func (s *Server) setAside(r *refill) error {
	if err := os.MkdirAll(s.path(setAsideName), 0o700); err != nil {
		return err
	}
	for _, name := range []string{"log", "snapshots"} {
		if _, err := os.Stat(s.path(setAsideName, name)); err == nil { // an earlier attempt came this far
			if err := os.RemoveAll(s.path(name)); err != nil {
				return err
			}
		} else if err := os.Rename(s.path(name), s.path(setAsideName, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// Without its term and vote the server could vote twice in one term.
	keys, last, err := s.setAsideKeys()
	if err != nil {
		return err
	}
	log, err := logstore.Open(s.path("log"), logstore.Options{Logger: s.config.Logger})
	if err != nil {
		return err
	}
	for k, v := range keys {
		err = errors.Join(err, log.Set([]byte(k), v))
	}
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	// Until it has caught up with what it held before, it must not lead.
	r.Until = last
	return writeRefill(s.config.Dir, *r)
}

// setAsideKeys reads the keys to keep from the log that was set aside, and the
// index of its last entry. The log may be damaged.
func (s *Server) setAsideKeys() (keys map[string][]byte, last uint64, err error) {
	required := uint64(0)
	log, err := logstore.Open(s.path(setAsideName, "log"), logstore.Options{Logger: s.config.Logger, Accept: func(_ *logstore.Store, l logstore.Loss) error {
		required = l.Required
		return nil
	}})
	if errors.Is(err, logstore.ErrDamaged) {
		brief, failed := logstore.Summarize(s.path(setAsideName, "log"))
		if failed == nil && brief.Exact {
			return brief.Keys, max(brief.Last, 1), nil
		}
	}
	if err != nil {
		return nil, 0, err
	}
	keys = map[string][]byte{}
	for _, k := range stableKeys {
		v, getErr := log.Get([]byte(k))
		if err = errors.Join(err, getErr); len(v) > 0 {
			keys[k] = v
		}
	}
	last, lastErr := lastEntry(log, s.path(setAsideName, "snapshots"))
	return keys, max(last, required, 1), errors.Join(err, lastErr, log.Close())
}

// lastEntry returns the last entry of a log and of the snapshots in a directory,
// which may reach further.
func lastEntry(log *logstore.Store, snapshots string) (uint64, error) {
	last, err := log.LastIndex()
	if err != nil {
		return 0, err
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(snapshots, snapshotsKept, hclog.NewNullLogger())
	if err != nil {
		return 0, err
	}
	all, err := snaps.List()
	for _, m := range all {
		last = max(last, m.Index)
	}
	return last, err
}

// endRefill lets this server vote again once its log reaches as far as before.
// Each entry came from a leader of this term or a later one, so everything that
// was committed with this server's help is among them.
func (s *Server) endRefill() {
	until := s.refillUntil.Load()
	r := s.raft()
	if until == 0 || r.LastIndex() < until || r.State() != raft.Follower {
		return
	}
	if err := os.Remove(s.path(refillName)); err != nil {
		s.config.Logger.Warn("cannot record the end of the refill", "error", err)
		return
	}
	s.refillUntil.Store(0)
	s.link.mayVote.Store(true)
	s.config.Logger.Info("the refill is complete; this server votes again", "entry", until)
}
