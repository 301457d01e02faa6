package saferoot

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"berth/internal/hostile"
)

// C48, a row of docs/advisories.md: the names that must lead nowhere are tried with Go's own os.Root as well, so
// that a version of Go that lets one out is noticed, and Go is new enough.
func TestAdvisory_C48_RootOfTheStandardLibrary(t *testing.T) {
	_, in, secret := newRoot(t)
	if err := os.Symlink("../../outside", filepath.Join(in, "logs", "way-out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(in, "logs", "top")); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenRoot(in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	names := append(hostile.Names(), "logs/way-out/keep", "logs/top/etc/passwd", "logs/way-out", "logs/top", "logs/way-out/../keep", "logs/top/proc/self/environ", "logs/way-out/")
	for _, n := range names {
		f, err := r.Open(n)
		if err != nil {
			continue
		}
		// What opens is inside: the directory itself, or what lies in it.
		at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
		f.Close()
		if err != nil || at != in && !strings.HasPrefix(at, in+"/") {
			t.Errorf("%q leads to %s, %v", n, at, err)
		}
	}
	for what, f := range map[string]func() error{
		"write":  func() error { return r.WriteFile("logs/way-out/made", []byte("x"), 0o644) },
		"remove": func() error { return r.Remove("logs/way-out/keep") },
		"link":   func() error { return r.Link("logs/way-out/keep", "mine") },
		"all":    func() error { return r.RemoveAll("logs/way-out/keep") },
		"rename": func() error { return r.Rename("logs/out", "../out") },
		"chmod":  func() error { return r.Chmod("logs/way-out/keep", 0o777) },
		"mkdir":  func() error { return r.MkdirAll("logs/way-out/d/e", 0o755) },
	} {
		if err := f(); err == nil {
			t.Errorf("%s works outside", what)
		}
	}
	untouched(t, in, secret)
	var major, minor, patch int
	v := strings.Split(strings.TrimPrefix(runtime.Version(), "go"), ".")
	for i, to := range []*int{&major, &minor, &patch} {
		if i < len(v) {
			digits := strings.TrimRight(v[i], "abcdefghijklmnopqrstuvwxyz-:X ")
			*to, _ = strconv.Atoi(digits)
		}
	}
	if major == 1 && (minor < 26 || minor == 26 && patch < 5) {
		t.Errorf("this is %s; 1.26.5 is the first without known ways out", runtime.Version())
	}
}
