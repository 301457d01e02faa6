package codec

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"berth"

	"github.com/klauspost/compress/zstd"
)

// A saved snapshot is a line with the format and its version, then one zstd
// stream of records: kind, length, bytes. The last record holds the checksum of
// all before it. Each record refers only to earlier ones, and the rows of a
// table are in the same order on all servers.

// snapshotMagic begins the first line; the version follows.
const snapshotMagic = "berth snapshot "

// Kind is the kind of a record.
type Kind byte

// The kinds of record, which are never renumbered.
const (
	Head Kind = iota + 1
	Namespace
	Node
	JobVersion // a version of a job, numbered in the order of these records
	Job        // an existing job: its newest version and its counts
	History    // a version in the history
	Submission
	Eval
	Alloc
	Deployment
	Reschedules
	Explanation
	end // the checksum
	Scheduler
	NodePool
	Scaling // scaling events of the job before it
	Service
	Autopilot
	TrackedVersions
	Restored
	Deletion
	Stream
	Resource
	StreamIDs
	Cluster
	RootKey
	Variable
	ACLToken
	ACLPolicy
	ACLRole
	ACLBootstrap // index of the last one
	ACLAuthMethod
	ACLBindingRule
	ACLOneTimeToken
	Quota
	HostVolume
	HostVolumeClaim
	CSIVolume
	CSIClaim
	CSIPlugin
)

// maxRecord bounds a record; the largest are jobs and explanations.
const maxRecord = MaxCommand * 2

// window is how far back the compressed records may refer: twice as much memory
// is needed to write them, and to read them. Windows up to maxWindow are read,
// so that a few damaged bytes cannot make the decoder allocate more.
const (
	window    = 1 << 20
	maxWindow = 32 << 20
)

// encoders are kept for the next snapshot: each has tables of a megabyte.
var encoders = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		panic(err) // the options are constants
	}
	return z
}}

// castagnoli is for the CRC-32C that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Size is how much was written of one kind of record.
type Size struct {
	Count int
	Bytes int64 // before compression
}

// SnapshotWriter writes the records of a snapshot. The fields of a record are
// written first, then Record ends it.
type SnapshotWriter struct {
	Writer // of the current record
	out    *bufio.Writer
	zip    *zstd.Encoder // nil if nothing is saved
	sum    uint32
	err    error
	sizes  map[Kind]*Size // nil unless they are counted
}

// NewSnapshotWriter returns a writer for a snapshot of a version.
func NewSnapshotWriter(to io.Writer, version int) (*SnapshotWriter, error) {
	if _, err := fmt.Fprintf(to, "%s%d\n", snapshotMagic, version); err != nil {
		return nil, err
	}
	z := encoders.Get().(*zstd.Encoder)
	z.Reset(to)
	return &SnapshotWriter{out: bufio.NewWriter(z), zip: z}, nil
}

// NewSnapshotSum returns a writer that only keeps the checksum and sizes of
// what is written.
func NewSnapshotSum() *SnapshotWriter {
	return &SnapshotWriter{out: bufio.NewWriter(io.Discard), sizes: map[Kind]*Size{}}
}

// Record ends the current record.
func (s *SnapshotWriter) Record(kind Kind) {
	if s.err != nil {
		return
	}
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = byte(kind)
	n := 1 + binary.PutUvarint(head[1:], uint64(len(s.buf)))
	// The checksum covers the heads too: a changed length must not pass.
	for _, b := range [][]byte{head[:n], s.buf} {
		s.sum = crc32.Update(s.sum, castagnoli, b)
		if _, err := s.out.Write(b); err != nil {
			s.err = err
		}
	}
	if s.sizes != nil {
		c := s.sizes[kind]
		if c == nil {
			c = &Size{}
			s.sizes[kind] = c
		}
		c.Count++
		c.Bytes += int64(n + len(s.buf))
	}
	s.Reset()
}

// Before writes a record ahead of the current one, whose fields so far are
// kept.
func (s *SnapshotWriter) Before(write func()) {
	keep := s.buf
	s.buf = nil
	write()
	s.buf = keep
}

// Sum returns the checksum of the records so far.
func (s *SnapshotWriter) Sum() uint32 { return s.sum }

// Sizes returns how much was written of each kind, for a writer of
// NewSnapshotSum.
func (s *SnapshotWriter) Sizes() map[Kind]*Size { return s.sizes }

// Close writes the checksum and ends the snapshot, once. It returns the first
// error of any write.
func (s *SnapshotWriter) Close() error {
	s.Uint(uint64(s.sum))
	s.Record(end)
	if s.err == nil {
		s.err = s.out.Flush()
	}
	if err := s.zip.Close(); s.err == nil {
		s.err = err
	}
	s.zip.Reset(nil) // drops the file that it wrote to
	encoders.Put(s.zip)
	s.zip = nil
	return s.err
}

// errNoSnapshot is the error for a file that is something else.
var errNoSnapshot = errors.New("this is not a saved snapshot")

// ReadableVersion returns the version in the first line of a saved snapshot. A
// version that this build cannot read is an error of kind Unavailable.
func ReadableVersion(line string) (version int, err error) {
	if len(line) > 64 {
		return 0, errNoSnapshot
	}
	if _, err := fmt.Sscanf(line, snapshotMagic+"%d\n", &version); err != nil {
		return 0, errNoSnapshot
	}
	if version < 1 || version > SnapshotVersion {
		return 0, berth.Errorf(berth.Unavailable, "the snapshot has version %d; this build reads 1 to %d", version, SnapshotVersion)
	}
	return version, nil
}

// ReadSnapshot calls each for the records of a saved snapshot, in order, until
// one fails. That all records are there, bit for bit, is only known when it
// returns nil. version is that of the snapshot; the reader is valid during the
// call alone.
func ReadSnapshot(from io.Reader, each func(version int, kind Kind, r *Reader) error) error {
	in := bufio.NewReader(from)
	// The first line is plain text, so that other builds can say what it is. It
	// can come from an upload; ReadSlice reads no more than the buffer holds.
	line, err := in.ReadSlice('\n')
	if err != nil {
		return errNoSnapshot
	}
	version, err := ReadableVersion(string(line))
	if err != nil {
		return err
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	// Everything after it is compressed records.
	s := snapshotReader{in: bufio.NewReader(z)}
	for {
		kind, b, err := s.next()
		if err == nil && kind == end {
			break
		}
		if err == nil {
			err = each(version, kind, &Reader{buf: b})
		}
		if err != nil {
			return fmt.Errorf("snapshot: record %d: %w", s.records, err)
		}
	}
	if _, err := s.in.ReadByte(); err != io.EOF {
		return errors.New("snapshot: data follows the end")
	}
	return nil
}

// snapshotReader reads records and computes their checksum.
type snapshotReader struct {
	in      *bufio.Reader
	sum     uint32 // CRC-32C of the records so far
	records int
	buf     []byte // the content of the last record
}

// next returns the next record. The last has the kind end; its checksum has
// been verified.
func (s *snapshotReader) next() (Kind, []byte, error) {
	first, err := s.in.ReadByte()
	if err != nil {
		return 0, nil, fmt.Errorf("it is cut off: %w", err)
	}
	kind := Kind(first)
	n, err := binary.ReadUvarint(s.in)
	if err != nil {
		return 0, nil, err
	}
	// Check before memory is taken: the length may be damaged.
	if n > maxRecord {
		return 0, nil, fmt.Errorf("a record of %d bytes is too long", n)
	}
	if uint64(cap(s.buf)) < n {
		s.buf = make([]byte, n, n+n/2)
	}
	// The buffer is used again for the next record.
	s.buf = s.buf[:n]
	if _, err := io.ReadFull(s.in, s.buf); err != nil {
		return 0, nil, err
	}
	// The last record holds the checksum of those before it.
	if kind == end {
		r := Reader{buf: s.buf}
		if sum := r.Uint(); r.err != nil || sum != uint64(s.sum) {
			return 0, nil, fmt.Errorf("the checksum is %08x, want %08x", s.sum, sum)
		}
		return end, nil, nil
	}
	s.records++
	head := append([]byte{first}, binary.AppendUvarint(nil, n)...)
	s.sum = crc32.Update(crc32.Update(s.sum, castagnoli, head), castagnoli, s.buf)
	if (kind == Head) != (s.records == 1) {
		return 0, nil, errors.New("the header must be the first record")
	}
	return kind, s.buf, nil
}
