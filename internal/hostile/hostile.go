// Package hostile is a corpus for tests: names and links that somebody sends in order
// to get out of a directory, and a yard in which it shows if they do. Each place where
// names come from outside is tried with all of them.
package hostile

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Secret is the text of the files that nothing may reach.
const Secret = "outer secret"

// Yard is a directory, and beside it what nothing may reach or change.
type Yard struct {
	Top string // holds In, and what is beside it
	In  string
	was map[string]string
}

// NewYard makes a yard with an empty directory in it.
func NewYard(t testing.TB) *Yard {
	t.Helper()
	y := &Yard{Top: t.TempDir()}
	y.In = filepath.Join(y.Top, "in")
	for _, f := range []string{"secret", "outside/keep", "etc/passwd"} {
		full := filepath.Join(y.Top, f)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(Secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(y.In, 0o755); err != nil {
		t.Fatal(err)
	}
	y.was = y.beside(t)
	return y
}

// beside describes all that is beside the directory.
func (y *Yard) beside(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(y.Top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == y.Top {
			return err
		}
		if p == y.In {
			return fs.SkipDir
		}
		st, err := os.Lstat(p)
		if err != nil {
			return err
		}
		text, _ := os.ReadFile(p)
		out[p] = fmt.Sprintf("%v %s %v", st.Mode(), text, owner(st))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Untouched fails the test if anything beside the directory was changed, made or
// removed, or if anything in it leads out: a link, or the text of a secret.
func (y *Yard) Untouched(t testing.TB, what string) {
	t.Helper()
	is := y.beside(t)
	for p, was := range y.was {
		if is[p] != was {
			t.Errorf("%s: %s was %s and is %s", what, p, was, is[p])
		}
	}
	for p := range is {
		if _, known := y.was[p]; !known {
			t.Errorf("%s: %s was made", what, p)
		}
	}
	for _, p := range Escapes(t, y.In) {
		t.Errorf("%s: %s", what, p)
	}
}

// Escapes says what in a directory leads out of it: links, files with the text of a
// secret, and what is neither a file nor a directory nor a link.
func Escapes(t testing.TB, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch d.Type() {
		case fs.ModeDir:
		case fs.ModeSymlink:
			to, err := os.Readlink(p)
			if full := path.Join(path.Dir(rel), to); err != nil || path.IsAbs(to) || full == ".." || strings.HasPrefix(full, "../") {
				out = append(out, fmt.Sprintf("the link %.80q leads to %.80q", rel, to))
			}
		case 0:
			if text, err := os.ReadFile(p); err != nil || strings.Contains(string(text), Secret) {
				out = append(out, fmt.Sprintf("the file %.80q has a secret, %v", rel, err))
			}
		default:
			out = append(out, fmt.Sprintf("%.80q is %v", rel, d.Type()))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Names are paths that must be refused whatever is there, or at least lead nowhere
// where names may be cleaned first.
func Names() []string {
	out := []string{
		"", "..", "../secret", "../../etc/passwd", "/", "/etc/passwd", "logs/../../secret", "logs/..", "logs/../out",
		"./logs", "logs/.", "logs//out", "logs/", "//", "logs/out/", ".\x00", "logs\x00", "logs/out\x00.txt", "\x00",
		"..\\secret", "logs\\..\\..\\secret", "\\\\host\\share", "C:\\x", "logs/..\\x",
		strings.Repeat("a", 256), strings.Repeat("a/", 4000), "logs/" + strings.Repeat("b", 300),
		"...//..", "logs/deep/../../../secret", "/proc/self/root/etc/passwd", "logs/./../../secret",
	}
	for _, up := range []string{"../", "x/../../", "logs/deep/../../../", "/../"} {
		for n := 1; n < 12; n++ {
			for _, end := range []string{"secret", "etc/passwd", "outside/keep", "in/../secret", "."} {
				out = append(out, strings.Repeat(up, n)+end)
			}
		}
	}
	return out
}

// Odd are names that are harmless as they are: they would lead out if somebody
// decoded, folded or expanded them, or took them for an option.
func Odd() []string {
	return []string{
		"..%2fsecret", "%2e%2e%2fsecret", "%2e%2e/secret", "..%252fsecret", "..%c0%afsecret", "..%00/secret", "\u2025/secret", "\uff0e\uff0e/secret", "..\u2215secret", "..\u2044secret",
		"...", "....", "..secret", ".. ", " ..", "..;", "..\n", "..\r", "\t..", "..:secret", "~", "~root", "~/secret", "$HOME", "${NOMAD_SECRETS_DIR}", "$(id)", "`id`", "*", "?", "[a-z]", "{..,x}",
		"-rf", "--help", "-", "--", "-o/etc/passwd", "@secret", "|id", ";id", "&id", ">secret", "<secret", "a\nb", "a\x1b[31mb", "a\x7fb", "\ufeffsecret", "secret\u202etxt", "CON", "aux", "nul.txt", "COM1",
		".fetch", ".supervise", ".git", ".ssh", "proc", "dev", "sys", "etc", "CSI", "csi.sock",
	}
}

// Links are targets of links that lead out of the yard, to a place that only some may
// see, nowhere, or in a circle.
func (y *Yard) Links() []string {
	out := []string{
		"/", "/etc", "/etc/passwd", "/proc", "/proc/self", "/proc/self/root", "/proc/self/cwd", "/proc/self/fd/0", "/proc/1/root", "/proc/self/environ", "/dev", "/dev/null", "/sys", "/tmp", "/root", "/var/run",
		y.Top, y.Top + "/", y.Top + "/secret", y.Top + "/outside", y.Top + "/outside/keep", y.Top + "/in/../secret", y.Top + "/in/../outside", y.Top + "/in/./../secret", "//" + y.Top + "/secret",
		"..", "../..", "../", "./..", "./../secret", "a/../../secret", "../secret", "../outside", "../outside/keep", "../in/../secret", "self/../../secret",
	}
	for n := 2; n < 8; n++ {
		up := strings.Repeat("../", n)
		out = append(out, up+"secret", up+"outside/keep", up+"etc/passwd", "./"+up+"secret", up)
	}
	return out
}

// Spread names each hostile link after a name in the directory, for tests that put them
// there: link0, link1 …
func (y *Yard) Spread(t testing.TB, dir string) (names []string) {
	t.Helper()
	for i, to := range y.Links() {
		name := fmt.Sprintf("link%d", i)
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return slices.Clip(names)
}
