package hostvolume

import (
	"errors"
	"os"
	"testing"

	"berth"
	"berth/internal/hostile"
	"berth/internal/saferoot"
)

// While a task swaps what is in a volume, or somebody the volume itself, for a link,
// nothing beside the directory of the volumes is changed or removed.
func TestNoRaceRemovesWhatIsBesideAVolume(t *testing.T) {
	y := hostile.NewYard(t)
	v := volumesIn(t, y.In)
	vol := &berth.HostVolume{ID: anID, Name: "data", PluginID: MkdirPlugin, Parameters: map[string]string{"mode": "0777"}}
	if os.Geteuid() == 0 {
		vol.Parameters["uid"], vol.Parameters["gid"] = "12345", "12345"
	}
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	const sub = "volumes/" + anID + "/sub"
	// fill makes the volume and what a task has in it.
	fill := func() error {
		_, err := v.Create(t.Context(), vol)
		return errors.Join(err, root.MkdirAll(sub+"/deep", 0o755), root.Replace(sub+"/deep/keep", []byte("mine"), 0o644))
	}
	for _, p := range []string{anID, anID + "/sub", anID + "/sub/deep"} {
		removed := 0
		if err := fill(); err != nil {
			t.Fatal(err)
		}
		y.Race(t, "volumes/"+p, 100, func() {
			if err := v.Delete(t.Context(), vol); err == nil {
				removed++
			}
			_ = fill()
		})
		t.Logf("%s: removed %d times", p, removed)
		if err := root.RemoveAll("volumes"); err != nil {
			t.Fatal(err)
		}
		y.Untouched(t, p)
	}
}
