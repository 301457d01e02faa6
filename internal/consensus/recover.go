package consensus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"berth/internal/consensus/logstore"
	"berth/internal/consensus/snapstore"
	"berth/internal/durable"
	"berth/internal/state"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// What an operator decides about the data of a server that is stopped. Each
// function changes the directory of one server; the caller holds its lock.

// MarkForRefill makes a server set its log and snapshots aside at its next start
// and be refilled from the leader. It is for a server whose state is wrong, or
// whose log is damaged, in a cluster that has a leader without it.
func MarkForRefill(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "log")); err != nil {
		return fmt.Errorf("there is no log to set aside: %w", err)
	}
	if r, err := readRefill(dir); err != nil || r != nil {
		return errors.Join(err, alreadyRefilled(r))
	}
	if err := os.RemoveAll(filepath.Join(dir, setAsideName)); err != nil {
		return err
	}
	return writeRefill(dir, refill{Reason: "an operator decided that the data of this server is wrong"})
}

// alreadyRefilled says that a refill is under way; nil if r is nil.
func alreadyRefilled(r *refill) error {
	if r == nil {
		return nil
	}
	return fmt.Errorf("this server is being refilled already: %s", r.Reason)
}

// CancelRefill brings back the data that a server set aside to be refilled. It
// is for servers that no leader can refill. The error says why it cannot be
// done; then nothing has changed.
func CancelRefill(dir string) error {
	r, err := readRefill(dir)
	switch {
	case err != nil:
		return err
	case r == nil:
		return errors.New("this server is not being refilled")
	case r.Until != 0:
		// What the server acknowledged since must not be lost.
		if last, err := lastOf(dir); err != nil || last != 0 {
			return errors.Join(err, fmt.Errorf("the refill has begun: this server has new entries, up to %d", last))
		}
		for _, name := range []string{"log", "snapshots"} {
			aside, to := filepath.Join(dir, setAsideName, name), filepath.Join(dir, name)
			if _, err := os.Stat(aside); errors.Is(err, fs.ErrNotExist) {
				continue // an earlier attempt came this far
			}
			if err := os.RemoveAll(to); err != nil {
				return err
			}
			if err := os.Rename(aside, to); err != nil {
				return err
			}
		}
	}
	return os.Remove(filepath.Join(dir, refillName))
}

// readRefill returns the content of the file of a refill, nil if there is none.
func readRefill(dir string) (*refill, error) {
	b, err := os.ReadFile(filepath.Join(dir, refillName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r refill
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, refillName), err)
	}
	return &r, nil
}

// writeRefill stores how far a refill has come. The file is replaced as a whole,
// so that a crash leaves the old or the new one.
func writeRefill(dir string, r refill) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, refillName), append(b, '\n'))
}

// lastOf returns the last entry of a stopped server's log and snapshots.
func lastOf(dir string) (uint64, error) {
	log, err := logstore.Open(filepath.Join(dir, "log"), logstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	last, err := lastEntry(log, filepath.Join(dir, "snapshots"))
	return last, errors.Join(err, log.Close())
}

// peersFile is where an operator puts the servers of a cluster that lost its
// majority, in the format of Nomad's raft/peers.json: a list of objects with
// id, address and non_voter. The next start of each of these servers takes it
// as Raft's configuration.
var peersFile = filepath.Join("raft", "peers.json")

// WritePeers makes a server take a new configuration at its next start.
func WritePeers(dir string, peers []Peer) error {
	type server struct {
		ID       string `json:"id"`
		Address  string `json:"address"`
		NonVoter bool   `json:"non_voter"`
	}
	var list []server
	for _, p := range peers {
		list = append(list, server{p.ID, p.Address, !p.Voter})
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, peersFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.Replace(path, append(b, '\n'))
}

// recoverPeers replaces Raft's configuration if the operator left a file with a
// new one, and removes the file. All entries of the log count as committed from
// then on. After a crash in between the next start does it again.
func (s *Server) recoverPeers() error {
	path := s.path(peersFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := func() error {
		to, err := raft.ReadConfigJSON(path)
		if err != nil {
			return err
		}
		self := false
		for _, p := range to.Servers {
			self = self || string(p.ID) == s.config.ID
		}
		switch {
		case !self:
			return fmt.Errorf("it does not list this server, whose ID is %s", s.config.ID)
		case !s.shared:
			return errors.New("this server runs alone and has no Raft configuration to replace")
		case s.refillUntil.Load() != 0:
			return errors.New("this server is being refilled, so its data is incomplete")
		}
		log, err := logstore.Open(s.path("log"), logstore.Options{Logger: s.config.Logger})
		if err != nil {
			return err
		}
		return errors.Join(s.reconfigure(log, to), log.Close())
	}()
	if err != nil {
		return fmt.Errorf("cannot recover with the servers in %s: %w", path, err)
	}
	s.config.Logger.Warn("the Raft configuration was replaced by that in a file, which is removed now", "file", path)
	return os.Remove(path)
}

// reconfigure writes a snapshot with the new configuration and empties the log.
func (s *Server) reconfigure(log *logstore.Store, to raft.Configuration) error {
	snaps, err := snapstore.Open(s.path("snapshots"), snapshotsKept, s.config.Logger)
	if err != nil {
		return err
	}
	if err := snaps.Continues(log); err != nil {
		return err
	}
	if err := snaps.Overtake(log); err != nil {
		return err
	}
	f := &fsm{store: state.New(), log: s.config.Logger, broken: make(chan struct{}), disputed: func(index uint64, reason error) error {
		if slices.Contains(s.voter.void, index) {
			return nil
		}
		return reason
	}}
	return raft.RecoverCluster(s.raftConfig(&node{}), f, log, log, snaps, s.link, to)
}

// AcceptLoss lets the only server of a cluster go on with a log that ends too
// early. It returns how many entries are lost. If there are other servers they
// may have those entries, so the loss is refused.
func AcceptLoss(dir string) (lost uint64, err error) {
	accept := func(log *logstore.Store, l logstore.Loss) error {
		to, err := newestConfiguration(log, filepath.Join(dir, "snapshots"))
		if err == nil && len(to.Servers) > 1 {
			err = errors.New("the cluster has other servers, which may have these entries: let the leader refill this one, or make it the only one")
		}
		lost = l.Required - l.Last
		return err
	}
	log, err := logstore.Open(filepath.Join(dir, "log"), logstore.Options{Logger: slog.New(slog.DiscardHandler), Accept: accept})
	if err != nil {
		return 0, err
	}
	if lost == 0 {
		err = errors.New("the log is complete as far as it is known")
	}
	return lost, errors.Join(err, log.Close())
}

// PeersOf returns the newest Raft configuration of a stopped server that goes on
// with what its log holds, even if that ends too early.
func PeersOf(dir string) ([]Peer, error) {
	accept := func(*logstore.Store, logstore.Loss) error { return nil }
	log, err := logstore.Open(filepath.Join(dir, "log"), logstore.Options{Logger: slog.New(slog.DiscardHandler), Accept: accept})
	if err != nil {
		return nil, err
	}
	to, err := newestConfiguration(log, filepath.Join(dir, "snapshots"))
	if err := errors.Join(err, log.Close()); err != nil {
		return nil, err
	}
	var out []Peer
	for _, p := range to.Servers {
		out = append(out, Peer{ID: string(p.ID), Address: string(p.Address), Voter: p.Suffrage == raft.Voter})
	}
	return out, nil
}

// newestConfiguration searches the log from its end, then the newest snapshot.
func newestConfiguration(log *logstore.Store, snapshots string) (raft.Configuration, error) {
	first, err1 := log.FirstIndex()
	last, err2 := log.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return raft.Configuration{}, err
	}
	for i := last; i >= first && i > 0; i-- {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return raft.Configuration{}, err
		}
		if l.Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(l.Data), nil
		}
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(snapshots, snapshotsKept, hclog.NewNullLogger())
	if err != nil {
		return raft.Configuration{}, err
	}
	all, err := snaps.List()
	if err != nil || len(all) == 0 {
		return raft.Configuration{}, err
	}
	return all[0].Configuration, nil
}
