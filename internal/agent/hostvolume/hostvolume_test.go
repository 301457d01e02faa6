package hostvolume

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth"
)

// volumesIn are the volumes of a node with its directories below dir.
func volumesIn(t *testing.T, dir string) *Volumes {
	t.Helper()
	for _, sub := range []string{"plugins", "state", "alloc"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Open(Config{
		Dir: filepath.Join(dir, "volumes"), PluginDir: filepath.Join(dir, "plugins"), StateDir: filepath.Join(dir, "state"),
		Private: []string{filepath.Join(dir, "state"), filepath.Join(dir, "alloc")}, Pool: "default", Log: slog.New(slog.DiscardHandler),
	})
}

const anID = "6c2a1b34-0000-4000-8000-000000000001"

// A volume of the built-in plugin is a directory, offered also by the next agent,
// and gone with what is in it when it is deleted.
func TestMkdir(t *testing.T) {
	dir := t.TempDir()
	v := volumesIn(t, dir)
	vol := &berth.HostVolume{ID: anID, Name: "data", PluginID: MkdirPlugin, Parameters: map[string]string{"mode": "0750"}}
	for range 2 { // asked again, it is the same
		made, err := v.Create(t.Context(), vol)
		if err != nil || made.HostPath != filepath.Join(dir, "volumes", anID) {
			t.Fatalf("%+v, %v", made, err)
		}
	}
	st, err := os.Stat(filepath.Join(dir, "volumes", anID))
	if err != nil || st.Mode().Perm() != 0o750 {
		t.Fatalf("%v, %v", st, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "volumes", anID, "kept"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := volumesIn(t, dir)
	if got := again.Offers()["data"]; got.ID != anID || got.Path == "" {
		t.Errorf("the next agent offers %+v", got)
	}
	for range 2 { // what is gone is gone
		if err := again.Delete(t.Context(), vol); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "volumes", anID)); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
	if n := len(again.Offers()); n != 0 {
		t.Errorf("%d volumes are offered", n)
	}
}

// A program in the plugin directory makes volumes, with the environment that Nomad
// documents.
func TestPlugins(t *testing.T) {
	dir := t.TempDir()
	v := volumesIn(t, dir)
	script := `#!/bin/sh
case "$1" in
fingerprint) echo '{"version": "1.2.3"}' ;;
create)
  [ "$DHV_OPERATION" = create ] && [ "$DHV_VOLUME_NAME" = data ] && [ "$DHV_CAPACITY_MIN_BYTES" = 7 ] || exit 3
  mkdir -p "$DHV_VOLUMES_DIR/mine-$DHV_VOLUME_ID"; echo "$DHV_PARAMETERS" > "$DHV_VOLUMES_DIR/mine-$DHV_VOLUME_ID/parameters"
  echo "{\"path\": \"$DHV_VOLUMES_DIR/mine-$DHV_VOLUME_ID\", \"bytes\": 4096}" ;;
delete) rm -r "$DHV_CREATED_PATH" ;;
esac
`
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, "plugins", name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("mine", script, 0o755)
	write("not-executable", script, 0o644)
	write("writable", script, 0o777)
	write("Bad_Name", script, 0o755)
	write("silent", "#!/bin/sh\n", 0o755)
	if err := os.Symlink("/bin/sh", filepath.Join(dir, "plugins", "link")); err != nil {
		t.Fatal(err)
	}
	if got := v.Plugins(t.Context()); len(got) != 2 || got["mine"] != "1.2.3" || got[MkdirPlugin] == "" {
		t.Errorf("plugins: %v", got)
	}
	vol := &berth.HostVolume{ID: anID, Name: "data", PluginID: "mine", RequestedCapacityMinBytes: 7, Parameters: map[string]string{"a": "b"}}
	made, err := v.Create(t.Context(), vol)
	if err != nil || made.CapacityBytes != 4096 {
		t.Fatalf("%+v, %v", made, err)
	}
	if text, err := os.ReadFile(filepath.Join(made.HostPath, "parameters")); err != nil || strings.TrimSpace(string(text)) != `{"a":"b"}` {
		t.Errorf("parameters: %q, %v", text, err)
	}
	if err := v.Delete(t.Context(), vol); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(made.HostPath); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
}

// No plugin ID and no answer of a plugin reaches what is not meant (C04), nor does
// a registered path.
func TestAdvisory_C04_HostileVolumes(t *testing.T) {
	dir := t.TempDir()
	v := volumesIn(t, dir)
	for _, id := range []string{"../../bin/sh", "/bin/sh", "..", "", "a/b", "mine\x00", "-", "A", strings.Repeat("a", 65)} {
		for _, do := range []func() error{
			func() error {
				_, err := v.Create(t.Context(), &berth.HostVolume{ID: anID, Name: "data", PluginID: id})
				return err
			},
			func() error { _, err := v.run(t.Context(), id, "fingerprint", nil); return err },
		} {
			if err := do(); berth.KindOf(err) != berth.Invalid {
				t.Errorf("plugin %q: %v", id, err)
			}
		}
	}
	for _, id := range []string{"../x", "", "x", "/etc"} {
		if _, err := v.Create(t.Context(), &berth.HostVolume{ID: id, Name: "data", PluginID: MkdirPlugin}); berth.KindOf(err) != berth.Invalid {
			t.Errorf("ID %q: %v", id, err)
		}
	}
	outside := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "state"), filepath.Join(outside, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/proc", "/proc/self", "/sys", dir, filepath.Join(dir, "state"), filepath.Join(dir, "alloc"), filepath.Join(outside, "link"), "relative", outside + "/../x", filepath.Join(outside, "missing"), "/etc/passwd"} {
		if _, err := v.Register(t.Context(), &berth.HostVolume{ID: anID, Name: "data", PluginID: MkdirPlugin, HostPath: path}); err == nil {
			t.Errorf("path %q was registered", path)
		}
	}
	if n := len(v.IDs()); n != 0 {
		t.Errorf("%d volumes are known after refusals", n)
	}
	if _, err := v.Register(t.Context(), &berth.HostVolume{ID: anID, Name: "data", PluginID: MkdirPlugin, HostPath: outside}); err != nil {
		t.Error(err)
	}
	if err := v.Delete(t.Context(), &berth.HostVolume{ID: anID}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("the directory of a registered volume went: %v", err)
	}
}

// A failed creation leaves nothing: the plugin is asked to delete what it made. One
// that an agent was killed in is removed by the next agent. After a restart plugins
// are asked to create what they made before; what they cannot is not offered.
func TestCreationsLeaveNothingTorn(t *testing.T) {
	dir := t.TempDir()
	v := volumesIn(t, dir)
	log := filepath.Join(dir, "calls")
	script := `#!/bin/sh
case "$1" in
fingerprint) echo '{"version": "1.0"}' ;;
create) echo create >> ` + log + `; mkdir -p "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID"; [ ! -e ` + dir + `/broken ] || exit 1
  echo "{\"path\": \"$DHV_VOLUMES_DIR/$DHV_VOLUME_ID\"}" ;;
delete) echo delete >> ` + log + `; rm -rf "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID" ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "plugins", "mine"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	broken, path := filepath.Join(dir, "broken"), filepath.Join(dir, "volumes", anID)
	calls := func(want string) {
		t.Helper()
		b, _ := os.ReadFile(log)
		if got := strings.Join(strings.Fields(string(b)), " "); got != want {
			t.Errorf("the plugin was asked to %q, want %q", got, want)
		}
		_ = os.Remove(log)
	}
	gone := func(v *Volumes) {
		t.Helper()
		if _, err := os.Lstat(path); !os.IsNotExist(err) || len(v.IDs()) != 0 {
			t.Errorf("left are %v, %v", v.IDs(), err)
		}
	}
	vol := &berth.HostVolume{ID: anID, Name: "data", PluginID: "mine"}
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Create(t.Context(), vol); err == nil {
		t.Fatal("it was created")
	}
	calls("create delete")
	gone(v)

	// As an agent leaves it that is killed before the plugin has answered.
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := v.record(v.with(anID, &Volume{Volume: *vol, Making: true})); err != nil {
		t.Fatal(err)
	}
	v = volumesIn(t, dir)
	if n := len(v.Offers()); n != 0 {
		t.Errorf("%d volumes are offered", n)
	}
	v.Restore(t.Context())
	calls("delete")
	gone(v)

	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Create(t.Context(), vol); err != nil {
		t.Fatal(err)
	}
	v = volumesIn(t, dir)
	v.Restore(t.Context())
	calls("create create")
	if n := len(v.Offers()); n != 1 {
		t.Errorf("%d volumes are offered", n)
	}
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	v = volumesIn(t, dir)
	v.Restore(t.Context())
	calls("create")
	if n := len(v.Offers()); n != 0 || len(v.IDs()) != 1 {
		t.Errorf("%d volumes are offered of %v: a mount may be missing", n, v.IDs())
	}
}
