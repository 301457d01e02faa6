package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Completion is installed in the files of the shells that a user has, once, and
// removed without a trace.
func TestAutocomplete(t *testing.T) {
	home := t.TempDir()
	rc := filepath.Join(home, ".bashrc")
	const before = "export A=1\nalias b=berth"
	if err := os.WriteFile(rc, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(home, ".config", "fish"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) {
		t.Helper()
		var out, errs strings.Builder
		p := &Program{Name: "berth", Args: args, Out: &out, Err: &errs, Now: time.Now, Env: []string{"HOME=" + home}}
		if code := p.Run(context.Background()); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%v: exit code %d, want %q\n%s%s", args, code, want, out.String(), errs.String())
		}
	}
	text := func() string {
		b, err := os.ReadFile(rc)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	run("Changed "+rc, "-autocomplete-install")
	if got := text(); !strings.HasPrefix(got, before+"\ncomplete -o default -C ") || !strings.HasSuffix(got, " berth\n") {
		t.Errorf("the file is %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(home, ".config", "fish", "completions", "berth.fish")); err != nil || !strings.Contains(string(b), "COMP_LINE") {
		t.Errorf("for fish: %q, %v", b, err)
	}
	was := text()
	run("Nothing to do", "-autocomplete-install")
	if text() != was {
		t.Errorf("it is installed twice: %q", text())
	}
	run("Changed "+rc, "-autocomplete-uninstall")
	if got := text(); got != before+"\n" {
		t.Errorf("the file is %q", got)
	}
	run("Nothing to do", "-autocomplete-uninstall")
	for _, shell := range shells {
		run("complete", "completion", shell)
	}
	p := &Program{Name: "berth", Args: []string{"completion", "csh"}, Out: &strings.Builder{}, Err: &strings.Builder{}, Now: time.Now}
	if code := p.Run(context.Background()); code != 1 {
		t.Errorf("an unknown shell: exit code %d", code)
	}
}
