package docker

import (
	"testing"

	"berth"
)

// C36: without a word in the configuration a task gets nothing of the host and no
// volume of the engine, by whatever kind of mount it asks for. It is also a row of
// docs/advisories.md.
func TestAdvisory_C36_NoVolumesUnlessAllowed(t *testing.T) {
	if d := Defaults(); d.Volumes || d.AllowPrivileged {
		t.Fatalf("the defaults allow volumes (%v) or privileged tasks (%v)", d.Volumes, d.AllowPrivileged)
	}
	d := New(config(t))
	tk := allocs(t)(1, nil)
	for name, c := range map[string]map[string]any{
		"a path":                with(does("run"), "volumes", []any{"/etc:/x"}),
		"a bind mount":          with(does("run"), "mount", []any{map[string]any{"type": "bind", "source": "/etc", "target": "/x"}}),
		"a volume":              with(does("run"), "mount", []any{map[string]any{"type": "volume", "source": "berth-test-none", "target": "/x"}}),
		"a volume with options": with(does("run"), "mount", []any{map[string]any{"type": "volume", "target": "/x", "volume_options": map[string]any{"driver_config": map[string]any{"name": "local", "options": map[string]any{"type": "none", "o": "bind", "device": "/etc"}}}}}),
		"a driver of volumes":   with(does("run"), "volume_driver", "local", "volumes", []any{"data:/x"}),
	} {
		tk.Config = c
		if _, err := d.Start(t.Context(), tk); berth.KindOf(err) != berth.Denied && berth.KindOf(err) != berth.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
