package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"berth"
	"berth/internal/consensus/logstore"
	"berth/internal/state"
	"berth/internal/state/codec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// What an operator reads from the directory of a server that is stopped. The
// caller holds its lock. Opening the log notes that it was opened, as a start of
// the server would, and changes nothing else.

// LogInfo describes the log and the snapshots of a stopped server.
type LogInfo struct {
	First, Last uint64 // log indexes of the first and the last entry; 0 if the log is empty
	LastTerm    uint64 // of the last entry
	Term        uint64 // the newest that the server has seen
	VotedFor    string // ID of the server that it voted for; "" if none
	VotedTerm   uint64
	Peers       []Peer // the newest configuration
	Snapshots   []SavedState
}

// SavedState is a snapshot that the server keeps for itself.
type SavedState struct {
	ID          string
	Index, Term uint64 // of the last log entry that it includes
	Size        int64  // bytes
}

// LogEntry is one entry of the log.
type LogEntry struct {
	Index, Term uint64
	Type        string // LogCommand, LogNoop, LogConfiguration, LogBarrier
	Appended    time.Time
	Base        uint64       `json:",omitempty"` // state index that its commands were applied to
	Commands    []LogCommand `json:",omitempty"`
	Peers       []Peer       `json:",omitempty"`
	Problem     string       `json:",omitempty"` // why it cannot be decoded
}

// LogCommand is one command of an entry.
type LogCommand struct {
	Type   string // such as "RegisterJob"
	Fields any
}

// openLog opens the log of a stopped server.
func openLog(dir string) (*logstore.Store, error) {
	return logstore.Open(filepath.Join(dir, "log"), logstore.Options{Logger: slog.New(slog.DiscardHandler)})
}

// savedIn returns the snapshots of a stopped server, the newest first.
func savedIn(dir string) (*raft.FileSnapshotStore, []*raft.SnapshotMeta, error) {
	snaps, err := raft.NewFileSnapshotStoreWithLogger(filepath.Join(dir, "snapshots"), snapshotsKept, hclog.NewNullLogger())
	if err != nil {
		return nil, nil, err
	}
	all, err := snaps.List()
	return snaps, all, err
}

// InspectLog describes the log of a stopped server.
func InspectLog(dir string) (info LogInfo, err error) {
	log, err := openLog(dir)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	info.First, err = log.FirstIndex()
	if err == nil {
		info.Last, err = log.LastIndex()
	}
	if err != nil {
		return info, err
	}
	if info.Last > 0 {
		var l raft.Log
		if err := log.GetLog(info.Last, &l); err != nil {
			return info, err
		}
		info.LastTerm = l.Term
	}
	info.Term, info.VotedTerm = stableNumber(log, "CurrentTerm"), stableNumber(log, "LastVoteTerm")
	if who, err := log.Get([]byte("LastVoteCand")); err == nil {
		info.VotedFor = string(who)
	}
	to, err := newestConfiguration(log, filepath.Join(dir, "snapshots"))
	if err != nil {
		return info, err
	}
	info.Peers = peersIn(to)
	_, all, err := savedIn(dir)
	for _, m := range all {
		info.Snapshots = append(info.Snapshots, SavedState{m.ID, m.Index, m.Term, m.Size})
	}
	return info, err
}

// stableNumber returns a number of the stable store, 0 if it was never set.
func stableNumber(log *logstore.Store, key string) uint64 {
	b, err := log.Get([]byte(key))
	if err != nil || len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// peersIn returns the servers of a Raft configuration.
func peersIn(c raft.Configuration) (out []Peer) {
	for _, p := range c.Servers {
		out = append(out, Peer{ID: string(p.ID), Address: string(p.Address), Voter: p.Suffrage == raft.Voter})
	}
	return out
}

// EachEntry calls each for the entries in the log of a stopped server, in order,
// until one fails. An entry that cannot be decoded says so and is no error.
func EachEntry(dir string, each func(LogEntry) error) (err error) {
	log, err := openLog(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return eachLog(log, 1, 0, func(l *raft.Log) error { return each(entryOf(l)) })
}

// eachLog calls each for the entries of a log from an index on, up to last, or
// to the end if last is 0.
func eachLog(log *logstore.Store, from, last uint64, each func(*raft.Log) error) error {
	first, err1 := log.FirstIndex()
	end, err2 := log.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if last > 0 {
		end = min(end, last)
	}
	for i := max(from, first, 1); i <= end; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return err
		}
		if err := each(&l); err != nil {
			return err
		}
	}
	return nil
}

// entryOf decodes an entry of the log.
func entryOf(l *raft.Log) LogEntry {
	e := LogEntry{Index: l.Index, Term: l.Term, Type: l.Type.String(), Appended: l.AppendedAt}
	switch l.Type {
	case raft.LogConfiguration:
		e.Peers = peersIn(raft.DecodeConfiguration(l.Data))
	case raft.LogCommand:
		e.Base, _ = codec.EntryBase(l.Data)
		cmds, err := state.DecodeEntry(l.Data)
		if err != nil {
			e.Problem = err.Error()
		}
		for _, c := range cmds {
			e.Commands = append(e.Commands, LogCommand{state.CommandName(c), c})
		}
	}
	return e
}

// StateAt returns the state that a stopped server reached with its log up to a
// log index, or with all of it if last is 0, and the log index that it includes.
// Entries that were never committed are included as well: nobody can tell them
// from others without asking the other servers.
func StateAt(dir string, last uint64) (snap *state.Snapshot, applied uint64, err error) {
	log, err := openLog(dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if snap, applied, err = savedState(dir, last); err != nil {
		return nil, 0, err
	}
	first, err := log.FirstIndex()
	if err == nil && first > applied+1 && (last == 0 || last >= first) {
		err = berth.Errorf(berth.Invalid, "the log begins with entry %d, and the newest snapshot before it ends with entry %d: entries are missing", first, applied)
	}
	if err != nil {
		return nil, 0, err
	}
	err = eachLog(log, applied+1, last, func(l *raft.Log) error {
		applied = l.Index
		if l.Type != raft.LogCommand {
			return nil
		}
		snap, err = applyOne(snap, l)
		return err
	})
	return snap, applied, err
}

// savedState returns the newest snapshot that ends at or before a log index, or
// the newest at all if last is 0. Without one it returns the empty state.
func savedState(dir string, last uint64) (*state.Snapshot, uint64, error) {
	snaps, all, err := savedIn(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, m := range all {
		if last > 0 && m.Index > last {
			continue
		}
		_, r, err := snaps.Open(m.ID)
		if err != nil {
			return nil, 0, err
		}
		snap, err := state.Load(r)
		r.Close()
		return snap, m.Index, err
	}
	if last > 0 && len(all) > 0 {
		return nil, 0, berth.Errorf(berth.Invalid, "the state at log entry %d is no longer known: the oldest snapshot is of entry %d", last, all[len(all)-1].Index)
	}
	return state.New().Snapshot(), 0, nil
}

// applyOne applies one entry as a server does that reads it from its log.
func applyOne(snap *state.Snapshot, l *raft.Log) (*state.Snapshot, error) {
	cmds, err := state.DecodeEntry(l.Data)
	if err != nil {
		return nil, fmt.Errorf("raft log entry %d: %w", l.Index, err)
	}
	if base, ok := codec.EntryBase(l.Data); ok && base > snap.Index {
		return snap, nil // void: an entry that it builds on was not taken
	}
	tx := state.Begin(snap)
	for _, c := range cmds {
		if r := tx.Apply(c); r.Err != nil {
			return nil, fmt.Errorf("raft log entry %d: %s: %w", l.Index, state.CommandName(c), r.Err)
		}
	}
	return tx.End().Snapshot, nil
}
