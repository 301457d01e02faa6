package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"berth"
	"berth/jobspec"
)

// sourced is an error about files whose message shows the lines that it is about.
type sourced struct {
	err  error
	text string
}

// Error returns the problems, each with its line and a caret below it.
func (s *sourced) Error() string { return s.text }

// Unwrap returns the error without the lines.
func (s *sourced) Unwrap() error { return s.err }

// mostShown is how many problems are shown.
const mostShown = 50

// withSource adds the lines of the files to an error about them. Other errors are
// returned as they are.
func withSource(err error, files ...jobspec.File) error {
	problems, ok := errors.AsType[berth.Problems](err)
	if !ok {
		return err
	}
	var b strings.Builder
	single, margin := len(problems) == 1, "    "
	if single {
		margin = "  "
	} else {
		fmt.Fprintf(&b, "%d problems:", len(problems))
	}
	for i, p := range problems {
		if i == mostShown {
			fmt.Fprintf(&b, "\n(and %d more problems)", len(problems)-mostShown)
			break
		}
		if !single {
			b.WriteString("\n  * ")
		}
		b.WriteString(p.String())
		for _, f := range files {
			if strings.HasPrefix(p.Pos, f.Name+":") {
				b.WriteString(excerpt(f, p, margin))
				break
			}
		}
	}
	return &sourced{err, b.String()}
}

// lineWidth is how many characters of a line are shown.
const lineWidth = 160

// excerpt returns the line that a problem is about, with carets below what is
// wrong, or "" if that is not known.
func excerpt(f jobspec.File, p berth.Problem, margin string) string {
	lines := strings.Split(string(f.Text), "\n")
	if p.Line < 1 || p.Line > len(lines) || p.Column < 1 {
		return ""
	}
	line := []rune(strings.TrimRight(lines[p.Line-1], "\r"))
	at := min(p.Column-1, len(line))
	if at > lineWidth {
		return "" // the caret would stand outside every terminal
	}
	line = line[:min(len(line), lineWidth)]
	width := max(1, min(p.Width, len(line)-at))
	// Tabs stay tabs, so that the caret stands below its text however wide they
	// are.
	below := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(line[:at]))
	number := fmt.Sprint(p.Line)
	return fmt.Sprintf("\n%s%s | %s\n%s%s | %s%s", margin, number, string(line), margin, strings.Repeat(" ", len(number)), below, strings.Repeat("^", width))
}

// shortName returns the name of a file as messages repeat it: relative to the
// directory of the command if the file is below that.
func shortName(dir, name string) string {
	if !filepath.IsAbs(name) {
		return name
	}
	from, err := filepath.Abs(dir)
	if err != nil {
		return name
	}
	if rel, err := filepath.Rel(from, name); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return name
}
