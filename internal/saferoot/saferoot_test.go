package saferoot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/eventually"
	"berth/internal/hostile"
)

// newRoot is a root beside a secret that nothing may reach.
func newRoot(t *testing.T) (r *Root, in, secret string) {
	t.Helper()
	top := t.TempDir()
	in = filepath.Join(top, "in")
	secret = filepath.Join(top, "secret")
	must(t, os.MkdirAll(filepath.Join(in, "logs", "deep"), 0o755))
	must(t, os.MkdirAll(filepath.Join(in, "task", "secrets"), 0o700))
	must(t, os.WriteFile(filepath.Join(in, "logs", "out"), []byte("hello"), 0o644))
	must(t, os.WriteFile(filepath.Join(in, "task", "secrets", "token"), []byte("inner secret"), 0o600))
	must(t, os.WriteFile(secret, []byte("outer secret"), 0o600))
	must(t, os.MkdirAll(filepath.Join(top, "outside"), 0o755))
	must(t, os.WriteFile(filepath.Join(top, "outside", "keep"), []byte("outer secret"), 0o600))
	r, err := Open(in)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r, in, secret
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entries are all ways to reach a file by a name from outside.
var entries = map[string]func(r *Root, p string) error{
	"read":     func(r *Root, p string) error { _, err := r.ReadFile(p, 1<<20); return err },
	"open":     func(r *Root, p string) error { return closing(r.OpenFile(p, os.O_RDWR, 0)) },
	"create":   func(r *Root, p string) error { return closing(r.OpenFile(p, os.O_WRONLY|os.O_CREATE, 0o600)) },
	"truncate": func(r *Root, p string) error { return closing(r.OpenFile(p, os.O_WRONLY|os.O_TRUNC, 0)) },
	"replace":  func(r *Root, p string) error { return r.Replace(p, []byte("x"), 0o600) },
	"mkdir":    func(r *Root, p string) error { return r.Mkdir(p, 0o777) },
	"mkdirall": func(r *Root, p string) error { return r.MkdirAll(p, 0o777) },
	"chown":    func(r *Root, p string) error { return r.Chown(p, 12345, 12345) },
	"lstat":    func(r *Root, p string) error { _, err := r.Lstat(p); return err },
	"readdir":  func(r *Root, p string) error { _, err := r.ReadDir(p); return err },
	"remove":   func(r *Root, p string) error { return r.Remove(p) },
	"all":      func(r *Root, p string) error { return r.RemoveAll(p) },
	"sub":      func(r *Root, p string) error { s, err := r.Sub(p); closeRoot(s); return err },
}

func closing(f *os.File, err error) error {
	if f != nil {
		_ = f.Close()
	}
	return err
}

func closeRoot(r *Root) {
	if r != nil {
		_ = r.Close()
	}
}

func TestHostileNamesAreRefusedEverywhere(t *testing.T) {
	names := hostile.Names()
	if len(names) < 200 {
		t.Fatalf("only %d names", len(names))
	}
	r, in, secret := newRoot(t)
	for what, f := range entries {
		for _, n := range names {
			if err := f(r, n); berth.KindOf(err) != berth.Invalid {
				t.Errorf("%s %q: %v, want a refusal", what, n, err)
			}
		}
	}
	untouched(t, in, secret)
}

func untouched(t *testing.T, in, secret string) {
	t.Helper()
	for f, want := range map[string]string{
		secret: "outer secret", filepath.Join(filepath.Dir(secret), "outside", "keep"): "outer secret",
		filepath.Join(in, "logs", "out"):              "hello",
		filepath.Join(in, "task", "secrets", "token"): "inner secret",
	} {
		b, err := os.ReadFile(f)
		if err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v; want %q", f, b, err, want)
		}
		var st unix.Stat_t
		if err := unix.Stat(f, &st); err != nil || st.Uid == 12345 {
			t.Errorf("%s was given away", f)
		}
	}
}

func TestLinksAreNeverFollowed(t *testing.T) {
	r, in, secret := newRoot(t)
	top := filepath.Dir(secret)
	targets := []string{
		secret, "../secret", filepath.Join(top, "outside"), "../outside", "/", "/etc", "/proc/self/root", "/proc/self/fd/0",
		"task/secrets", "../task/secrets", "../task/secrets/token", "task/secrets/token", "logs/out", ".", "..", "loop", "nowhere",
	}
	for i, target := range targets {
		must(t, os.Symlink(target, filepath.Join(in, fmt.Sprintf("l%d", i))))
		must(t, os.Symlink(target, filepath.Join(in, "logs", fmt.Sprintf("l%d", i))))
	}
	must(t, os.Symlink("loop", filepath.Join(in, "loop")))
	for i, target := range targets {
		for _, link := range []string{fmt.Sprintf("l%d", i), fmt.Sprintf("logs/l%d", i)} {
			for what, f := range entries {
				if what == "remove" || what == "all" || what == "replace" || what == "lstat" || what == "chown" {
					continue // about the link itself, below
				}
				if err := f(r, link); err == nil {
					t.Errorf("%s followed %s -> %s", what, link, target)
				}
			}
			for what, f := range entries { // and through it
				for _, below := range []string{"keep", "secrets/token", "token", "passwd", "x"} {
					err := f(r, link+"/"+below)
					if err == nil && what != "all" { // nothing there is fine for all
						t.Errorf("%s went through %s -> %s to %s", what, link, target, below)
					}
				}
			}
		}
	}
	for i := range targets { // these change the link, not its target
		for _, link := range []string{fmt.Sprintf("l%d", i), fmt.Sprintf("logs/l%d", i)} {
			if st, err := r.Lstat(link); err != nil || st.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("lstat %s: %v", link, err)
			}
			must(t, r.Chown(link, 12345, 12345))
			must(t, []func() error{
				func() error { return r.Remove(link) },
				func() error { return r.RemoveAll(link) },
				func() error { return errors.Join(r.Replace(link, []byte("x"), 0o600), r.Remove(link)) },
			}[i%3]())
		}
	}
	untouched(t, in, secret)
}

func TestWhatIsNotARegularFileIsNeitherOpenedNorWaitedFor(t *testing.T) {
	r, in, _ := newRoot(t)
	must(t, unix.Mkfifo(filepath.Join(in, "fifo"), 0o666))
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(l)
	must(t, unix.Bind(l, &unix.SockaddrUnix{Name: filepath.Join(in, "sock")}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, p := range []string{"fifo", "sock", "logs"} {
			for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_CREATE | os.O_APPEND} {
				if err := closing(r.OpenFile(p, flag, 0o600)); err == nil {
					t.Errorf("opened %s with %#x", p, flag)
				}
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(eventually.Limit):
		t.Fatal("hangs on a FIFO")
	}
}

func TestReplaceIsWholeOrNothing(t *testing.T) {
	r, in, _ := newRoot(t)
	must(t, r.Replace("state", []byte("one"), 0o600))
	must(t, os.Symlink("../secret", filepath.Join(in, "state.new"))) // left by somebody
	must(t, r.ReplaceSync("state", []byte("two"), 0o640))
	must(t, r.Sync("."))
	b, err := r.ReadFile("state", 3)
	if err != nil || string(b) != "two" {
		t.Fatalf("%q, %v", b, err)
	}
	if _, err := r.ReadFile("state", 2); berth.KindOf(err) != berth.TooLarge {
		t.Errorf("two bytes allowed: %v", err)
	}
	if st, _ := r.Lstat("state"); st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", st.Mode())
	}
	if _, err := r.Lstat("state.new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the new file was left: %v", err)
	}
}

func TestDirectoriesGetTheirPermissionsWhateverTheUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	r, _, _ := newRoot(t)
	must(t, r.MkdirAll("a/b", 0o777))
	must(t, r.Mkdir("a/tmp", 0o777|fs.ModeSticky))
	must(t, r.Mkdir("a/b", 0o711)) // there already
	for p, want := range map[string]fs.FileMode{"a": 0o777, "a/b": 0o711, "a/tmp": 0o777 | fs.ModeSticky} {
		if st, err := r.Lstat(p); err != nil || st.Mode()&^fs.ModeDir != want {
			t.Errorf("%s: %v, %v; want %v", p, st.Mode(), err, want)
		}
	}
	sub, err := r.Sub("a/b")
	must(t, err)
	defer sub.Close()
	must(t, sub.Replace("x", nil, 0o600))
	list, err := r.ReadDir("a")
	if err != nil || len(list) != 2 || list[0].Name() != "b" {
		t.Errorf("%v, %v", list, err)
	}
	must(t, r.RemoveAll("a"))
	must(t, r.RemoveAll("a"))
	if _, err := r.ReadDir("."); err != nil {
		t.Error(err)
	}
	if free, total, err := r.Room(); err != nil || free == 0 || total < free {
		t.Errorf("room %d of %d, %v", free, total, err)
	}
}

func TestDirectoriesThatAreThereKeepTheirPermissions(t *testing.T) {
	r, in, _ := newRoot(t)
	must(t, r.Mkdir("mine", 0o700))
	must(t, r.Mkdir("mine/shared", 0o777|fs.ModeSticky))
	for _, p := range []string{"mine", "mine/shared", "mine/new/deep", "mine/new"} {
		must(t, r.MkdirAll(p, 0o755))
	}
	for p, want := range map[string]fs.FileMode{"mine": 0o700, "mine/shared": 0o777 | fs.ModeSticky, "mine/new": 0o755, "mine/new/deep": 0o755} {
		if st, err := r.Lstat(p); err != nil || st.Mode()&^fs.ModeDir != want {
			t.Errorf("%s: %v, %v; want %v", p, st.Mode(), err, want)
		}
	}
	// What is there and is no directory is an error, at the end and on the way.
	must(t, os.Symlink("mine", filepath.Join(in, "link")))
	for _, p := range []string{"logs/out", "logs/out/deep", "link", "link/deep"} {
		if err := r.MkdirAll(p, 0o755); err == nil {
			t.Errorf("%s is taken for a directory", p)
		}
	}
}

func FuzzPathsStayInside(f *testing.F) {
	for _, n := range hostile.Names() {
		f.Add(n)
	}
	f.Add("logs/out")
	top := f.TempDir()
	in := filepath.Join(top, "in")
	if err := os.MkdirAll(filepath.Join(in, "logs"), 0o755); err != nil {
		f.Fatal(err)
	}
	r, err := Open(in)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if err := r.Replace(p, []byte("x"), 0o600); err == nil {
			must(t, r.RemoveAll(p))
		}
		list, err := os.ReadDir(top)
		if err != nil || len(list) != 1 {
			t.Fatalf("%q reached outside: %v, %v", p, list, err)
		}
	})
}
