package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/audit"
	"berth/jobspec"
)

// runAs runs a command in a directory without an agent, under a name of the
// program.
func runAs(t *testing.T, name, dir string, args ...string) (code int, out string) {
	t.Helper()
	var b strings.Builder
	p := &Program{Name: name, Args: args, Dir: dir, In: strings.NewReader(""), Now: time.Now, Out: &b, Err: &b}
	return p.Run(context.Background()), b.String()
}

// Each command is there under both names of the program, with the same help, which
// has the name in its usage and its example.
func TestCommandsUnderBothNames(t *testing.T) {
	dir := t.TempDir()
	for _, c := range commands() {
		if c.hidden || c.raw != nil {
			continue
		}
		args := append(strings.Fields(c.name), "-h")
		code, ours := runAs(t, "berth", dir, args...)
		other, theirs := runAs(t, "nomad", dir, args...)
		if code != 0 || other != 0 {
			t.Errorf("%s -h ends with %d as berth and %d as nomad", c.name, code, other)
		}
		if !strings.HasPrefix(theirs, "Usage: nomad "+c.name) || !strings.Contains(theirs, "nomad "+c.example) {
			t.Errorf("%s: under the name nomad the help is\n%s", c.name, theirs)
		}
		// The lines break in other places where the name is in the text.
		words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		if strings.NewReplacer("nomad "+c.name, "berth "+c.name, "nomad -autocomplete", "berth -autocomplete").Replace(words(theirs)) != words(ours) {
			t.Errorf("%s: the help differs under the name nomad:\n%s\nand\n%s", c.name, ours, theirs)
		}
		if strings.Contains(theirs, "berth "+c.name) || strings.Contains(theirs, "\"berth -") || strings.Contains(theirs, calledName) {
			t.Errorf("%s: under the name nomad the help names another program:\n%s", c.name, theirs)
		}
	}
}

// An audit log is verified file after file, and what is wrong with it is named
// with its line.
func TestAuditLogsAreVerified(t *testing.T) {
	dir := t.TempDir()
	l, err := audit.Open(audit.Config{Path: filepath.Join(dir, "audit.log")})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := l.Write(audit.Payload{ID: "r", Stage: audit.Received, Request: audit.Request{Endpoint: "/v1/jobs", Operation: "GET"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for name, text := range map[string][]byte{
		"first.log": bytes.Join(lines[:2], nil), "rest.log": bytes.Join(lines[2:], nil),
		"gap.log": append(bytes.Clone(lines[0]), lines[2]...), "short.log": whole[:len(whole)-2],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		files string
		code  int
		want  []string
	}{
		{"audit.log", 0, []string{"Lines   = 4\n", "First   = 1\n", "Last    = 4\n", "Follows = nothing: this is the beginning of the log\n"}},
		{"first.log rest.log", 0, []string{"Lines   = 4\n", "Last    = 4\n"}},
		{"rest.log first.log", 1, []string{"Error: ", "first.log:1: line 1 of the log follows line 4: lines are missing, or in another order"}},
		{"gap.log", 1, []string{"gap.log:2: line 3 of the log follows line 1"}},
		{"short.log", 1, []string{"short.log:4: the line is not whole"}},
		{"nothing.log", 1, []string{"Error: cannot read the audit log: open ", "nothing.log: no such file or directory"}},
		{"-json audit.log", 0, []string{`"Lines": 4`}},
	} {
		code, out := runAs(t, "berth", dir, append([]string{"operator", "audit", "verify"}, strings.Fields(c.files)...)...)
		if code != c.code {
			t.Errorf("%s ends with %d:\n%s", c.files, code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s says\n%s\nwithout %q", c.files, out, want)
			}
		}
	}
}

// A job file that is too long is refused before an agent is asked, with the limit.
func TestAJobFileThatIsTooLong(t *testing.T) {
	dir := t.TempDir()
	text := "job \"long\" {}\n# " + strings.Repeat("x", jobspec.MaxText)
	if err := os.WriteFile(filepath.Join(dir, "long.nomad"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"run", "plan", "validate"} {
		code, out := runAs(t, "nomad", dir, "job", command, "long.nomad")
		if code == 0 || !strings.Contains(out, "long.nomad") || !strings.Contains(out, "1048576 bytes") {
			t.Errorf("job %s ends with %d:\n%s", command, code, out)
		}
	}
}
