package plugin

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The longest path that is taken is one at which go-plugin can listen, and a longer
// one is refused before a plugin fails on it.
func TestTheDirectoryForSocketsIsShortEnough(t *testing.T) {
	const node = "0123456789"
	base, err := os.MkdirTemp("", "") // t.TempDir is too long
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	fill := func(dir int) string {
		n := dir - len(base) - len("//berth-plugins-01234567")
		if n < 1 {
			t.Fatalf("%s is too long for this test", base)
		}
		temp := filepath.Join(base, strings.Repeat("x", n))
		if err := os.Mkdir(temp, 0o700); err != nil {
			t.Fatal(err)
		}
		return temp
	}
	if dir, err := socketDir(fill(longestSocket-socketBelow+1), node); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("%q, %v", dir, err)
	}
	temp := fill(longestSocket - socketBelow)
	for range 2 { // the second replaces what a killed agent left
		dir, err := socketDir(temp, node)
		if err != nil {
			t.Fatal(err)
		}
		below := filepath.Join(dir, "plugin-dir4294967295")
		if err := os.Mkdir(below, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(below, "plugin4294967295"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
