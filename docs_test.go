package berth_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	code      = regexp.MustCompile("`([^`]+)`")
	namedTest = regexp.MustCompile(`^(?:([a-z][a-z/]*)\.)?(Test\w+)$`)
	aStory    = regexp.MustCompile(`(?m)^\t\{"([^"]+)", func\(d \*desk\)`)
)

// Every test that docs/evaluations.md names is there: stories of package
// worker, Go tests, scripts and packages with tests. And every story of package
// worker stands in a row.
func TestEvaluationsNamesWhatIsThere(t *testing.T) {
	text := read(t, "docs/evaluations.md")
	stories := map[string]bool{} // those of package worker; true if a row has it
	for _, m := range aStory.FindAllStringSubmatch(read(t, "internal/worker/rows_test.go"), -1) {
		stories[m[1]] = false
	}
	named := 0
	for n, row := range strings.Split(text, "\n") {
		cells := strings.Split(strings.Trim(row, "| "), "|")
		if !strings.HasPrefix(row, "| ") || len(cells) < 4 {
			continue
		}
		for _, cell := range cells[len(cells)-2:] { // Story, End to end
			dir := ""
			for _, m := range code.FindAllStringSubmatch(cell, -1) {
				name := m[1]
				_, isStory := stories[name]
				test := namedTest.FindStringSubmatch(name)
				switch {
				case isStory:
					stories[name] = true
				case test != nil:
					if test[1] != "" {
						dir = test[1]
					}
					if !declared(t, dir, test[2]) {
						t.Errorf("line %d: package %q has no test %s", n+1, dir, test[2])
					}
				case strings.HasSuffix(name, ".txtar"):
					if _, err := os.Stat(folder(name)); err != nil {
						t.Errorf("line %d: %v", n+1, err)
					}
				default:
					if found, _ := filepath.Glob(filepath.Join(folder(name), "*_test.go")); len(found) == 0 {
						t.Errorf("line %d: %q is no story, no test, no script, and no package with tests", n+1, name)
					}
				}
				named++
			}
		}
	}
	for name, stands := range stories {
		if !stands {
			t.Errorf("no row has the story %q", name)
		}
	}
	if named < 50 || len(stories) < 20 {
		t.Errorf("%d names and %d stories were found", named, len(stories))
	}
}

// folder returns where a path of ours is. Docs leave out internal/, as most
// packages are below it.
func folder(name string) string {
	if inside := filepath.Join("internal", name); name != "" {
		if _, err := os.Stat(inside); err == nil {
			return inside
		}
	}
	return name
}

// declared says whether a package has a test of that name.
func declared(t *testing.T, dir, test string) bool {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(folder(dir), "*_test.go"))
	for _, f := range files {
		if strings.Contains(read(t, f), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
