package cli

import (
	"strings"
	"testing"
)

// Every command can be understood from its help, and every group is described.
func TestEveryCommandIsDescribed(t *testing.T) {
	all := commands()
	for _, c := range all {
		if c.synopsis == "" || c.help == "" || !strings.HasSuffix(c.help, ".") {
			t.Errorf("%s: synopsis %q, help %q", c.name, c.synopsis, c.help)
		}
		if strings.HasSuffix(c.synopsis, ".") || len(c.synopsis) > 75 {
			t.Errorf("%s: synopsis %q", c.name, c.synopsis)
		}
		if c.raw == nil && !c.hidden && !strings.HasPrefix(c.example, c.name) {
			t.Errorf("%s: example %q", c.name, c.example)
		}
		if c.list != "" {
			if list := find(all, strings.Fields(c.list)).exact; list == nil || list.name != c.list || list.min > 0 {
				t.Errorf("%s: its errors name %q, which is no command without arguments", c.name, c.list)
			}
		}
		words := strings.Fields(c.name)
		for n := 1; n < len(words) && !c.hidden; n++ {
			if group := strings.Join(words[:n], " "); groups[group] == "" {
				t.Errorf("group %q of command %q is not described", group, c.name)
			}
		}
	}
	for _, u := range unsupportedCommands {
		if f := find(all, strings.Fields(u)); f.exact != nil || f.taken == len(strings.Fields(u)) {
			t.Errorf("%q is listed as unsupported, but it is there", u)
		}
	}
}

// Only a slip of the finger is taken for another word.
func TestSuggestion(t *testing.T) {
	names := []string{"job", "node", "status", "deployment", "eval"}
	for typed, want := range map[string]string{
		"foo": "", "jbo": "job", "jobs": "job", "statsu": "status", "nod": "node", "Job": "job", "deploymnt": "deployment",
		"deply": "", "x": "", "eavl": "eval", "xyz": "",
	} {
		got := strings.TrimSuffix(strings.TrimPrefix(suggestion("", typed, names), "; did you mean "), "?")
		if got != want {
			t.Errorf("%s: suggests %q, want %q", typed, got, want)
		}
	}
}
