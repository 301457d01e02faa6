package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The file synced says how far the log was on disk. The engine's files cannot
// say that: a log file that ends too early, exactly between two appends, looks
// complete.
//
// After each append is on disk, and before it is acknowledged, the file is
// written without a sync, so it costs a system call and no wait. When the
// process is killed, the file is exact. After a power cut it may be behind,
// because the operating system had not written it yet. It is never ahead. So
// entries that it names and the log lacks were acknowledged, or could have been;
// about others it says nothing.
//
// It has two slots, written in turn, each in its own sector. A slot is:
//
//	mark     4 bytes  a magic number with the format
//	session  8 bytes  of the last append, as in records
//	seq      8 bytes  number of the append in that session
//	last     8 bytes  index of its last entry
//	crc      4 bytes  CRC-32C of all of the above
const (
	syncedName = "synced"
	slotSpace  = 512
	slotSize   = 4 + 8 + 8 + 8 + 4
)

var slotMark = [4]byte{0xb3, 'S', 'Y', 1}

// synced is the content of a slot; the zero value knows nothing.
type synced struct {
	at   stamp
	last uint64
}

// encode returns the slot.
func (m synced) encode() []byte {
	b := make([]byte, 0, slotSize)
	b = append(b, slotMark[:]...)
	b = binary.LittleEndian.AppendUint64(b, m.at.session)
	b = binary.LittleEndian.AppendUint64(b, m.at.seq)
	b = binary.LittleEndian.AppendUint64(b, m.last)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeSynced returns the newest of the intact slots. A torn slot is not
// damage: a power cut may leave one.
func decodeSynced(b []byte) (newest synced) {
	for ; len(b) >= slotSize; b = b[min(slotSpace, len(b)):] {
		le := binary.LittleEndian
		if [4]byte(b) != slotMark || crc32.Checksum(b[:slotSize-4], castagnoli) != le.Uint32(b[slotSize-4:]) {
			continue
		}
		m := synced{stamp{le.Uint64(b[4:]), le.Uint64(b[12:])}, le.Uint64(b[20:])}
		if m.at.after(newest.at) {
			newest = m
		}
	}
	return newest
}

// readSynced reads the file. Logs of earlier builds have none.
func readSynced(fsys vfs.FS, dir string) (synced, error) {
	b, err := readAll(fsys, fsys.PathJoin(dir, syncedName))
	if errors.Is(err, fs.ErrNotExist) {
		return synced{}, nil
	}
	return decodeSynced(b), err
}

// Loss is what a log lacks that was on disk once.
type Loss struct {
	Last     uint64 // the log ends here
	Required uint64 // it must reach this entry
}

// shortfall compares the end of the log, as Open found it, with meta and the
// file synced.
func (s *Store) shortfall(m synced) (loss Loss, err error) {
	loss = Loss{Last: s.last, Required: s.meta.Last}
	switch {
	case m.at.session > s.meta.Session:
		return loss, s.damaged("the file %s is of session %d, but entries of session %d were written", metaName, s.meta.Session, m.at.session)
	case m.at.session == s.meta.Session && m.at.seq > s.meta.Seq: // nothing was deleted from the end since
		loss.Required = max(loss.Required, m.last)
	}
	return loss, nil
}

// judge refuses a log that lacks entries, unless the caller of Open accepts
// that.
func (s *Store) judge(l Loss) error {
	if l.Last >= l.Required {
		return nil
	}
	if s.accept == nil {
		return s.damaged("the log must reach entry %d, which was on disk, but ends with %d", l.Required, l.Last)
	}
	if err := s.accept(s, l); err != nil {
		return err
	}
	s.log.Warn("raft log: going on without entries that were on disk, as the operator decided", "dir", s.dir, "last", l.Last, "missing", l.Required-l.Last)
	return nil
}

// openSynced opens the file for writing and creates it if necessary. The caller
// syncs the directory.
func (s *Store) openSynced() error {
	path := s.disk.PathJoin(s.dir, syncedName)
	if _, err := s.disk.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := writeFile(s.disk, path, make([]byte, 2*slotSpace)); err != nil {
			return s.stop(err)
		}
	}
	f, err := s.disk.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return s.stop(err)
	}
	s.synced = f
	return nil
}

// noteSynced records that an append is on disk. The caller holds s.writing.
func (s *Store) noteSynced(m synced) error {
	if _, err := s.synced.WriteAt(m.encode(), int64(m.at.seq%2)*slotSpace); err != nil {
		return s.stop(err)
	}
	return s.Err()
}

// Summary is what can be said of a log without opening it.
type Summary struct {
	Keys  map[string][]byte // the stable store
	Last  uint64            // the log must reach this entry
	Exact bool              // and no append after it was acknowledged, unless a power cut came in between
}

// Summarize reads the files beside the engine's. It works for a log whose
// engine's files are damaged.
func Summarize(dir string) (Summary, error) {
	b, err := readAll(vfs.Default, vfs.Default.PathJoin(dir, metaName))
	if err != nil {
		return Summary{}, fmt.Errorf("raft log in %s: %w", dir, err)
	}
	m, err := decodeMeta(b)
	if err != nil {
		return Summary{}, fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	}
	n, err := readSynced(vfs.Default, dir)
	if err != nil {
		return Summary{}, fmt.Errorf("raft log in %s: %w", dir, err)
	}
	out := Summary{Keys: m.Keys, Last: m.Last}
	if n.at.session == m.Session && n.at.seq > m.Seq {
		out.Last, out.Exact = max(m.Last, n.last), true
	}
	return out, nil
}
