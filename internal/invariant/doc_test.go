package invariant_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table in the package's comment has every invariant up to I-32 and all
// that the code looks for, says which function looks, and names tests that
// there are.
func TestTheTableIsTrue(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if id, rest, ok := strings.Cut(strings.TrimPrefix(line, "//\t"), " "); ok && strings.HasPrefix(line, "//\tI-") {
			rows[id] = rest
		}
	}
	for n := range 32 {
		if id := fmt.Sprintf("I-%02d", n+1); rows[id] == "" {
			t.Errorf("the table does not have %s", id)
		}
	}
	literal := regexp.MustCompile(`"(I-\d\d)"`)
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		code, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range literal.FindAllStringSubmatch(string(code), -1) {
			if rows[m[1]] == "" {
				t.Errorf("%s looks for %s, which the table does not have", path, m[1])
			}
		}
	}
	named := regexp.MustCompile(`([a-z]+(?:/[a-z]+)*) (Test\w+)`)
	for id, row := range rows {
		for _, m := range named.FindAllStringSubmatch(row, -1) {
			if !hasTest(t, filepath.Join("..", m[1]), m[2]) && !hasTest(t, filepath.Join("..", "..", m[1]), m[2]) {
				t.Errorf("%s: package %s has no test %s", id, m[1], m[2])
			}
		}
		if strings.Contains(row, "Test") && !named.MatchString(row) {
			t.Errorf("%s names a test without its package: %s", id, row)
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		code, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(code), "func "+name+"(") {
			return true
		}
	}
	return false
}
