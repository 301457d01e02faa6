package hostvolume

import (
	"os"
	"path/filepath"
	"testing"

	"berth"
	"berth/internal/hostile"
)

// No ID of a volume or a plugin, and no path that is registered, reaches what lies
// beside the directories that are for it.
func TestTheCorpusIsNoVolume(t *testing.T) {
	y := hostile.NewYard(t)
	v := volumesIn(t, y.In)
	for _, n := range append(hostile.Names(), hostile.Odd()...) {
		for what, vol := range map[string]*berth.HostVolume{
			"ID":     {ID: n, Name: "data", PluginID: MkdirPlugin},
			"plugin": {ID: anID, Name: "data", PluginID: n},
		} {
			if _, err := v.Create(t.Context(), vol); err == nil {
				t.Errorf("%s %.80q made a volume", what, n)
			}
			_ = v.Delete(t.Context(), vol) // of what is not there
		}
		if _, err := v.Register(t.Context(), &berth.HostVolume{ID: n, Name: "data", HostPath: y.Top + "/outside"}); err == nil {
			t.Errorf("%.80q is registered", n)
		}
		if len(n) > 0 && n[0] != '/' { // that names a directory of the host, as registrations may
			if _, err := v.Register(t.Context(), &berth.HostVolume{ID: anID, Name: "data", HostPath: n}); err == nil {
				t.Errorf("path %.80q is registered", n)
			}
		}
	}
	if n := len(v.Offers()); n != 0 {
		t.Errorf("%d volumes are offered", n)
	}
	// Links in place of plugins are no plugins of the operator's directory.
	links := y.Spread(t, filepath.Join(y.In, "plugins"))
	for _, n := range links {
		if _, err := v.Create(t.Context(), &berth.HostVolume{ID: anID, Name: "data", PluginID: n}); err == nil {
			t.Errorf("%s made a volume", n)
		}
	}
	for _, n := range links {
		if err := os.Remove(filepath.Join(y.In, "plugins", n)); err != nil {
			t.Fatal(err)
		}
	}
	y.Untouched(t, "volumes")
}
