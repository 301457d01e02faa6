package logstore

import (
	"bytes"

	"berth"
	"berth/internal/failpoint"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
)

// IsMonotonic tells raft that the log has no gaps, so that raft empties it when
// it restores a snapshot from another server.
func (s *Store) IsMonotonic() bool { return true }

// FirstIndex returns the index of the first entry, 0 if none exists.
func (s *Store) FirstIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first, s.usable()
}

// LastIndex returns the index of the last entry, 0 if none exists.
func (s *Store) LastIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, s.usable()
}

// GetLog reads one entry into l, which then owns its bytes. It returns
// raft.ErrLogNotFound for an index outside the log, and an error that wraps
// ErrDamaged if the engine returns anything but what was stored.
func (s *Store) GetLog(index uint64, l *raft.Log) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return err
	}
	if index == 0 || index < s.first || index > s.last {
		return raft.ErrLogNotFound
	}
	entry, err := s.read(index)
	if err != nil {
		return err
	}
	if err := decodeBody(entry, index, l); err != nil {
		return s.damaged("entry %d: %v", index, err)
	}
	return nil
}

// read returns a copy of an entry's bytes.
func (s *Store) read(index uint64) ([]byte, error) {
	v, done, err := s.db.Get(logKey(index))
	if err != nil {
		return nil, s.readError(index, err)
	}
	defer done.Close()
	share, parts, _, err := decodeRecord(v, index, 0)
	if err != nil {
		return nil, s.damaged("entry %d: %v", index, err)
	}
	if parts == 1 {
		return bytes.Clone(share), nil
	}
	return s.readParts(index, int(parts))
}

// readParts reads an entry that was split into parts and returns its body. A
// missing part or a wrong checksum is ErrDamaged, a failing disk is
// berth.Unavailable.
func (s *Store) readParts(index uint64, parts int) ([]byte, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: logKey(index), UpperBound: logKey(index + 1)})
	if err != nil {
		return nil, s.readError(index, err)
	}
	defer it.Close()
	entry := make([]byte, 0, parts*partSize)
	found := 0
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, s.readError(index, err)
		}
		// The record says which part it is, so a gap shows here.
		share, _, _, err := decodeRecord(v, index, uint16(found))
		if err != nil {
			return nil, s.damaged("entry %d: %v", index, err)
		}
		entry = append(entry, share...)
		found++
	}
	if err := it.Error(); err != nil {
		return nil, s.readError(index, err)
	}
	// Only parts missing at the end are left to be found.
	if found != parts {
		return nil, s.damaged("entry %d: only %d of its %d parts exist", index, found, parts)
	}
	return entry, nil
}

// readError distinguishes a disk that cannot be read from wrong bytes.
func (s *Store) readError(index uint64, err error) error {
	if isIOError(err) {
		return berth.Errorf(berth.Unavailable, "raft log in %s: read entry %d: %w", s.dir, index, err)
	}
	return s.damaged("entry %d: %v", index, err)
}

// StoreLog appends one entry.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries that continue the log and returns when they are on
// disk. An empty log may begin at any index. Entries that would leave a gap or
// overwrite others are refused as Invalid and change nothing.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	first, last, err := s.bounds()
	if err != nil {
		return err
	}
	if err := continues(last, logs); err != nil {
		return err
	}
	if first == 0 {
		// Record first that the log begins here.
		first = logs[0].Index
		m := s.meta.copy()
		m.First = first
		if err := s.putMeta(m); err != nil {
			return err
		}
	}
	if err := failpoint.Hit("consensus/log-append-before"); err != nil {
		return s.stop(err)
	}
	if err := s.append(logs); err != nil {
		return err
	}
	if err := failpoint.Hit("consensus/log-append-after"); err != nil {
		return s.stop(err)
	}
	// Readers see the entries only now that they are on disk.
	s.mu.Lock()
	s.first, s.last = first, logs[len(logs)-1].Index
	s.mu.Unlock()
	return nil
}

// bounds returns the ends of the log, or an error if it cannot be written.
func (s *Store) bounds() (first, last uint64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first, s.last, s.usable()
}

// continues returns an error unless the entries continue the log.
func continues(last uint64, logs []*raft.Log) error {
	want := last + 1
	if last == 0 {
		want = logs[0].Index
	}
	for _, l := range logs {
		if l.Index != want || l.Index == 0 {
			return berth.Errorf(berth.Invalid, "raft log: entry %d does not continue the log: want %d", l.Index, max(want, 1))
		}
		if n := len(l.Data) + len(l.Extensions); n > maxEntry {
			return berth.Errorf(berth.TooLarge, "raft log: entry %d: must be at most %[3]d bytes, got %[2]d", l.Index, n, maxEntry)
		}
		want++
	}
	return nil
}

// append commits the entries as one batch of the engine. The caller holds
// s.writing.
func (s *Store) append(logs []*raft.Log) error {
	bodies, total := make([]body, len(logs)), 0
	for i, l := range logs {
		bodies[i] = newBody(l)
		total += bodies[i].size() + bodies[i].parts()*(logKeySize+headSize+4)
	}
	s.seq++
	at := stamp{s.meta.Session, s.seq}
	b := s.db.NewBatchWithSize(total + total/64 + 64*len(logs))
	defer b.Close()
	for i := range bodies {
		if err := putEntry(b, logs[i].Index, at, &bodies[i]); err != nil {
			return s.stop(err)
		}
	}
	s.bytes += uint64(total)
	if err := s.commit(b); err != nil {
		return err
	}
	return s.noteSynced(synced{at, logs[len(logs)-1].Index})
}

// putEntry adds an entry to a batch.
func putEntry(b *pebble.Batch, index uint64, at stamp, from *body) error {
	parts := uint16(from.parts())
	for part := range parts {
		d := b.SetDeferred(logKeySize, recordSize(from))
		putLogKey(d.Key, index, part)
		encodeRecord(d.Value, place{index, part, parts}, at, from)
		if err := d.Finish(); err != nil {
			return err
		}
	}
	return nil
}

// commit writes b and returns once it is on disk. After an error nothing is
// known about the disk, so the store stops.
func (s *Store) commit(b *pebble.Batch) error {
	if err := b.Commit(pebble.Sync); err != nil {
		return s.stop(err)
	}
	// The engine does not see disk failures; the fail-stop file system does.
	return s.Err()
}

// stop stops the store because of an error that the engine returned.
func (s *Store) stop(err error) error {
	s.disk.fail(err)
	return s.Err()
}

// DeleteRange deletes the entries from low to high, both included. The range
// must reach an end of the log, because the log has no gaps; any part of it
// outside the log is ignored. After the call the entries are gone for good. A
// crash during the call may leave them all.
func (s *Store) DeleteRange(low, high uint64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	first, last, err := s.bounds()
	if err != nil {
		return err
	}
	switch {
	case low > high:
		return berth.Errorf(berth.Invalid, "raft log: cannot delete entries %d to %d: the range is reversed", low, high)
	case first == 0 || high < first || low > last:
		return nil
	case low <= first && high >= last:
		return s.deleteSuffix(first, last, 0)
	case low <= first:
		return s.deletePrefix(first, high)
	case high >= last:
		return s.deleteSuffix(low, last, low-1)
	}
	return berth.Errorf(berth.Invalid, "raft log: deleting entries %d to %d would leave a gap in %d to %d", low, high, first, last)
}

// deletePrefix records first that the entries are not needed, then deletes
// them. After a crash in between, Open finishes the work.
func (s *Store) deletePrefix(first, high uint64) error {
	s.mu.Lock()
	s.first = high + 1
	m := s.meta.copy()
	m.First, m.Last, m.Seq = s.first, s.last, s.seq
	s.mu.Unlock()
	if err := s.putMeta(m); err != nil {
		return err
	}
	if err := s.db.DeleteRange(logKey(first), logKey(high+1), pebble.NoSync); err != nil {
		return s.stop(err)
	}
	// Space is freed only once the deletion is out of the memtable. This begins
	// a new, empty log file, but meta says how far the log must reach.
	if _, err := s.db.AsyncFlush(); err != nil {
		return s.stop(err)
	}
	return s.Err()
}

// deleteSuffix first records that the entries are no longer required, then
// deletes them. After a crash in between they are still there, as if the call
// had not been made. keep is the new last index; 0 empties the log.
func (s *Store) deleteSuffix(low, last, keep uint64) error {
	m := s.meta.copy()
	m.Last, m.Seq = keep, s.seq
	s.mu.Lock()
	s.last = keep
	if keep == 0 {
		s.first, m.First = 0, 0
	}
	s.mu.Unlock()
	if err := s.putMeta(m); err != nil {
		return err
	}
	if err := s.db.DeleteRange(logKey(low), logKey(last+1), pebble.Sync); err != nil {
		return s.stop(err)
	}
	return s.Err()
}
