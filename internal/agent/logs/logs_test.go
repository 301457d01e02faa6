package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	_ "berth/internal/onethread"
	"berth/internal/saferoot"
	"berth/op"
)

func newDir(t *testing.T) (*saferoot.Root, string) {
	t.Helper()
	path := t.TempDir()
	dir, err := saferoot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir, path
}

func newWriter(t *testing.T, dir *saferoot.Root, files int, size int64) *Writer {
	t.Helper()
	w, err := NewWriter(dir, "web", Stdout, files, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// read returns the stream, one line a frame if frames is set.
func read(t *testing.T, dir *saferoot.Root, req Request) string {
	t.Helper()
	var b strings.Builder
	req.Task = "web"
	err := Stream(t.Context(), dir, req, func(f *op.StreamFrame) error {
		b.Write(f.Data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func names(t *testing.T, dir *saferoot.Root) string {
	t.Helper()
	entries, err := dir.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestFilesRotateAndTheOldestGo(t *testing.T) {
	dir, _ := newDir(t)
	w := newWriter(t, dir, 3, 10)
	for i := range 7 {
		fmt.Fprintf(w, "line %03d\n", i) // 9 bytes
	}
	if got, want := names(t, dir), "web.stdout.4 web.stdout.5 web.stdout.6"; got != want {
		t.Errorf("files %q, want %q", got, want)
	}
	if got, want := read(t, dir, Request{}), " 004\nline 005\nline 006\n"; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
	w2 := newWriter(t, dir, 2, 10) // after a restart of the task
	fmt.Fprint(w2, "again\n!!")
	if got, want := names(t, dir), "web.stdout.6 web.stdout.7"; got != want {
		t.Errorf("files %q, want %q", got, want)
	}
	if got, want := read(t, dir, Request{}), "06\nagain\n!!"; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
}

func TestOffsetsCountOverAllFiles(t *testing.T) {
	dir, _ := newDir(t)
	w := newWriter(t, dir, 10, 10)
	const all = "0123456789abcdefghijABCDEFG"
	fmt.Fprint(w, all)
	for off := range int64(len(all) + 5) {
		start := min(off, int64(len(all)))
		if got := read(t, dir, Request{Origin: FromStart, Offset: off}); got != all[start:] {
			t.Errorf("start %d: %q", off, got)
		}
		if got := read(t, dir, Request{Origin: FromEnd, Offset: off}); got != all[int64(len(all))-start:] {
			t.Errorf("end %d: %q", off, got)
		}
	}
	var frames []string
	err := Stream(t.Context(), dir, Request{Task: "web", Offset: 15}, func(f *op.StreamFrame) error {
		frames = append(frames, fmt.Sprintf("%s@%d=%s", f.File, f.Offset, f.Data))
		return nil
	})
	if want := "alloc/logs/web.stdout.1@5=fghij alloc/logs/web.stdout.2@0=ABCDEFG"; err != nil || strings.Join(frames, " ") != want {
		t.Errorf("frames %v, %v; want %s", frames, err, want)
	}
}

func TestWrongRequests(t *testing.T) {
	dir, _ := newDir(t)
	for _, req := range []Request{
		{Task: ""}, {Task: ".."}, {Task: "../x"}, {Task: "a/b"}, {Task: "web", Stream: "stdin"},
		{Task: "web", Origin: "middle"}, {Task: "web", Offset: -1},
	} {
		if err := Stream(t.Context(), dir, req, nil); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// A task's name may end like the name of a log file.
func TestStreamsOfTasksWithLikeNamesStayApart(t *testing.T) {
	dir, path := newDir(t)
	for _, n := range []string{"web.stdout.0", "web.stdout.stdout.0", "web.stdout.01", "web.stdout.-1", "web.stdout.x", "web.stderr.0", "xweb.stdout.0"} {
		if err := os.WriteFile(filepath.Join(path, n), []byte(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, dir, Request{}); got != "web.stdout.0" {
		t.Errorf("read %q", got)
	}
}

// What a task puts in place of a log file is neither written nor read (C05,
// C28).
func TestAdvisory_C05_C28_LinksAndFIFOsAreNotFollowed(t *testing.T) {
	dir, path := newDir(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Symlink(secret, filepath.Join(path, "web.stdout.0")),
		unix.Mkfifo(filepath.Join(path, "web.stdout.1"), 0o666),
		os.Mkdir(filepath.Join(path, "web.stdout.2"), 0o777),
	); err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, dir, 10, 10)
	fmt.Fprint(w, "mine")
	if got := read(t, dir, Request{}); got != "mine" {
		t.Errorf("read %q", got)
	}
	if got := read(t, dir, Request{Origin: FromEnd, Offset: 100}); got != "mine" {
		t.Errorf("from the end %q", got)
	}
	if b, _ := os.ReadFile(secret); string(b) != "secret" {
		t.Errorf("the link was written through: %q", b)
	}
}

func TestAFullDiskLosesOutputAndSaysSo(t *testing.T) {
	dir, _ := newDir(t)
	w := newWriter(t, dir, 10, 1000)
	fmt.Fprint(w, "before\n")
	good := w.out
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	w.out = full
	for range 3 {
		if n, err := fmt.Fprint(w, "0123456789"); n != 10 || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	w.out = good
	fmt.Fprint(w, "after\n")
	got := read(t, dir, Request{})
	if !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "]\nafter\n") || !strings.Contains(got, "30 bytes of output lost: ") || !strings.Contains(got, "no space left") {
		t.Errorf("read %q", got)
	}
}

// follow streams into a buffer until the test ends.
type follow struct {
	bytes.Buffer
	events []string
	beats  int
	err    error
	done   chan struct{}
}

func following(ctx context.Context, dir *saferoot.Root, req Request) *follow {
	f := &follow{done: make(chan struct{})}
	req.Task, req.Follow = "web", true
	go func() {
		defer close(f.done)
		f.err = Stream(ctx, dir, req, func(s *op.StreamFrame) error {
			if s.FileEvent != "" {
				f.events = append(f.events, s.File+" "+s.FileEvent)
			} else if len(s.Data) == 0 {
				f.beats++
			}
			f.Write(s.Data)
			return nil
		})
	}()
	return f
}

func TestFollowingCrossesRotationsAndLosesNothing(t *testing.T) {
	dir, _ := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		f := following(t.Context(), dir, Request{Ended: ended.Load})
		time.Sleep(time.Second) // before there is a file
		w := newWriter(t, dir, 1000, 100)
		rng := rand.New(rand.NewPCG(1, 2))
		var want bytes.Buffer
		for i := range 500 {
			line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", rng.IntN(150)))
			want.WriteString(line)
			fmt.Fprint(w, line)
			if rng.IntN(3) == 0 {
				time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
			}
		}
		ended.Store(true)
		<-f.done
		if f.err != nil || f.String() != want.String() {
			t.Errorf("followed %d bytes of %d, error %v", f.Len(), want.Len(), f.err)
		}
	})
}

func TestFollowingTellsOfDeletedAndTruncatedFiles(t *testing.T) {
	dir, path := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, dir, 1, 10)
		fmt.Fprint(w, "0123456")
		ctx, cancel := context.WithCancel(t.Context())
		f := following(ctx, dir, Request{})
		time.Sleep(time.Second)
		if err := os.Truncate(filepath.Join(path, "web.stdout.0"), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		fmt.Fprint(w, "abc")
		fmt.Fprint(w, "defgh") // into the next file; the first is removed
		time.Sleep(25 * time.Second)
		cancel()
		<-f.done
		if got, want := f.String(), "0123456abcdefgh"; got != want || f.err != nil {
			t.Errorf("followed %q, %v; want %q", got, f.err, want)
		}
		want := "alloc/logs/web.stdout.0 file truncated,alloc/logs/web.stdout.0 file deleted"
		if got := strings.Join(f.events, ","); got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		if f.beats != 2 {
			t.Errorf("%d heartbeats in 25 s, want 2", f.beats)
		}
	})
}

func TestFollowingEndsWithItsReader(t *testing.T) {
	dir, _ := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, dir, 1, 10)
		gone := errors.New("gone")
		fmt.Fprint(w, "x")
		err := Stream(t.Context(), dir, Request{Task: "web", Follow: true}, func(*op.StreamFrame) error { return gone })
		if !errors.Is(err, gone) {
			t.Error(err)
		}
	})
}

// A reader that lost its connection goes on where it was, also if files went
// away meanwhile.
func TestAReaderGoesOnWhereItWas(t *testing.T) {
	dir, _ := newDir(t)
	w := newWriter(t, dir, 3, 10)
	for i := range 5 {
		fmt.Fprintf(w, "line %04d\n", i) // one file each: 2, 3 and 4 are kept
	}
	for _, c := range []struct {
		file   string
		offset int64
		want   string
	}{
		{"alloc/logs/web.stdout.3", 0, "line 0003\nline 0004\n"}, {"alloc/logs/web.stdout.3", 5, "0003\nline 0004\n"}, {"web.stdout.3", 10, "line 0004\n"},
		{"alloc/logs/web.stdout.1", 5, "line 0002\nline 0003\nline 0004\n"}, {"alloc/logs/web.stdout.4", 10, ""}, {"alloc/logs/web.stdout.4", 900, ""}, {"alloc/logs/web.stdout.7", 3, ""},
		{"", 15, "0003\nline 0004\n"},
	} {
		if got := read(t, dir, Request{Stream: Stdout, File: c.file, Offset: c.offset}); got != c.want {
			t.Errorf("%s at %d: %q, want %q", c.file, c.offset, got, c.want)
		}
	}
	for _, req := range []Request{{File: "other.stdout.0"}, {File: "web.stderr.0"}, {File: "web.stdout.x"}, {File: "web.stdout.-1"}, {File: "web.stdout.0", Origin: FromEnd}} {
		req.Task = "web"
		if err := Stream(t.Context(), dir, req, func(*op.StreamFrame) error { return nil }); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%+v: %v", req, err)
		}
	}
}
