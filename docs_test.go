package berth_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/admit"
	"berth/internal/cli"
	"berth/internal/config"
	"berth/internal/driverconfig"
	"berth/internal/limit"
)

var update = flag.Bool("update", false, "write the pages that are made from code")

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

// The pages about evaluations name every trigger of the root package.
func TestEveryTriggerIsExplained(t *testing.T) {
	triggers := regexp.MustCompile(`(?m)^\tTrigger\w+ += "([a-z-]+)"`).FindAllStringSubmatch(read(t, "eval.go"), -1)
	if len(triggers) < 15 {
		t.Fatalf("only %d triggers were found in eval.go", len(triggers))
	}
	for _, page := range []string{"docs/life-of-a-job.md", "docs/evaluations.md"} {
		text := read(t, page)
		for _, m := range triggers {
			if !strings.Contains(text, "`"+m[1]+"`") {
				t.Errorf("%s does not name the trigger %s", page, m[1])
			}
		}
	}
}

// docs/life-of-a-job.md names the hooks of a task in their order.
func TestHooksAreListed(t *testing.T) {
	table, _, _ := strings.Cut(read(t, "internal/agent/task/hooks.go"), "\n}\n")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\t\{"([^"]+)", `).FindAllStringSubmatch(table, -1) {
		names = append(names, m[1])
	}
	page := strings.Join(strings.Fields(read(t, "docs/life-of-a-job.md")), " ")
	if want := "(`agent/task/hooks.go`: " + strings.Join(names, ", ") + ")"; len(names) < 15 || !strings.Contains(page, want) {
		t.Errorf("docs/life-of-a-job.md must say %s", want)
	}
}

// The layers of docs/architecture.md are those that map_test.go enforces.
func TestArchitectureShowsTheLayers(t *testing.T) {
	m := regexp.MustCompile("(?s)```layers\n(.*?)```").FindStringSubmatch(read(t, "docs/architecture.md"))
	if m == nil || strings.TrimSpace(m[1]) != strings.TrimSpace(layers) {
		t.Errorf("the layers in docs/architecture.md are not those of map_test.go; they are:\n%s", layers)
	}
}

// docs/unsupported.md lists what the tables of admit, config and cli refuse.
func TestUnsupportedIsListed(t *testing.T) {
	commands, flags := cli.Unsupported()
	var b strings.Builder
	b.WriteString("# What is refused by name\n\nNomad has these, and Berth does not support them yet. Nothing is ignored: each is an error that names it.\n" +
		"Only an unsupported driver is a warning.\n" +
		"This page is made from the tables that refuse: `go test . -run TestUnsupportedIsListed -update`.\n")
	for _, part := range []struct {
		title string
		names []string
	}{
		{"Job files", admit.Unsupported()}, {"Drivers: a task that names one is accepted with a warning and waits for an agent that has it", driverconfig.Foreign()},
		{"Agent configuration, unless the value asks for nothing", config.Unsupported()},
		{"Commands", commands}, {"Flags", flags},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		for _, name := range part.names {
			fmt.Fprintf(&b, "* `%s`\n", name)
		}
	}
	const file = "docs/unsupported.md"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, file) != b.String() {
		t.Errorf("%s is not what the code refuses; run this test with -update and read the diff", file)
	}
}

// docs/limits.md is what the code declares.
func TestLimitsAreListed(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Limits

What an agent takes on at most, and what happens beyond that. A limit with a configuration key can be changed there. The metrics
` + "`nomad_limit_allowed`, `nomad_limit_peak` and `nomad_limit_refused`" + `, each with the label ` + "`limit`" + `, show each limit in force, the highest use of
late, and how often something was refused. From 80 % on, and when something is refused, the agent logs a line with the name of the limit,
at most once a minute.

This page is made from the declarations in code: ` + "`go test . -run TestLimitsAreListed -update`" + `.

| Limit | What is limited | Default | Configuration key | Beyond it |
|---|---|---|---|---|
`)
	var single strings.Builder
	for _, l := range limit.All() {
		if l.Single {
			fmt.Fprintf(&single, "| `%s` | %s | %s | %s |\n", l.Name, l.Of, inUnits(l.Default, l.Unit), l.Beyond)
			continue
		}
		key := "fixed"
		if l.Key != "" {
			key = "`" + l.Key + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", l.Name, l.Of, inUnits(l.Default, l.Unit), key, l.Beyond)
	}
	b.WriteString(`
## Limits of single values

These are fixed and bound one value, such as the length of a name or the size of a message. How much of them is used is not measured; what is
beyond is told to the caller, unless the last column says otherwise.

| Limit | What is limited | At most | Beyond it |
|---|---|---|---|
` + single.String())
	const file = "docs/limits.md"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, file) != b.String() {
		t.Errorf("%s is not what the code declares; run this test with -update and read the diff", file)
	}
}

// inUnits writes a limit as people read it: 4 MiB, 1m30s, 1000.
func inUnits(n int64, unit limit.Unit) string {
	switch {
	case n == 0:
		return "from the machine"
	case unit == limit.Time:
		return time.Duration(n).String()
	case unit == limit.Bytes && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case unit == limit.Bytes && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	case unit == limit.Bytes:
		return fmt.Sprintf("%d bytes", n)
	}
	return strconv.FormatInt(n, 10)
}

// Links between pages lead somewhere, and paths in backticks exist.
func TestDocsNameWhatExists(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(append(pages, decisions...), "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
	link := regexp.MustCompile(`\]\(([^)#: ]+)(?:#[^)]*)?\)`)
	path := regexp.MustCompile(`^[a-z_]+(?:/[a-z_]+)*/[a-z_]+(?:\.go|\.md|/)?$`)
	found := 0
	for _, page := range pages {
		text := read(t, page)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
		}
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(m[1], "/")
			if !path.MatchString(m[1]) || !isDir(first) && !isDir(filepath.Join("internal", first)) {
				continue
			}
			found++
			if _, err := os.Stat(folder(m[1])); err != nil {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d links and paths were found", found)
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
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

// declared reports whether a package has a test of that name.
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

// Every Go file that a page names with its folder is there, from the root or from
// internal.
func TestFilesThatPagesNameAreThere(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		for _, m := range regexp.MustCompile("`([\\w./-]+/[\\w.-]+\\.go)`").FindAllStringSubmatch(read(t, page), -1) {
			named++
			if _, err := os.Stat(m[1]); err != nil {
				if _, err := os.Stat(filepath.Join("internal", m[1])); err != nil {
					t.Errorf("%s names %s, which is not there", page, m[1])
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d names were found", named)
	}
}
