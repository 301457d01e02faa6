package state_test

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/internal/state"
	"berth/internal/state/statetest"
)

// Each table can be read by people, except those that follow from others.
func TestAllTablesAreReadable(t *testing.T) {
	names := map[string]bool{"jobsummary": true, "quotausage": true, "schedulerconfig": true} // these have commands of their own
	store, _ := statetest.New(t)
	for _, table := range store.Snapshot().Tables() {
		names[strings.ToLower(table.Name)] = true
	}
	for n := state.Table(0); ; n++ {
		name, ok := state.TableName(n)
		if !ok {
			break
		}
		if !names[strings.ReplaceAll(name, "_", "")] {
			t.Errorf("the table %s is missing", name)
		}
	}
}

// Secrets of CSI volumes are neither shown nor in a redacted state.
func TestSecretsOfCSIVolumesAreLeftOut(t *testing.T) {
	store, _ := statetest.New(t, runsCSI(1), &state.PutCSIVolume{Volume: csiVolume("data"), Now: 5})
	shown := 0
	for _, table := range store.Snapshot().Tables() {
		for row := range table.Rows {
			text, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "s3cret") {
				t.Errorf("%s shows %s", table.Name, text)
			}
			if table.Name == "CSIVolumes" {
				shown++
			}
		}
	}
	if shown != 1 {
		t.Errorf("%d volumes are shown; want 1", shown)
	}
	if v := store.Snapshot().CSIVolume("default", "data"); v.Secrets["key"] != "s3cret" {
		t.Errorf("the state has the secrets %v", v.Secrets)
	}
	if v := store.Snapshot().WithoutSecrets().CSIVolume("default", "data"); v == nil || v.Secrets != nil {
		t.Errorf("the redacted state has %+v", v)
	}
}
