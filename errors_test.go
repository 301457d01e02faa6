package berth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, ""},
		{errors.New("stale-launch: not ours"), ""},
		{Errorf(Invalid, "stale-launch: wrong for ever"), ""},
		{Errorf(Conflict, "stale-launch: it was launched again"), ""},
		{Refusef(CodeStaleLaunch, "it was launched again"), CodeStaleLaunch},
		{fmt.Errorf("late: %w", Refusef(CodeUIDMismatch, "it is another")), CodeUIDMismatch},
		{Errorf(Unavailable, "no answer: %w", Refusef(CodeUIDMismatch, "it is another")), ""},
		{&Error{Kind: NotFound, Code: CodeOwnerMissing, Err: io.EOF}, CodeOwnerMissing},
		{Errorf(Conflict, "Enforcing job modify index 7: job exists"), ""},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%v: %q, wanted is %q", c.err, got, c.want)
		}
	}
	err := Refusef(CodeStaleLaunch, "%w at %d", io.EOF, 7)
	if err.Error() != "stale-launch: EOF at 7" || !errors.Is(err, io.EOF) || KindOf(err) != Conflict {
		t.Errorf("%v of kind %q", err, KindOf(err))
	}
}

// A refusal whose text begins like a code has that code: else a program that
// waits for it would never see it.
func TestCodesAreKnown(t *testing.T) {
	said := regexp.MustCompile(`Errorf\([\w.]+, "([a-z]+(?:-[a-z]+)+): `)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range said.FindAllSubmatch(text, -1) {
			t.Errorf("%s: %q looks like a code: use Refusef with one of Codes", path, m[1])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile("docs/stream-jobs.md")
	for _, code := range Codes {
		if err != nil || !strings.Contains(string(page), "`"+string(code)+"`") {
			t.Errorf("docs/stream-jobs.md does not mention %s, %v", code, err)
		}
	}
}
