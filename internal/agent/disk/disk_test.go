package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

var dirs = []string{"alloc/data", "db/local"}

// rootAt opens a directory of the test, with files by their paths. A text that
// begins with -> is a link.
func rootAt(t *testing.T, files map[string]string) *saferoot.Root {
	t.Helper()
	dir := t.TempDir()
	for p, text := range files {
		full := filepath.Join(dir, p)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if to, ok := strings.CutPrefix(text, "->"); ok {
			err = errors.Join(err, os.Symlink(to, full))
		} else {
			err = errors.Join(err, os.WriteFile(full, []byte(text), 0o640))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := saferoot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// tree returns what is in a directory, with the text of files and links.
func tree(t *testing.T, r *saferoot.Root) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(r.Path(), func(p string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(p, r.Path()+"/")
		switch {
		case err != nil:
			return err
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(p)
			out[name] = "->" + to
			return err
		case d.Type() == 0 && name != Done:
			b, err := os.ReadFile(p)
			out[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	for p, text := range want {
		if got[p] != text {
			t.Errorf("%s has %.60q, want %.60q", p, got[p], text)
		}
	}
}

var honest = map[string]string{
	"alloc/data/a": "one", "alloc/data/sub/deep/b": strings.Repeat("x", 3*op.MaxDiskBytes+5), "alloc/data/empty": "", "alloc/data/sub/up": "->../a",
	"db/local/conf": "c", "db/secrets/key": "secret", "alloc/logs/db.stdout.0": "log",
}

// taken is what another allocation takes of honest.
func taken() map[string]string {
	out := map[string]string{}
	for p, text := range honest {
		if strings.HasPrefix(p, dirs[0]+"/") || strings.HasPrefix(p, dirs[1]+"/") {
			out[p] = text
		}
	}
	return out
}

// from answers as an honest agent does, after each has looked at the question.
func from(r *saferoot.Root, each func(op.DiskPart) error) Source {
	return func(_ context.Context, p op.DiskPart) (*op.DiskAnswer, error) {
		if each != nil {
			if err := each(p); err != nil {
				return nil, err
			}
		}
		return Read(r, p)
	}
}

func quiet(string) {}

// On one node the data moves: all of it, nothing else, and again after an
// interruption.
func TestMove(t *testing.T) {
	old, to := rootAt(t, honest), rootAt(t, nil)
	if err := Move(old, to, dirs[:1]); err != nil {
		t.Fatal(err)
	}
	if Taken(to) {
		t.Error("it is done before it was said so")
	}
	for range 2 {
		if err := Move(old, to, dirs); err != nil {
			t.Fatal(err)
		}
	}
	if err := Finish(to); err != nil || !Taken(to) {
		t.Errorf("%v", err)
	}
	same(t, tree(t, to), taken())
	same(t, tree(t, old), map[string]string{"db/secrets/key": "secret", "alloc/logs/db.stdout.0": "log"})
}

// A task that made a link of its directory moves nothing that the link leads to.
func TestMoveFollowsNoLink(t *testing.T) {
	outside := rootAt(t, map[string]string{"x": "theirs"})
	old, to := rootAt(t, map[string]string{"alloc/data": "->" + outside.Path(), "db": "->" + outside.Path()}), rootAt(t, nil)
	if err := Move(old, to, dirs); err == nil {
		t.Error("a link was moved")
	}
	same(t, tree(t, to), nil)
	same(t, tree(t, outside), map[string]string{"x": "theirs"})
}

// From another node the data is copied: contents, permissions, times and links.
func TestCopy(t *testing.T) {
	old, to := rootAt(t, honest), rootAt(t, nil)
	when := time.Unix(1_000_000_000, 7)
	if err := os.Chtimes(filepath.Join(old.Path(), "alloc/data/a"), when, when); err != nil {
		t.Fatal(err)
	}
	took, err := Copy{From: from(old, nil), Dirs: dirs, Tell: quiet, Bytes: 1 << 20}.Run(t.Context(), to)
	if err := errors.Join(err, Finish(to)); err != nil {
		t.Fatal(err)
	}
	same(t, tree(t, to), taken())
	same(t, tree(t, old), honest)
	if took.Files != 7 || took.LeftOut != 0 {
		t.Errorf("%+v", took)
	}
	st, err := os.Stat(filepath.Join(to.Path(), "alloc/data/a"))
	if err != nil || st.Mode() != 0o640 || !st.ModTime().Equal(when) {
		t.Errorf("%v, %v", st, err)
	}
}

// Directories with more entries than one answer has are copied whole.
func TestCopyOfManyFiles(t *testing.T) {
	files := map[string]string{}
	for i := range 2*op.MaxDiskEntries + 1 {
		files[fmt.Sprintf("alloc/data/%d", i)] = ""
	}
	to := rootAt(t, nil)
	if _, err := (Copy{From: from(rootAt(t, files), nil), Dirs: dirs, Tell: quiet, Bytes: 1}).Run(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if err := Finish(to); err != nil {
		t.Fatal(err)
	}
	same(t, tree(t, to), files)
}

// A copy that was interrupted anywhere goes on where it ended: nothing is in place
// before all is there, and no part of a file comes twice.
func TestCopyGoesOn(t *testing.T) {
	for stop := 1; ; stop++ {
		old, to := rootAt(t, honest), rootAt(t, nil)
		asked, seen := 0, map[op.DiskPart]int{}
		ctx, cancel := context.WithCancel(t.Context())
		c := Copy{Dirs: dirs, Tell: quiet, Bytes: 1 << 20, From: from(old, func(p op.DiskPart) error {
			if asked++; asked == stop {
				cancel()
				return ctx.Err()
			}
			if !p.List {
				seen[p]++
			}
			return nil
		})}
		_, err := c.Run(ctx, to)
		cancel()
		if err == nil {
			if stop < 8 {
				t.Errorf("%d questions", asked)
			}
			return
		}
		for p := range tree(t, to) {
			if !strings.HasPrefix(p, Staging+"/") {
				t.Errorf("after %d questions there is %s", stop, p)
			}
		}
		if _, err := c.Run(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		if err := Finish(to); err != nil {
			t.Fatal(err)
		}
		same(t, tree(t, to), taken())
		for p, n := range seen {
			if n > 1 {
				t.Errorf("stopped at question %d, %+v came %d times", stop, p, n)
			}
		}
	}
}

// What is wrong at another node ends the copy or is left out, and touches nothing
// outside of the directory.
func TestAdvisory_C13_HostileNodes(t *testing.T) {
	file := func(name string) op.DiskEntry {
		return op.DiskEntry{Name: name, Kind: op.DiskFile, Size: 1, Mode: 0o6777}
	}
	list := func(all ...op.DiskEntry) *op.DiskAnswer { return &op.DiskAnswer{State: op.DiskReady, Entries: all} }
	more := func(a *op.DiskAnswer) *op.DiskAnswer { a.More = true; return a }
	link := func(text string) op.DiskEntry { return op.DiskEntry{Name: "l", Kind: op.DiskLink, Link: text} }
	type at = func(op.DiskPart) *op.DiskAnswer
	always := func(a *op.DiskAnswer) at { return func(op.DiskPart) *op.DiskAnswer { return a } }
	data := func(n int, a *op.DiskAnswer) at {
		return func(p op.DiskPart) *op.DiskAnswer {
			if p.List {
				return a
			}
			return &op.DiskAnswer{State: op.DiskReady, Data: make([]byte, n)}
		}
	}
	stories := map[string]struct {
		from at
		want string // "" is that the copy succeeds
	}{
		"too much":       {always(list(op.DiskEntry{Name: "a", Kind: op.DiskFile, Size: 1 << 50})), "more than 1 MiB"},
		"negative":       {always(list(op.DiskEntry{Name: "a", Kind: op.DiskFile, Size: -1})), "more than 1 MiB"},
		"more than said": {data(2, list(file("a"))), "another size"},
		"less than said": {data(0, list(file("a"))), "another size"},
		"no end": {func(p op.DiskPart) *op.DiskAnswer {
			if p.List {
				return more(list(file(p.After + "a")))
			}
			return &op.DiskAnswer{State: op.DiskReady, Data: []byte{1}}
		}, "more than 200 files"},
		"no order":       {data(1, list(file("b"), file("a"))), "not in order"},
		"twice":          {data(1, list(file("a"), file("a"))), "not in order"},
		"empty pages":    {always(more(list())), "never ends"},
		"deep":           {always(list(op.DiskEntry{Name: "d", Kind: op.DiskDir})), "too deep"},
		"device":         {always(list(op.DiskEntry{Name: "a", Kind: "device"})), "neither a file"},
		"through a link": {data(1, list(link("/etc"), op.DiskEntry{Name: "l/x", Kind: op.DiskFile, Size: 1})), "slash"},
	}
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "a/b", "a\x00", "a\\b", strings.Repeat("a", 256), "../../../../../../tmp/x"} {
		stories["name "+name] = struct {
			from at
			want string
		}{data(1, list(file(name))), "cannot be taken"}
	}
	for _, text := range []string{"/etc/passwd", "..", "../..", "../x/../../y", "./../x", "", "a/../../b", strings.Repeat("a/", 3000)} {
		stories["link "+berth.Clip(text, 20)] = struct {
			from at
			want string
		}{always(list(link(text))), ""}
	}
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			to := rootAt(t, nil)
			_, err := Copy{From: func(_ context.Context, p op.DiskPart) (*op.DiskAnswer, error) { return s.from(p), nil }, Dirs: dirs[:1], Tell: quiet, Bytes: 1 << 20, Files: 200}.Run(t.Context(), to)
			if s.want == "" && err != nil || s.want != "" && (err == nil || !strings.Contains(err.Error(), s.want)) {
				t.Errorf("%v; want %q", err, s.want)
			}
			if err := Finish(to); err != nil {
				t.Fatal(err)
			}
			same(t, tree(t, to), nil) // neither what was refused nor a link
		})
	}
}

// Files come without the rights of other users, and a link that a task left in the
// place of a file is not written through.
func TestCopyGivesNoRights(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("v"), 0o600); err != nil {
		t.Fatal(err)
	}
	old, to := rootAt(t, map[string]string{"alloc/data/su": "s"}), rootAt(t, nil)
	if err := os.Chmod(filepath.Join(old.Path(), "alloc/data/su"), 0o755|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(old.Path(), "alloc/data/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Copy{From: from(old, nil), Dirs: dirs, Tell: quiet, Bytes: 9}).Run(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if err := Finish(to); err != nil {
		t.Fatal(err)
	}
	same(t, tree(t, to), map[string]string{"alloc/data/su": "s"})
	if st, err := os.Stat(filepath.Join(to.Path(), "alloc/data/su")); err != nil || st.Mode() != 0o755 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// An allocation that runs is waited for; a node that cannot be reached is not for
// long; one that is gone is not at all.
func TestCopyWaits(t *testing.T) {
	for name, s := range map[string]struct {
		answer func(asked int) (*op.DiskAnswer, error)
		asked  int
		took   time.Duration
		want   string
	}{
		"in use": {func(n int) (*op.DiskAnswer, error) {
			if n <= 600 {
				return &op.DiskAnswer{State: op.DiskInUse}, nil
			}
			return &op.DiskAnswer{State: op.DiskReady}, nil
		}, 602, 600 * time.Second, ""},
		"unreachable": {func(int) (*op.DiskAnswer, error) { return nil, berth.Errorf(berth.Unavailable, "nobody answers") }, mostTries, 15 * time.Second, "cannot be reached"},
		"gone": {func(int) (*op.DiskAnswer, error) {
			return &op.DiskAnswer{State: op.DiskMissing, Why: "node n is down"}, nil
		}, 1, 0, "node n is down"},
		"denied": {func(int) (*op.DiskAnswer, error) { return nil, berth.Errorf(berth.Denied, "Permission denied") }, 1, 0, "Permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			to := rootAt(t, nil)
			synctest.Test(t, func(t *testing.T) {
				asked, told, began := 0, 0, time.Now()
				_, err := Copy{Dirs: dirs, Tell: func(string) { told++ }, Bytes: 1, From: func(context.Context, op.DiskPart) (*op.DiskAnswer, error) {
					asked++
					return s.answer(asked)
				}}.Run(t.Context(), to)
				var m *Missing
				if s.want == "" && err != nil || s.want != "" && (!errors.As(err, &m) || !strings.Contains(err.Error(), s.want)) {
					t.Errorf("%v", err)
				}
				if asked != s.asked || time.Since(began) != s.took || told == 0 && s.took > 0 {
					t.Errorf("asked %d times in %v, told %d times", asked, time.Since(began), told)
				}
			})
		})
	}
}
