package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// open opens a store that the test closes.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func quiet() Options { return Options{Logger: slog.New(slog.DiscardHandler)} }

// entry returns entry i of term with size bytes that depend on both.
func entry(i, term uint64, size int) *raft.Log {
	r := rand.New(rand.NewPCG(i, term))
	b := make([]byte, size, size+8)
	for j := 0; j < size; j += 8 {
		binary.LittleEndian.PutUint64(b[j:j+8], r.Uint64())
	}
	return &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: b, AppendedAt: time.Unix(1_700_000_000, int64(i))}
}

func entries(from, to, term uint64, size int) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, entry(i, term, size))
	}
	return logs
}

func store(t testing.TB, s *Store, logs []*raft.Log) {
	t.Helper()
	if err := s.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
}

// has fails the test unless the log is exactly these entries.
func has(t testing.TB, s *Store, want []*raft.Log) {
	t.Helper()
	if err := same(s, want); err != nil {
		t.Fatal(err)
	}
}

// same compares the log with the entries wanted.
func same(s *Store, want []*raft.Log) error {
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var wantFirst, wantLast uint64
	if len(want) > 0 {
		wantFirst, wantLast = want[0].Index, want[len(want)-1].Index
	}
	if first != wantFirst || last != wantLast {
		return fmt.Errorf("the log is %d to %d, want %d to %d", first, last, wantFirst, wantLast)
	}
	for _, w := range want {
		var got raft.Log
		if err := s.GetLog(w.Index, &got); err != nil {
			return fmt.Errorf("entry %d: %w", w.Index, err)
		}
		if !equal(&got, w) {
			return fmt.Errorf("entry %d is not what was stored", w.Index)
		}
	}
	var l raft.Log
	for _, outside := range []uint64{0, wantFirst - 1, wantLast + 1} {
		if err := s.GetLog(outside, &l); err != raft.ErrLogNotFound {
			return fmt.Errorf("entry %d, outside the log: %v", outside, err)
		}
	}
	return nil
}

func equal(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data) &&
		bytes.Equal(a.Extensions, b.Extensions) && a.AppendedAt.Equal(b.AppendedAt)
}

func TestNewLogIsEmpty(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "raft", "log"))
	has(t, s, nil)
	if v, err := s.Get([]byte("LastVoteCand")); len(v) != 0 || err != nil {
		t.Fatalf("Get of a missing key: %q, %v", v, err)
	}
	if n, err := s.GetUint64([]byte("CurrentTerm")); n != 0 || err != nil {
		t.Fatalf("GetUint64 of a missing key: %d, %v", n, err)
	}
	if !s.IsMonotonic() {
		t.Fatal("raft must know that gaps are refused")
	}
}

func TestEntriesComeBackAsStored(t *testing.T) {
	dir := scratch(t)
	s := open(t, dir)
	want := []*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("servers")},
		{Index: 2, Term: 1, Type: raft.LogNoop, AppendedAt: time.Now()},
		{Index: 3, Term: 1 << 60, Type: 255, Data: []byte{0}, Extensions: bytes.Repeat([]byte{1}, 300), AppendedAt: time.Unix(-5, 3)},
		{Index: 4, Term: 2, Type: raft.LogCommand, Extensions: []byte("only extensions")},
		entry(5, 2, 8<<20),  // the exceptional one
		entry(6, 2, 40<<20), // more than a memtable
		entry(7, 2, partSize-20),
		entry(8, 2, partSize),
		entry(9, 2, 2*partSize-12), // just about two parts
		entry(10, 2, 1),
	}
	store(t, s, want[:2])
	store(t, s, want[2:4])
	for _, l := range want[4:] {
		if err := s.StoreLog(l); err != nil {
			t.Fatal(err)
		}
	}
	has(t, s, want)
	s.Close()
	has(t, open(t, dir), want)
}

func TestAppendsMustContinueTheLog(t *testing.T) {
	s := open(t, t.TempDir())
	store(t, s, entries(10, 12, 1, 100)) // an empty log begins anywhere: after a snapshot
	want := entries(10, 12, 1, 100)
	for _, bad := range [][]*raft.Log{
		entries(14, 14, 1, 1),                            // a gap
		entries(12, 13, 1, 1),                            // overwrites
		{entry(13, 1, 1), entry(15, 1, 1)},               // a gap inside
		{entry(13, 1, 1), entry(13, 1, 1)},               // twice
		{entry(0, 1, 1)},                                 // no index
		{entry(9, 1, 1), entry(8, 1, 1), entry(7, 1, 1)}, // before it
	} {
		if err := s.StoreLogs(bad); berth.KindOf(err) != berth.Invalid {
			t.Errorf("entries from %d on: %v", bad[0].Index, err)
		}
		has(t, s, want)
	}
	store(t, s, nil)
	store(t, s, entries(13, 14, 2, 1))
	has(t, s, append(want, entries(13, 14, 2, 1)...))
}

func TestDeletionIsAtTheEnds(t *testing.T) {
	for _, c := range []struct {
		low, high uint64
		left      []*raft.Log // of 10 to 20
		refused   bool
	}{
		{low: 10, high: 14, left: entries(15, 20, 1, 50)},
		{low: 0, high: 10, left: entries(11, 20, 1, 50)},
		{low: 15, high: 20, left: entries(10, 14, 1, 50)},
		{low: 20, high: 99, left: entries(10, 19, 1, 50)},
		{low: 10, high: 20},
		{low: 1, high: 1 << 62},
		{low: 1, high: 9, left: entries(10, 20, 1, 50)},
		{low: 21, high: 30, left: entries(10, 20, 1, 50)},
		{low: 12, high: 13, left: entries(10, 20, 1, 50), refused: true},
		{low: 20, high: 10, left: entries(10, 20, 1, 50), refused: true},
	} {
		t.Run(fmt.Sprintf("%d-%d", c.low, c.high), func(t *testing.T) {
			dir := scratch(t)
			s := open(t, dir)
			store(t, s, entries(10, 20, 1, 50))
			if err := s.DeleteRange(c.low, c.high); (err != nil) != c.refused {
				t.Fatal(err)
			}
			has(t, s, c.left)
			s.Close()
			s = open(t, dir)
			has(t, s, c.left)
			next := uint64(500)
			if n := len(c.left); n > 0 {
				next = c.left[n-1].Index + 1
			}
			store(t, s, entries(next, next+2, 9, 50))
			has(t, s, append(c.left, entries(next, next+2, 9, 50)...))
		})
	}
}

func TestConflictingSuffixIsReplaced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	store(t, s, entries(1, 100, 1, 2000))
	if err := s.DeleteRange(60, 100); err != nil {
		t.Fatal(err)
	}
	store(t, s, entries(60, 80, 2, 3000))
	want := append(entries(1, 59, 1, 2000), entries(60, 80, 2, 3000)...)
	has(t, s, want)
	s.Close()
	has(t, open(t, dir), want)
}

func TestStableStoreKeepsTheVote(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for term := range uint64(5) {
		if err := errors.Join(s.SetUint64([]byte("CurrentTerm"), term), s.Set([]byte("LastVoteCand"), fmt.Appendf(nil, "server number %d", term))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Set([]byte("empty"), nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, dir)
	n, err1 := s.GetUint64([]byte("CurrentTerm"))
	v, err2 := s.Get([]byte("LastVoteCand"))
	if n != 4 || string(v) != "server number 4" || err1 != nil || err2 != nil {
		t.Fatalf("term %d (%v), voted for %q (%v)", n, err1, v, err2)
	}
	if _, err := s.GetUint64([]byte("LastVoteCand")); berth.KindOf(err) != berth.Invalid {
		t.Fatalf("a text as a number: %v", err)
	}
	if err := s.Set(nil, nil); berth.KindOf(err) != berth.Invalid {
		t.Fatalf("an empty key: %v", err)
	}
}

func TestFolderIsForOneStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := Open(dir, quiet()); err == nil || !strings.Contains(err.Error(), "is another process using it?") {
		t.Fatalf("opened twice: %v", err)
	}
	s.Close()
	if err := s.StoreLog(entry(1, 1, 1)); err != errClosed {
		t.Fatalf("append to a closed store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestUnknownFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	path := filepath.Join(dir, metaName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(b, []byte("log 1\n"), []byte("log 2\n"), 1)
	if err := os.WriteFile(path, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, quiet())
	if want := "raft log in " + dir + `: unknown format "2": this build reads 1`; err == nil || err.Error() != want || berth.KindOf(err) != berth.Invalid {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
}

func TestLostFilesAreNoticed(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"meta":     func(dir string) error { return os.Remove(filepath.Join(dir, metaName)) },
		"engine":   func(dir string) error { return os.RemoveAll(filepath.Join(dir, "db")) },
		"tables":   func(dir string) error { return removeAll(dir, "db/*.sst") },
		"manifest": func(dir string) error { return removeAll(dir, "db/MANIFEST-*") },
		"logs":     func(dir string) error { return removeAll(dir, "db/*.log") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := scratch(t)
			s := open(t, dir)
			store(t, s, entries(1, 300, 1, 100<<10)) // a table and more
			s.Close()
			s = open(t, dir)
			store(t, s, entries(301, 310, 1, 1000))
			s.Close()
			if err := lose(dir); err != nil {
				t.Fatal(err)
			}
			_, err := Open(dir, quiet())
			if !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("opened: %v", err)
			}
		})
	}
}

func removeAll(dir, pattern string) error {
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if len(files) == 0 {
		return fmt.Errorf("no %s", pattern)
	}
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

func TestBytesAreCounted(t *testing.T) {
	s := open(t, t.TempDir())
	store(t, s, entries(1, 100, 1, 1000))
	appended, onDisk, err := s.Bytes()
	if err != nil || appended < 100_000 || appended > 110_000 || onDisk < 100_000 {
		t.Fatal(appended, onDisk, err)
	}
}

func TestDeletedEntriesFreeRoom(t *testing.T) {
	s := open(t, scratch(t))
	next := uint64(1)
	for range 3 {
		for range 100 {
			store(t, s, entries(next, next, 1, 1<<20))
			next++
		}
		if err := s.DeleteRange(1, next-10); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(eventually.Limit)
	for {
		_, onDisk, err := s.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if onDisk < 100<<20 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d MiB on disk for 10 of log", onDisk>>20)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	want := entry(7, 3, 100)
	from := newBody(want)
	b := make([]byte, recordSize(&from))
	encodeRecord(b, place{7, 0, 1}, stamp{4, 5}, &from)
	share, parts, at, err := decodeRecord(b, 7, 0)
	if err != nil || at != (stamp{4, 5}) || parts != 1 {
		t.Fatal(parts, at, err)
	}
	var got raft.Log
	if err := decodeBody(share, 7, &got); err != nil || !equal(&got, want) {
		t.Fatal(err, cmp.Diff(want, &got))
	}
	for _, other := range []place{{8, 0, 1}, {7, 1, 1}} {
		if _, _, _, err := decodeRecord(b, other.index, other.part); err == nil {
			t.Fatal("taken for another entry, or part")
		}
	}
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, _, _, err := decodeRecord(b, 7, 0); err == nil {
			t.Fatalf("bit %d flipped, and not noticed", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func newLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
