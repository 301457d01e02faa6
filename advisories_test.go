package berth_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	aRow       = regexp.MustCompile(`(?m)^\| (C\d\d) \| [^|]+ \| [^|]+ \| ([^|]+) \|$`)
	anAdvisory = regexp.MustCompile(`(?m)^func (TestAdvisory((?:_C\d\d)+)\w*)\(t \*testing\.T\)`)
	aTest      = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`")
)

// docs/advisories.md has a row for each of 50 advisories. A row names tests that are
// there and have its number, or says what it waits for; and each test with the number
// of a row stands in it.
func TestAdvisoriesAreListed(t *testing.T) {
	there := map[string]string{} // the numbers of each test, by directory and name
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range anAdvisory.FindAllStringSubmatch(string(b), -1) {
			there[strings.TrimPrefix(filepath.Dir(path), "internal/")+"."+m[1]] = m[2]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range aRow.FindAllStringSubmatch(read(t, "docs/advisories.md"), -1) {
		rows[m[1]] = m[2]
	}
	for n := 1; n <= 50; n++ {
		row := fmt.Sprintf("C%02d", n)
		tests := aTest.FindAllStringSubmatch(rows[row], -1)
		if len(tests) == 0 && !strings.HasPrefix(rows[row], "Waits for ") {
			t.Errorf("%s names no test, and does not say what it waits for: %q", row, rows[row])
		}
		for _, m := range tests {
			if numbers, ok := there[m[1]+"."+m[2]]; strings.HasPrefix(m[2], "Test") && (!ok || !strings.Contains(numbers, row)) {
				t.Errorf("%s names %s.%s, which is not there or does not have its number", row, m[1], m[2])
			}
		}
	}
	if len(rows) != 50 {
		t.Errorf("there are %d rows", len(rows))
	}
	for test, numbers := range there {
		for _, row := range strings.Split(strings.TrimPrefix(numbers, "_"), "_") {
			if !strings.Contains(rows[row], "`"+test+"`") {
				t.Errorf("%s is not in row %s of docs/advisories.md", test, row)
			}
		}
	}
}
