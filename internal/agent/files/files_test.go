package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	_ "berth/internal/onethread"
	"berth/internal/saferoot"
	"berth/op"
)

// tree makes an allocation's directory.
func tree(t *testing.T) (*saferoot.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"alloc/logs", "web/local", "web/secrets", "web/private", ".supervise", "alloc/secrets"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"web/local/app.log": "one\ntwo\n", "web/secrets/key": "k", "web/private/x": "p", ".supervise/state": "s", "alloc/secrets/open": "o", "web/local/page": "<html><body>",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"web/local/passwd": "/etc/passwd", "web/local/key": "../secrets/key", "web/local/up": "../..", "web/local/hidden": "../secrets"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "web/local/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := saferoot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

// content reads a file to its end.
func content(root *saferoot.Root, q op.FileSection) (string, error) {
	var b strings.Builder
	err := Stream(context.Background(), root, &q, func() bool { return true }, func(f *op.StreamFrame) error {
		b.Write(f.Data)
		return nil
	})
	return b.String(), err
}

func TestListAndStat(t *testing.T) {
	root, _ := tree(t)
	for _, top := range []string{"", "/", ".", "alloc/.."} {
		list, err := List(root, top)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range list {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != "alloc web" {
			t.Errorf("%q: %s", top, got)
		}
	}
	list, err := List(root, "/web/local/")
	if err != nil || len(list) != 7 || list[0].Name != "app.log" || list[0].Size != 8 || list[0].FileMode != "-rw-r--r--" || list[0].IsDir {
		t.Errorf("%+v %v", list, err)
	}
	st, err := Stat(root, "web/local/page")
	if err != nil || st.Name != "page" || st.ContentType != "text/html; charset=utf-8" || st.Size != 12 || time.Since(st.ModTime) < 0 {
		t.Errorf("%+v %v", st, err)
	}
	if st, err = Stat(root, "/"); err != nil || !st.IsDir || st.Name != "/" {
		t.Errorf("%+v %v", st, err)
	}
	if st, err = Stat(root, "web/local/passwd"); err != nil || st.FileMode[0] != 'L' || st.ContentType != "" {
		t.Errorf("a link is shown as what it is: %+v %v", st, err)
	}
}

// No path reads what is outside the directory, behind a link, a task's secret or
// the agent's own.
func TestNothingElseIsRead(t *testing.T) {
	root, _ := tree(t)
	for path, kind := range map[string]berth.Kind{
		"web/secrets/key": berth.Denied, "/web/secrets": berth.Denied, "web/local/../secrets/key": berth.Denied, "./web//secrets/key": berth.Denied, "web/private/x": berth.Denied,
		".supervise/state": berth.Denied, "/.supervise": berth.Denied, "web/../.supervise/state": berth.Denied,
		"web/local/passwd": berth.Invalid, "web/local/key": berth.Invalid, "web/local/hidden/key": berth.Invalid, "web/local/up/web/secrets/key": berth.Invalid, "web/local/fifo": berth.Invalid,
		"../../../etc/passwd": berth.NotFound, "/etc/passwd": berth.NotFound, "web/local/none": berth.NotFound, "web/local/app.log/x": berth.Invalid,
		"web/local": berth.Invalid, "": berth.Invalid, strings.Repeat("a/", 3000): berth.Invalid, "web/\x00": berth.Invalid, strings.Repeat("a", 300): berth.Invalid,
	} {
		text, err := content(root, op.FileSection{Path: path})
		if text != "" || berth.KindOf(err) != kind {
			t.Errorf("%.40q: %q, %q %v; want %q", path, text, berth.KindOf(err), err, kind)
		}
	}
	for _, path := range []string{"web/secrets", "web/local/hidden", "web/local/up", ".supervise", "web/private"} {
		if list, err := List(root, path); err == nil {
			t.Errorf("%s: %+v", path, list)
		}
		if st, err := Stat(root, path+"/key"); err == nil {
			t.Errorf("%s: %+v", path, st)
		}
	}
	// The shared directory belongs to no task, whatever its names are.
	if text, err := content(root, op.FileSection{Path: "alloc/secrets/open"}); text != "o" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

func TestSections(t *testing.T) {
	root, _ := tree(t)
	const p = "web/local/app.log" // one, two
	for _, c := range []struct {
		q    op.FileSection
		want string
	}{
		{op.FileSection{}, "one\ntwo\n"}, {op.FileSection{Offset: 4}, "two\n"}, {op.FileSection{Offset: 4, Limit: 2}, "tw"}, {op.FileSection{Limit: 100}, "one\ntwo\n"},
		{op.FileSection{Origin: "end", Offset: 4}, "two\n"}, {op.FileSection{Origin: "end", Offset: 400}, "one\ntwo\n"}, {op.FileSection{Offset: 400}, ""}, {op.FileSection{Limit: -1}, "one\ntwo\n"},
	} {
		c.q.Path = p
		if got, err := content(root, c.q); got != c.want || err != nil {
			t.Errorf("%+v: %q %v", c.q, got, err)
		}
	}
	for _, q := range []op.FileSection{{Offset: -1}, {Origin: "middle"}} {
		q.Path = p
		if _, err := content(root, q); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// A follower gets what is written, hears of a truncation, and ends when the
// file was replaced.
func TestFollow(t *testing.T) {
	root, dir := tree(t)
	file := filepath.Join(dir, "web/local/app.log")
	synctest.Test(t, func(t *testing.T) {
		var got []string
		ended := make(chan error, 1)
		go func() {
			ended <- Stream(t.Context(), root, &op.FileSection{Path: "web/local/app.log", Follow: true}, func() bool { return false }, func(f *op.StreamFrame) error {
				if f.FileEvent != "" || len(f.Data) > 0 {
					got = append(got, f.FileEvent+string(f.Data))
				}
				return nil
			})
		}()
		step := func(do func() error) {
			synctest.Wait()
			if err := do(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		step(func() error { return nil })
		step(func() error {
			f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString("three\n")
			return err
		})
		step(func() error { return os.Truncate(file, 0) })
		step(func() error { return os.WriteFile(file, []byte("new\n"), 0) })
		step(func() error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.WriteFile(file, []byte("other\n"), 0o644)
		})
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if s := strings.Join(got, "|"); s != "one\ntwo\n|three\n|file truncated|new\n|file deleted" {
			t.Errorf("%q", s)
		}
	})
}

// Following ends when nobody writes any more, after the last word.
func TestFollowingEndsWithTheAllocation(t *testing.T) {
	root, dir := tree(t)
	over := false
	var got strings.Builder
	err := Stream(t.Context(), root, &op.FileSection{Path: "web/local/app.log", Follow: true}, func() bool {
		defer func() { over = true }()
		if over {
			return true
		}
		f, err := os.OpenFile(filepath.Join(dir, "web/local/app.log"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.WriteString("last\n")
		return false
	}, func(f *op.StreamFrame) error { got.Write(f.Data); return nil })
	if err != nil || got.String() != "one\ntwo\nlast\n" {
		t.Errorf("%q %v", got.String(), err)
	}
}

func TestALargeDirectoryIsNotListed(t *testing.T) {
	root, dir := tree(t)
	for i := range MaxEntries + 1 {
		if err := os.Link(filepath.Join(dir, "web/local/app.log"), filepath.Join(dir, "alloc/logs", "f"+string(rune('a'+i%26))+time.Duration(i).String())); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := List(root, "alloc/logs"); berth.KindOf(err) != berth.TooLarge {
		t.Errorf("%v", err)
	}
}
