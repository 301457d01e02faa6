package pattern

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestMatchString(t *testing.T) {
	p := New(`^[a-z]{1,3}$`)
	for s, want := range map[string]bool{"a": true, "abc": true, "": false, "abcd": false, "A": false} {
		if got := p.MatchString(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// Every pattern of the program is a literal in backquotes that compiles. One that does
// not would panic only when it is used.
func TestAllPatternsCompile(t *testing.T) {
	literal, found := regexp.MustCompile("pattern\\.New\\(`([^`]*)`\\)"), 0
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all := literal.FindAllSubmatch(text, -1)
		if n := bytes.Count(text, []byte("pattern.New(")); n != len(all) {
			t.Errorf("%s: %d of %d patterns are literals in backquotes", path, len(all), n)
		}
		for _, m := range all {
			if _, err := regexp.Compile(string(m[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		found += len(all)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 20 {
		t.Errorf("only %d patterns found", found)
	}
}
