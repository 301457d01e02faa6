package logstore

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

var long = flag.Bool("long", false, "every byte, every kill: minutes instead of seconds")

// every returns short, or long if the flag says so.
func every(short, all int) int {
	if *long {
		return all
	}
	return short
}

// written is a folder as kill -9 left it, and what it must still hold.
type written struct {
	dir  string
	logs []*raft.Log
	ends []int64 // where the engine's newest log file ended after each entry; 0 for those in older files
}

// write makes a folder: one session with tables, then one that ended with a
// crash. size returns the size of entry i of the second.
func write(t *testing.T, n int, size func(i int) int) written {
	t.Helper()
	live := filepath.Join(scratch(t), "live")
	s := open(t, live)
	w := written{dir: filepath.Join(scratch(t), "crashed")}
	w.logs = entries(1, 40, 1, 8000)
	for batch := range slices.Chunk(w.logs, 10) {
		store(t, s, batch)
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 7); err != nil {
		t.Fatal(err)
	}
	s.Close()
	w.ends = make([]int64, len(w.logs))
	s = open(t, live)
	for i := range n {
		l := entry(uint64(len(w.logs)+1), 2, size(i))
		store(t, s, []*raft.Log{l})
		info, err := os.Stat(newestLog(t, live))
		if err != nil {
			t.Fatal(err)
		}
		w.logs, w.ends = append(w.logs, l), append(w.ends, info.Size())
	}
	copyLive(t, w.dir, live) // between two appends nothing is written: a crash
	return w
}

// copyLive copies the folder of an open store. The engine deletes files that it
// no longer needs in the background, so one can go between being listed and
// being read; then the copy starts again.
func copyLive(t *testing.T, to, from string) {
	t.Helper()
	for {
		err := os.CopyFS(to, os.DirFS(from))
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

// scratch returns an empty folder in memory, if the system has one: hundreds of
// damaged copies are made, and none of them needs a real disk.
func scratch(t testing.TB) string {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "logstore")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newestLog(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "db", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatal("no log file", err)
	}
	return slices.Max(files)
}

// after copies the folder, does harm to the copy and opens it. It returns how
// many entries are there, or the refusal.
func (w written) after(t *testing.T, harm func(dir string)) (n int, refusal error) {
	t.Helper()
	dir := filepath.Join(scratch(t), "copy")
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	harm(dir)
	s, err := Open(dir, quiet())
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "unknown format") {
			t.Fatalf("refused, but not for damage: %v", err)
		}
		if strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
			t.Fatalf("not one clear line: %v", err)
		}
		return 0, err
	}
	defer s.Close()
	last, err := s.LastIndex()
	if err != nil || last > uint64(len(w.logs)) {
		t.Fatal(last, err)
	}
	has(t, s, w.logs[:last])
	if term, err := s.GetUint64([]byte("CurrentTerm")); term != 7 || err != nil {
		t.Fatalf("the vote is lost: term %d, %v", term, err)
	}
	// What is left must be a log that can go on.
	more := entries(last+1, last+3, 9, 100)
	store(t, s, more)
	has(t, s, append(slices.Clone(w.logs[:last]), more...))
	return int(last), nil
}

// cuts are where a torn end is tried: at every byte of the end of the newest log
// file, and at every 512 bytes of its last 64 KiB.
func (w written) cuts() (out []int64) {
	end := w.ends[len(w.ends)-1]
	for d := int64(0); d <= 4096; d += int64(every(67, 1)) {
		out = append(out, end-d)
	}
	for d := int64(0); d <= 64<<10; d += int64(every(5120, 512)) {
		out = append(out, max(end-d, 0))
	}
	return out
}

// cut ends the newest log file of a directory at an offset. After a power cut
// the file synced may know nothing of this session.
func cut(t *testing.T, dir string, at int64, power bool) {
	t.Helper()
	if err := os.Truncate(newestLog(t, dir), at); err != nil {
		t.Fatal(err)
	}
	if power {
		if err := os.WriteFile(filepath.Join(dir, "synced"), make([]byte, 1024), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCutTailIsRefused cuts a log whose end was acknowledged, between two
// appends and in the middle of one: nothing of it may be missing. Only if the
// operator accepts the loss the log goes on with what is left.
func TestCutTailIsRefused(t *testing.T) {
	w := write(t, 60, func(i int) int { return []int{10, 700, 4000}[i%3] })
	last := w.ends[len(w.ends)-1]
	for _, at := range append(w.cuts(), w.ends[40:]...) {
		if _, refusal := w.after(t, func(dir string) { cut(t, dir, at, false) }); at < last && refusal == nil {
			t.Fatalf("cut at %d of %d: the log goes on without what was acknowledged", at, last)
		}
	}
	dir := filepath.Join(scratch(t), "copy")
	if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	cut(t, dir, w.ends[71], false)
	_, err := Open(dir, quiet())
	if want := "the log must reach entry 100, which was on disk, but ends with 72"; !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
		t.Fatalf("refused with: %v\nwant: %s", err, want)
	}
	if got, err := Summarize(dir); err != nil || got.Last != 100 || !got.Exact || len(got.Keys) != 1 {
		t.Errorf("the summary is %+v, %v", got, err)
	}
	o := quiet()
	o.Accept = func(s *Store, l Loss) error {
		has(t, s, w.logs[:72]) // the store can be read meanwhile
		return fmt.Errorf("%d of %d", l.Last, l.Required)
	}
	if _, err := Open(dir, o); err == nil || err.Error() != "72 of 100" {
		t.Errorf("not accepted: %v", err)
	}
	o.Accept = func(*Store, Loss) error { return nil }
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, dir) // what was accepted once is not asked again
	defer s.Close()
	has(t, s, w.logs[:72])
}

// TestTornTailIsCut cuts the log as a power cut may leave it that happened
// before the end was acknowledged: what was wholly before the cut is there.
func TestTornTailIsCut(t *testing.T) {
	w := write(t, 60, func(i int) int { return []int{10, 700, 4000}[i%3] })
	end := w.ends[len(w.ends)-1]
	for _, cutAt := range w.cuts() {
		n, refusal := w.after(t, func(dir string) { cut(t, dir, cutAt, true) })
		want := 0
		for want < len(w.ends) && w.ends[want] <= cutAt {
			want++
		}
		if refusal != nil || n != want {
			t.Fatalf("cut at %d of %d: %d entries, want %d (%v)", cutAt, end, n, want, refusal)
		}
	}
}

// TestTornTailIsLogged tells the operator what became of the append that a
// crash left unfinished.
func TestTornTailIsLogged(t *testing.T) {
	w := write(t, 10, func(int) int { return 2000 })
	cut(t, w.dir, w.ends[len(w.ends)-1]-500, true)
	var said bytes.Buffer
	s, err := Open(w.dir, Options{Logger: newLogger(&said)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	has(t, s, w.logs[:len(w.logs)-1])
	if !strings.Contains(said.String(), "removed an append that is incomplete, as a crash leaves it") || !strings.Contains(said.String(), "last=49") {
		t.Fatalf("said:\n%s", said.String())
	}
}

// TestFlippedBitsAreNoticed flips bits in all files. What is read back is what
// was written; entries may be missing only at the end, and there only those of
// the one append that could have been torn, unless the store refuses.
func TestFlippedBitsAreNoticed(t *testing.T) {
	w := write(t, 120, func(i int) int { return 50 + i*37%3000 })
	files := allFiles(t, w.dir)
	r := rand.New(rand.NewPCG(1, 2))
	outcome := map[string]int{}
	for range every(150, 5000) {
		name := files[r.IntN(len(files))]
		at := r.Float64()
		bit := byte(1) << r.IntN(8)
		n, refusal := w.after(t, func(dir string) {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > 0 {
				b[int(at*float64(len(b)))] ^= bit
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		})
		switch {
		case refusal != nil:
			outcome["refused"]++
		case n == len(w.logs):
			outcome["harmless"]++
		case n == len(w.logs)-1:
			outcome["last append cut"]++
		default:
			t.Fatalf("bit %08b at %.4f of %s: %d of %d entries are left, and it said nothing", bit, at, name, n, len(w.logs))
		}
	}
	t.Log(outcome)
	if outcome["refused"] == 0 {
		t.Fatal("no flip was noticed at all")
	}
}

// TestZeroedPagesAreNoticed does the same with pages that read as zeros, or
// that the disk took for another file's.
func TestZeroedPagesAreNoticed(t *testing.T) {
	w := write(t, 120, func(i int) int { return 50 + i*37%3000 })
	outcome := map[string]int{}
	for _, name := range allFiles(t, w.dir) {
		info, err := os.Stat(filepath.Join(w.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		pages := int(info.Size()+4095) / 4096
		for p := 0; p < pages; p += max(1, pages/every(8, 200)) {
			for _, fill := range []byte{0, 0xa5} {
				n, refusal := w.after(t, func(dir string) { fillPage(t, filepath.Join(dir, name), p, fill) })
				switch {
				case refusal != nil:
					outcome["refused"]++
				case n == len(w.logs):
					outcome["harmless"]++
				case strings.HasSuffix(name, ".log") && w.ends[len(w.ends)-2] < int64(p+1)*4096:
					// The page holds where the last append begins, and so
					// nothing after it tells: it looks like a torn write.
					outcome["last page cut"]++
				default:
					t.Fatalf("page %d of %d of %s: %d of %d entries are left, and it said nothing", p, pages, name, n, len(w.logs))
				}
			}
		}
	}
	t.Log(outcome)
}

func fillPage(t *testing.T, path string, page int, with byte) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := page * 4096; i < min(len(b), (page+1)*4096); i++ {
		b[i] = with
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func allFiles(t *testing.T, dir string) (names []string) {
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
