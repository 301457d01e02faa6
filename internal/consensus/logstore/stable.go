package logstore

import (
	"bytes"
	"encoding/binary"
	"maps"

	"berth"
)

// maxStable is the limit for one key or value of the stable store, in bytes;
// raft's have about ten.
const maxStable = 4 << 10

// Set stores a value under key and returns when it is on disk.
func (s *Store) Set(key, val []byte) error {
	if len(key) == 0 || len(key) > maxStable || len(val) > maxStable {
		return berth.Errorf(berth.Invalid, "raft stable store: key of %d bytes, value of %d bytes: want at most %d and %d, and a key that is not empty",
			len(key), len(val), maxStable, maxStable)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, _, err := s.bounds(); err != nil {
		return err
	}
	m := s.meta.copy()
	m.Keys = maps.Clone(m.Keys)
	if m.Keys == nil {
		m.Keys = map[string][]byte{}
	}
	m.Keys[string(key)] = bytes.Clone(val)
	if err := s.putMeta(m); err != nil {
		return err
	}
	s.mu.Lock()
	s.keys = m.Keys
	s.mu.Unlock()
	return nil
}

// Get returns the value under key, an empty one if none exists.
func (s *Store) Get(key []byte) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	return bytes.Clone(s.keys[string(key)]), nil
}

// SetUint64 stores a number under key and returns when it is on disk.
func (s *Store) SetUint64(key []byte, val uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, val))
}

// GetUint64 returns the number under key, 0 if none exists.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil || len(b) == 0 {
		return 0, err
	}
	if len(b) != 8 {
		return 0, berth.Errorf(berth.Invalid, "raft stable store: %q is not a number: want 8 bytes, got %d", key, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
