package berth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("stale-launch: not ours"), ""},
		{Errorf(Invalid, "stale-launch: wrong for ever"), ""},
		{Errorf(Conflict, "stale-launch: it was launched anew"), CodeStaleLaunch},
		{fmt.Errorf("%w", Errorf(Conflict, "uid-mismatch: it is another")), CodeUIDMismatch},
		{Errorf(Conflict, "%w: job %q is being deleted", ErrDeleting, "web"), CodeDeleting},
		{Errorf(Conflict, "Enforcing job modify index 7: job exists"), ""},
		{Errorf(Conflict, "stale-launch"), ""},
		{Errorf(Conflict, "no-such-code: at all"), ""},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%v: %q, wanted is %q", c.err, got, c.want)
		}
	}
}

// Every refusal in the code that looks as if it had a code has one that is
// known: else a program that waits for it would never see it.
func TestCodesAreKnown(t *testing.T) {
	said := regexp.MustCompile(`(?:Conflict, |stale\()"([a-z]+(?:-[a-z]+)+)[:"]`)
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range said.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
			if !slices.Contains(Codes, string(m[1])) {
				t.Errorf("%s: %q is no code; there are %s", path, m[1], strings.Join(Codes, ", "))
			}
		}
		return err
	})
	if err != nil || len(found) < 8 {
		t.Errorf("%v, %v", found, err)
	}
	page, err := os.ReadFile("docs/stream-jobs.md")
	for _, code := range Codes {
		if err != nil || !strings.Contains(string(page), "`"+code+"`") {
			t.Errorf("docs/stream-jobs.md does not tell of %s, %v", code, err)
		}
	}
}
