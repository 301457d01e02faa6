package consensus

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"berth"
	"berth/internal/state"

	"github.com/hashicorp/raft"
)

// An operator's snapshot has the form of Nomad's: a compressed tar archive with
// three files, in this order. Tools for such archives can list and check it. What
// the state inside looks like is Berth's own.
const (
	archiveMeta  = "meta.json"  // index, term and size, in raft's form
	archiveState = "state.bin"  // see writeState
	archiveSums  = "SHA256SUMS" // of the two others, as sha256sum writes and checks them

	archiveTextMax = 64 << 10 // bytes of the first and the last file
)

// WriteBackup writes a state as an operator's snapshot that b describes.
func WriteBackup(w io.Writer, b Backup, snap *state.Snapshot) error {
	// An archive says the size of a file before the file. A snapshot never changes,
	// and gives the same bytes each time.
	sized := &counter{sum: sha256.New()}
	if err := writeState(sized, b, snap); err != nil {
		return err
	}
	meta, err := json.Marshal(raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: fmt.Sprintf("%d-%d-%d", b.Term, b.RaftIndex, b.Created.UnixMilli()), Index: b.RaftIndex, Term: b.Term, Size: sized.n,
	})
	if err != nil {
		return err
	}
	metaSum := sha256.Sum256(meta)
	sums := fmt.Sprintf("%x  %s\n%x  %s\n", metaSum, archiveMeta, sized.sum.Sum(nil), archiveState)
	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	a := archive{tar.NewWriter(zip), b.Created}
	err = errors.Join(
		a.file(archiveMeta, int64(len(meta)), text(string(meta))),
		a.file(archiveState, sized.n, func(w io.Writer) error { return writeState(w, b, snap) }),
		a.file(archiveSums, int64(len(sums)), text(sums)),
		a.to.Close(), zip.Close(),
	)
	if err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	return nil
}

// counter counts and sums up what is written.
type counter struct {
	n   int64
	sum hash.Hash
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.sum.Write(p)
}

// archive is an archive that is being written.
type archive struct {
	to *tar.Writer
	at time.Time
}

// file adds one file, whose size is known before.
func (a archive) file(name string, size int64, content func(io.Writer) error) error {
	if err := a.to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: a.at}); err != nil {
		return err
	}
	return content(a.to)
}

// text writes a text.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// ReadBackup reads an operator's snapshot in full and checks it: an archive, or its
// main file alone, as earlier releases saved it. A damaged or truncated snapshot,
// one of a newer version, or another kind of file gives berth.Invalid.
func ReadBackup(r io.Reader) (Backup, *state.Snapshot, error) {
	in := bufio.NewReaderSize(r, backupHeadMax)
	if magic, _ := in.Peek(2); string(magic) != "\x1f\x8b" {
		return readState(in)
	}
	zip, err := gzip.NewReader(in)
	if err != nil {
		return Backup{}, nil, damaged(err)
	}
	zip.Multistream(false)
	return readArchive(zip)
}

// readArchive reads the files of an archive, and compares their sums.
func readArchive(zip io.Reader) (b Backup, snap *state.Snapshot, err error) {
	files, sums := tar.NewReader(zip), map[string]string{}
	if _, err := readText(files, archiveMeta, sums); err != nil {
		return b, nil, err
	}
	if err := next(files, archiveState); err != nil {
		return b, nil, err
	}
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(files, sum), 256<<10)
	if head, _ := in.Peek(len(backupMagic)); string(head) != backupMagic {
		return b, nil, berth.Errorf(berth.Invalid, "%s is not a state that Berth saved: a cluster of Nomad is taken over with `operator import`", archiveState)
	}
	if b, snap, err = readState(in); err != nil {
		return b, nil, err
	}
	sums[archiveState] = hex.EncodeToString(sum.Sum(nil))
	list, err := readText(files, archiveSums, sums)
	if err != nil {
		return b, nil, err
	}
	if err := compareSums(list, sums); err != nil {
		return b, nil, err
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		return b, nil, berth.Errorf(berth.Invalid, "the snapshot has more than the three files %s, %s and %s", archiveMeta, archiveState, archiveSums)
	}
	// What the compression says of the whole comes last.
	if _, err := io.Copy(io.Discard, io.LimitReader(zip, archiveTextMax)); err != nil {
		return b, nil, damaged(err)
	}
	return b, snap, nil
}

// next goes on to the next file, which must have this name.
func next(files *tar.Reader, name string) error {
	h, err := files.Next()
	switch {
	case err != nil:
		return damaged(err)
	case h.Name != name || h.Typeflag != tar.TypeReg:
		return berth.Errorf(berth.Invalid, "not an operator's snapshot: it has %q where %s is expected", berth.Clip(h.Name, 64), name)
	}
	return nil
}

// readText reads a short file, and notes its sum.
func readText(files *tar.Reader, name string, sums map[string]string) (string, error) {
	if err := next(files, name); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(files, archiveTextMax+1))
	switch {
	case err != nil:
		return "", damaged(err)
	case len(b) > archiveTextMax:
		return "", berth.Errorf(berth.Invalid, "%s is longer than %d bytes", name, archiveTextMax)
	}
	sum := sha256.Sum256(b)
	sums[name] = hex.EncodeToString(sum[:])
	return string(b), nil
}

// compareSums compares the sums that an archive lists with those of its files.
func compareSums(list string, sums map[string]string) error {
	listed := map[string]string{}
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) == 2 {
			listed[strings.TrimPrefix(f[1], "*")] = strings.ToLower(f[0])
		}
	}
	for _, name := range []string{archiveMeta, archiveState} {
		switch {
		case listed[name] == "":
			return berth.Errorf(berth.Invalid, "cannot load the snapshot: %s has no sum of %s", archiveSums, name)
		case listed[name] != sums[name]:
			return berth.Errorf(berth.Invalid, "%s is not as it was saved: its sum is %s, and %s says %s", name, sums[name], archiveSums, berth.Clip(listed[name], 64))
		}
	}
	return nil
}

// damaged is the error of an archive that cannot be read to its end.
func damaged(err error) error {
	return berth.Errorf(berth.Invalid, "cannot load the snapshot: the archive is damaged or cut short: %w", err)
}
