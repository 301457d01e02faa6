package statetest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Stories plays the datadriven files that match a pattern. In them the
// directive "story" begins a story, below a comment that says what it shows,
// and "then" is its next step:
//
//	# A full node is passed over.
//	story
//	node n1 cpu=1000
//	job web cpu=2000
//	----
//	web[0] has no place
//
//	then
//	node n2 cpu=4000
//	----
//	web[0] n2
//
// begin prepares the world of one story; what it returns plays a step and
// shows what came of it. Trailing spaces and empty lines do not count. The flag
// -rewrite writes what is shown into the files.
func Stories(t *testing.T, pattern string, begin func(t *testing.T) (step func(input string) string)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no story file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var step func(input string) string
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				switch {
				case d.Cmd == "story":
					step = begin(t)
				case d.Cmd != "then" || step == nil:
					d.Fatalf(t, "unknown directive %q: want story, or then after one", d.Cmd)
				}
				return tidy(step(d.Input + "\n"))
			})
		})
	}
}

// tidy returns s without empty lines and spaces at the ends of lines.
func tidy(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
