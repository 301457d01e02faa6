package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// A record is one part of an entry, stored by the engine under a key of index
// and part:
//
// \tmark     4 bytes  a magic number with the record's format
// \tsession  8 bytes  how often the store had been opened when it was written
// \tseq      8 bytes  number of its batch in that session
// \tindex    8 bytes  of the entry, so that a value under a wrong key is noticed
// \tpart     2 bytes  number of this part of the entry, from 0
// \tparts    2 bytes  number of parts
// \thead     4 bytes  CRC-32C of all of the above
// \tbody     4 bytes  CRC-32C of everything below
// \tthe part's share of the entry, partSize bytes in all parts but the last
//
// The entry is:
//
// \tterm     varint
// \ttype     1 byte
// \tappended varint   ns since 1970, 0 if unknown (signed)
// \tlength   varint   of the extensions
// \textensions, data
//
// Numbers of fixed size are little-endian. The head has its own checksum
// because Open searches for heads in the raw end of the engine's log. A head
// there that the engine no longer reaches distinguishes damage from a torn
// append.
//
// Entries are split into parts because pebble, when the checksum of a block is
// wrong, tries whether a single flipped bit explains it. That takes 0.4 s for
// 32 KiB and 6 s for 128 KiB, and grows with the square of the size.

const (
	// A head holds the mark, the stamp, the place and a checksum. Entries
	// longer than partSize bytes are split.
	headSize = 4 + 8 + 8 + 8 + 2 + 2 + 4
	partSize = 32 << 10
	// maxEntry is far above what raft writes, and below what the parts can count.
	maxEntry = 1 << 30
)

// mark begins every record, so that records can be found in raw bytes.
var mark = [4]byte{0xb3, 'L', 'G', 1}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamp is the batch in which a record was written.
type stamp struct{ session, seq uint64 }

// after reports whether a was written after b.
func (a stamp) after(b stamp) bool {
	return a.session > b.session || a.session == b.session && a.seq > b.seq
}

// place names the part of an entry that a record holds.
type place struct {
	index       uint64
	part, parts uint16
}

// body is an entry to be written. Shares are taken from it one by one, without
// copying the data into one piece first.
type body struct{ head, data []byte }

// newBody returns l as it is stored, without its index, which the key holds.
// The data is not copied, so l must not change before it is written.
func newBody(l *raft.Log) body {
	b := make([]byte, 0, 4*binary.MaxVarintLen64+len(l.Extensions))
	b = binary.AppendUvarint(b, l.Term)
	b = append(b, byte(l.Type))
	when := int64(0)
	if !l.AppendedAt.IsZero() {
		when = l.AppendedAt.UnixNano()
	}
	b = binary.AppendVarint(b, when)
	b = binary.AppendUvarint(b, uint64(len(l.Extensions)))
	return body{append(b, l.Extensions...), l.Data}
}

// size returns the length of the body in bytes.
func (b *body) size() int { return len(b.head) + len(b.data) }

// parts returns how many records the body is split into.
func (b *body) parts() int { return (b.size() + partSize - 1) / partSize }

// take moves the next bytes of b to `to` and fills it.
func (b *body) take(to []byte) {
	n := copy(to, b.head)
	b.head = b.head[n:]
	b.data = b.data[copy(to[n:], b.data):]
}

// recordSize returns the length of the record for the next share of b.
func recordSize(b *body) int { return headSize + 4 + min(b.size(), partSize) }

// encodeRecord fills to, which has recordSize bytes, with the next share of b.
func encodeRecord(to []byte, p place, at stamp, b *body) {
	copy(to, mark[:])
	le := binary.LittleEndian
	le.PutUint64(to[4:], at.session)
	le.PutUint64(to[12:], at.seq)
	le.PutUint64(to[20:], p.index)
	le.PutUint16(to[28:], p.part)
	le.PutUint16(to[30:], p.parts)
	le.PutUint32(to[32:], crc32.Checksum(to[:32], castagnoli))
	share := to[headSize+4:]
	b.take(share)
	le.PutUint32(to[headSize:], crc32.Checksum(share, castagnoli))
}

var errShort = errors.New("the record is too short")

// decodeHead reads the head of a record.
func decodeHead(b []byte) (p place, at stamp, err error) {
	if len(b) < headSize {
		return p, at, errShort
	}
	if [4]byte(b) != mark {
		return p, at, fmt.Errorf("unknown record format: it begins with %x, want %x", b[:4], mark)
	}
	le := binary.LittleEndian
	if crc32.Checksum(b[:32], castagnoli) != le.Uint32(b[32:]) {
		return p, at, errors.New("the checksum of the record's head is wrong")
	}
	at = stamp{le.Uint64(b[4:]), le.Uint64(b[12:])}
	p = place{le.Uint64(b[20:]), le.Uint16(b[28:]), le.Uint16(b[30:])}
	return p, at, nil
}

// decodeRecord checks a record found under the key of an index and a part, and
// returns its share of the entry. The share is the engine's memory.
func decodeRecord(b []byte, index uint64, part uint16) (share []byte, parts uint16, at stamp, err error) {
	p, at, err := decodeHead(b)
	switch {
	case err != nil:
		return nil, 0, at, err
	case p.index != index || p.part != part || p.part >= p.parts:
		return nil, 0, at, fmt.Errorf("the record belongs to entry %d, part %d of %d", p.index, p.part, p.parts)
	case len(b) < headSize+4:
		return nil, 0, at, errShort
	}
	share = b[headSize+4:]
	if crc32.Checksum(share, castagnoli) != binary.LittleEndian.Uint32(b[headSize:]) {
		return nil, 0, at, errors.New("the checksum of the record is wrong")
	}
	if part+1 < p.parts && len(share) != partSize {
		return nil, 0, at, errShort
	}
	return share, p.parts, at, nil
}

// decodeBody decodes an entry into l, which then owns b.
func decodeBody(b []byte, index uint64, l *raft.Log) error {
	term, n := binary.Uvarint(b)
	if n <= 0 || len(b) == n {
		return errShort
	}
	kind := raft.LogType(b[n])
	b = b[n+1:]
	when, n := binary.Varint(b)
	if n <= 0 {
		return errShort
	}
	b = b[n:]
	// The length is compared before it is used: it may be damaged.
	ext, n := binary.Uvarint(b)
	if n <= 0 || ext > uint64(len(b)-n) {
		return errShort
	}
	b = b[n:]
	*l = raft.Log{Index: index, Term: term, Type: kind}
	if when != 0 {
		l.AppendedAt = time.Unix(0, when)
	}
	if ext > 0 {
		l.Extensions = b[:ext:ext]
	}
	if uint64(len(b)) > ext {
		l.Data = b[ext:]
	}
	return nil
}

// The engine's keys are a letter, the index and the part, so that they sort in
// log order.
const logKeySize = 1 + 8 + 2

// logKey returns the key of an entry's first part.
func logKey(index uint64) []byte {
	b := make([]byte, logKeySize)
	putLogKey(b, index, 0)
	return b
}

// putLogKey writes the key of a part of an entry to b, which must have
// logKeySize bytes. Keys sort by index, then by part.
func putLogKey(b []byte, index uint64, part uint16) {
	b[0] = 'l'
	binary.BigEndian.PutUint64(b[1:], index)
	binary.BigEndian.PutUint16(b[9:], part)
}

// splitKey returns what putLogKey wrote. ok is false if key is not the key of
// an entry.
func splitKey(key []byte) (index uint64, part uint16, ok bool) {
	if len(key) != logKeySize || key[0] != 'l' {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint16(key[9:]), true
}
