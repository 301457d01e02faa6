package logstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Format is the version of the directory that this build writes, and the only
// one that it reads.
const Format = 1

// meta is the content of the file of that name. It is text, so that an operator
// can read it, with a checksum in the last line. It is replaced as a whole by a
// rename, so after a crash either the old or the new one exists.
//
//	berth raft log 1
//	session 4
//	first 1001
//	last 2000
//	seq 17
//	key 43757272656e745465726d 0000000000000007
//	crc32c 1a2b3c4d
type meta struct {
	Session uint64            // number of times the store was opened
	First   uint64            // the log must begin here or earlier; earlier entries are not needed; 0 if unknown
	Last    uint64            // the log must reach this entry; 0 if it may be empty
	Seq     uint64            // batches of this session up to this one may have been deleted from the end
	Keys    map[string][]byte // the stable store
}

const (
	metaName  = "meta"
	metaTitle = "berth raft log "
)

// copy returns a meta to change. It shares Keys, which must be cloned before a
// change.
func (m *meta) copy() meta { return *m }

// encode returns m as lines of text that end with their checksum.
func (m *meta) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%d\nsession %d\nfirst %d\nlast %d\nseq %d\n", metaTitle, Format, m.Session, m.First, m.Last, m.Seq)
	for _, k := range slices.Sorted(maps.Keys(m.Keys)) {
		fmt.Fprintf(&b, "key %x %x\n", k, m.Keys[k])
	}
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum(b.Bytes(), castagnoli))
	return b.Bytes()
}

// formatError means that the directory has a format that this build does not
// read.
type formatError struct{ version string }

// Error names the format found and the one that this build reads.
func (e formatError) Error() string {
	return fmt.Sprintf("unknown format %q: this build reads %d", e.version, Format)
}

// decodeMeta parses what encode wrote. A formatError means that another version
// of Berth wrote the file; every other error means that the file is damaged.
func decodeMeta(b []byte) (m meta, err error) {
	title, _, _ := strings.Cut(string(b), "\n")
	version, ok := strings.CutPrefix(title, metaTitle)
	if !ok {
		return m, fmt.Errorf("the file %s begins with %.40q, not %q", metaName, title, metaTitle)
	}
	// A newer format may have another checksum, so this comes first. It can
	// only refuse.
	if version != strconv.Itoa(Format) {
		return m, formatError{version[:min(len(version), 20)]}
	}
	i := bytes.LastIndex(b, []byte("crc32c "))
	if i < 0 || string(b[i:]) != fmt.Sprintf("crc32c %08x\n", crc32.Checksum(b[:i], castagnoli)) {
		return m, fmt.Errorf("the checksum of the file %s is wrong", metaName)
	}
	// Each number must occur exactly once; what is left in the map at the end
	// is missing.
	numbers := map[string]*uint64{"session": &m.Session, "first": &m.First, "last": &m.Last, "seq": &m.Seq}
	m.Keys = map[string][]byte{}
	for _, line := range strings.Split(strings.TrimSuffix(string(b[len(title)+1:i]), "\n"), "\n") {
		name, value, _ := strings.Cut(line, " ")
		switch n := numbers[name]; {
		case n != nil:
			*n, err = strconv.ParseUint(value, 10, 64)
			delete(numbers, name)
		case name == "key":
			k, v, _ := strings.Cut(value, " ")
			var key, val []byte
			key, err = hex.DecodeString(k)
			if err == nil {
				val, err = hex.DecodeString(v)
			}
			m.Keys[string(key)] = val
		default:
			err = errors.New("unknown line")
		}
		if err != nil {
			return m, fmt.Errorf("the file %s: line %.80q: %w", metaName, line, err)
		}
	}
	if len(numbers) > 0 {
		return m, fmt.Errorf("the file %s lacks %s", metaName, strings.Join(slices.Sorted(maps.Keys(numbers)), ", "))
	}
	return m, nil
}

// putMeta replaces the file meta by m. The caller holds s.writing.
func (s *Store) putMeta(m meta) error {
	fs := s.disk
	path := fs.PathJoin(s.dir, metaName)
	b := m.encode()
	if err := writeFile(fs, path+".new", b); err != nil {
		return s.stop(err)
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return s.stop(err)
	}
	if err := syncDir(fs, s.dir); err != nil {
		return s.stop(err)
	}
	if err := s.Err(); err != nil {
		return err
	}
	s.bytes += uint64(len(b))
	s.meta = m
	return nil
}

// writeFile writes b to a file and syncs it. The caller syncs the directory.
func writeFile(fs vfs.FS, path string, b []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// syncDir makes the names in a directory durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
