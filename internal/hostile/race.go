package hostile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Beside makes files with the text of a secret outside the yard, in the directory
// that links of a [Yard.Race] lead to. Who goes through one of those links finds there
// what it looks for.
func (y *Yard) Beside(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		full := filepath.Join(y.Top, "outside", n)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(Secret), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	y.was = y.beside(t)
}

// Race calls work while the file or directory p of the yard is swapped for links that
// lead out of it, and put back: first with each link in place, then while another
// thread swaps, until both have tried at least the given number of times. It is bounded
// by that number, not by time. Work may fail, remove p and put something else in its place; what it
// must not do is for the caller to look at, and for [Yard.Untouched].
func (y *Yard) Race(t testing.TB, p string, times int, work func()) {
	t.Helper()
	s := swapper{path: filepath.Join(y.In, p), to: y.ways(p)}
	if _, err := os.Lstat(s.path); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * len(s.to) {
		if s.away(i) {
			work()
			s.back(i)
		}
	}
	// Tests that use bubbles run on one thread under the race detector, and a race
	// needs two.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	var tries, swaps atomic.Int64
	over := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			tries.Add(1)
			if s.away(i) {
				swaps.Add(1)
				s.back(i)
			}
		}
	})
	calls := int64(0)
	for ; calls < int64(times) || tries.Load() < int64(times); calls++ {
		work()
	}
	close(over)
	swapping.Wait()
	t.Logf("%s was swapped %d times during %d calls", p, swaps.Load(), calls)
}

// ways are the targets of links in place of p: out of the yard, directly and relative
// to p, and to other places of the yard. None is a place of the host: a test that fails
// must not harm that.
func (y *Yard) ways(p string) []string {
	up, err := filepath.Rel(filepath.Dir(filepath.Join(y.In, p)), y.Top)
	if err != nil {
		up = ".."
	}
	return []string{y.Top + "/outside", up + "/outside", y.Top + "/outside/keep", y.Top + "/secret", up + "/secret", y.Top, y.Top + "/etc", y.Top + "/etc/passwd", up}
}

// swapper swaps a path for a link and back, in two ways by turns: both names at one
// moment, or one after the other, so that for a moment there is none.
type swapper struct {
	path string
	to   []string
}

func (s *swapper) aside() string { return s.path + ".aside" }

// away puts the link of a number in place. It reports false, and changes nothing, if
// there is nothing to swap.
func (s *swapper) away(i int) bool {
	to := s.to[i/2%len(s.to)]
	if i%2 == 0 {
		if os.Symlink(to, s.aside()) != nil {
			return false
		}
		if exchange(s.path, s.aside()) != nil {
			_ = os.Remove(s.aside())
			return false
		}
		return true
	}
	if os.Rename(s.path, s.aside()) != nil {
		return false
	}
	_ = os.Symlink(to, s.path) // unless work has made something there meanwhile
	return true
}

// back puts back what was swapped, in place of what is there by now. If work has
// removed both, nothing is put back.
func (s *swapper) back(i int) {
	for {
		if i%2 == 0 && exchange(s.path, s.aside()) == nil {
			_ = os.RemoveAll(s.aside()) // the link itself, or what work has made of it
			return
		}
		err := os.Rename(s.aside(), s.path)
		if errors.Is(err, fs.ErrNotExist) { // work has removed it
			if st, err := os.Lstat(s.path); err == nil && st.Mode()&fs.ModeSymlink != 0 {
				_ = os.Remove(s.path)
			}
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		_ = os.RemoveAll(s.path)
	}
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
