package daemon

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"berth/internal/consensus"
	"berth/internal/invariant"
	"berth/internal/state"
)

// SnapshotInfo describes an operator's snapshot. Its JSON is what "operator
// snapshot inspect -json" prints.
type SnapshotInfo struct {
	Created string // RFC 3339, local time
	ID      string
	Size    int64 // bytes
	Index   uint64
	Term    uint64
	Version int    // of the saved state
	Server  string // ID of the server that saved it
	Types   []Content
	Hash    string
	Faults  []string `json:",omitempty"` // invariants that do not hold
}

// Content is how much of one kind a snapshot holds.
type Content = state.Content

// InspectSnapshot reads a snapshot in full. With check it also looks for broken
// invariants. A file that is damaged or not a snapshot is berth.Invalid.
func InspectSnapshot(f *os.File, check bool) (*SnapshotInfo, error) {
	size, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, snap, err := consensus.ReadBackup(bufio.NewReaderSize(f, 256<<10))
	if err != nil {
		return nil, err
	}
	info := &SnapshotInfo{
		Created: b.Created.Local().Format(time.RFC3339), ID: fmt.Sprintf("%d-%d-%d", b.Term, b.Index, b.Created.UnixMilli()), Size: size.Size(),
		Index: b.Index, Term: b.Term, Version: b.Version, Server: b.Server, Types: snap.Contents(), Hash: fmt.Sprintf("%016x", snap.Hash()),
	}
	if check {
		for _, v := range invariant.Check(snap) {
			info.Faults = append(info.Faults, v.String())
		}
	}
	return info, nil
}
