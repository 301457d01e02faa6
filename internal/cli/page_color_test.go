package cli

import (
	"strings"
	"testing"
)

// On terminals states have colors, and columns stay where they are without.
func TestStatesHaveColors(t *testing.T) {
	rows := [][]string{{"ID", "Status", "Name"}, {"a", "running", "running"}, {"b", "dead (stopped)", "x"}, {"c", "failed", "y"}, {"d", "pending", "z"}}
	plain, color := &page{}, &page{bold: true}
	for _, p := range []*page{plain, color} {
		p.table(rows)
		p.pairs("Status", "lost", "Name", "lost")
	}
	got := color.text.String()
	for _, want := range []string{green + "running" + normal, red + "failed" + normal, yellow + "pending" + normal, "Status = " + red + "lost" + normal + "\n", "Name   = lost\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if n := strings.Count(got, green); n != 1 {
		t.Errorf("%d cells are green, want 1: only columns of states are colored", n)
	}
	if strings.Contains(plain.text.String(), "\x1b") {
		t.Errorf("without a terminal: %q", plain.text.String())
	}
	if stripped := strings.NewReplacer(green, "", yellow, "", red, "", normal, "").Replace(got); stripped != plain.text.String() {
		t.Errorf("without colors it is\n%s\nwant\n%s", stripped, plain.text.String())
	}
}
