package cli

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateTried = flag.Bool("update-tried", false, "write the list of commands that nothing tries again")

// callWords matches the quoted words of a call in Go, such as "job", "run".
var callWords = regexp.MustCompile(`"([a-z][a-z-]*)"(?:, "([a-z][a-z-]*)")?(?:, "([a-z][a-z-]*)")?`)

// tried returns the commands that a text runs, of those that are known: in scripts
// after berth or nomad, in Go as quoted words.
func tried(all []*command, script bool, text string, out map[string]bool) {
	see := func(words []string) {
		if f := find(all, words); f.exact != nil {
			out[f.exact.name] = true
		}
	}
	if !script {
		for _, m := range callWords.FindAllStringSubmatch(text, -1) {
			for n := 3; n > 0; n-- {
				if !slices.Contains(m[1:n+1], "") {
					see(m[1 : n+1])
				}
			}
		}
		return
	}
	text, _, _ = strings.Cut(text, "\n-- ") // what follows are files
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 2 && (words[0] == "eventually" || words[0] == "once") {
			see(words[2:])
		}
		if len(words) > 1 && words[0] == "says" {
			see(words[1:])
		}
		if i := slices.IndexFunc(words, func(w string) bool { return w == "berth" || w == "nomad" }); i >= 0 {
			see(words[i+1:])
		}
	}
}

// Each command is in a script, which runs it under both names.
func TestEachCommandHasAScript(t *testing.T) {
	untried(t, "testdata/unscripted.list", map[string]bool{"testdata/*.txtar": true})
}

// The list names each command that no script runs, and no test of the command line
// or of the real programs either. It only gets shorter.
func TestCommandsThatNothingTries(t *testing.T) {
	untried(t, "testdata/untried.list", map[string]bool{"testdata/*.txtar": true, "*_test.go": false, "../../test/*/*_test.go": false})
}

// untried compares the commands that no file of these patterns runs with a list.
// The patterns of scripts are true.
func untried(t *testing.T, file string, patterns map[string]bool) {
	all := commands()
	seen := map[string]bool{}
	for pattern, script := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			tried(all, script, string(text), seen)
		}
	}
	var missing []string
	for _, c := range all {
		if !c.hidden && !seen[c.name] {
			missing = append(missing, c.name)
		}
	}
	slices.Sort(missing)
	text := strings.Join(missing, "\n") + "\n"
	if *updateTried {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	allowed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		if !slices.Contains(strings.Split(string(allowed), "\n"), m) {
			t.Errorf("nothing tries %q", m)
		}
	}
}
