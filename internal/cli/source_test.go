package cli

import (
	"errors"
	"strings"
	"testing"

	"berth"
	"berth/jobspec"
)

// The carets stand below the text that is wrong, whatever is before it.
func TestExcerpts(t *testing.T) {
	file := jobspec.File{Name: "web.hcl", Text: []byte("a = 1\n\tb = \"x\"\r\nöä = 3\n" + strings.Repeat("z", 300))}
	for _, c := range []struct {
		name                string
		line, column, width int
		want                string
	}{
		{"at the start", 1, 1, 1, "\n1 | a = 1\n  | ^"},
		{"after a tab", 2, 6, 3, "\n2 | \tb = \"x\"\n  | \t    ^^^"},
		{"after characters of two bytes", 3, 6, 1, "\n3 | öä = 3\n  |      ^"},
		{"more than the line has", 1, 5, 90, "\n1 | a = 1\n  |     ^"},
		{"behind the end of the line", 1, 6, 1, "\n1 | a = 1\n  |      ^"},
		{"a long line", 4, 2, 2, "\n4 | " + strings.Repeat("z", lineWidth) + "\n  |  ^^"},
		{"too far to the right", 4, 250, 2, ""},
		{"no such line", 9, 1, 1, ""},
		{"no place", 0, 0, 0, ""},
	} {
		if got := excerpt(file, berth.Problem{Line: c.line, Column: c.column, Width: c.width}, ""); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

// Each problem is shown with the line of its own file; an error without a place
// stays as it is.
func TestWithSource(t *testing.T) {
	files := []jobspec.File{{Name: "a.hcl", Text: []byte("one")}, {Name: "b.vars", Text: []byte("two")}}
	err := withSource(berth.Problems{
		{Pos: "a.hcl:1,1-4", Text: "bad", Line: 1, Column: 1, Width: 3}, {Pos: "b.vars:1,2-3", Text: "worse", Line: 1, Column: 2, Width: 1}, {Path: "job.id", Text: "is missing"},
	}.Err(), files...)
	const want = "3 problems:\n  * a.hcl:1,1-4: bad\n    1 | one\n      | ^^^\n  * b.vars:1,2-3: worse\n    1 | two\n      |  ^\n  * job.id: is missing"
	if err.Error() != want || berth.KindOf(err) != berth.Invalid {
		t.Errorf("%v\nwant:\n%s", err, want)
	}
	if other := errors.New("other"); withSource(other, files...) != other {
		t.Error("another error was changed")
	}
}

// A file below the directory of the command is called by its relative name.
func TestShortNames(t *testing.T) {
	for _, c := range []struct{ dir, name, want string }{
		{"/home/me/jobs", "/home/me/jobs/web.hcl", "web.hcl"}, {"/home/me", "/home/me/jobs/web.hcl", "jobs/web.hcl"},
		{"/home/me", "/etc/web.hcl", "/etc/web.hcl"}, {"/home/me", "web.hcl", "web.hcl"}, {"/home/me", "../web.hcl", "../web.hcl"},
	} {
		if got := shortName(c.dir, c.name); got != c.want {
			t.Errorf("in %s, %s is called %s, want %s", c.dir, c.name, got, c.want)
		}
	}
}
