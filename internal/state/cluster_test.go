package state_test

import (
	"bytes"
	"testing"

	"berth/internal/state"
	"berth/internal/state/statetest"
)

// The first term that names the cluster names it for ever: later terms do not
// change it, nor does a snapshot that is restored, and saved states keep it.
func TestTheClusterKeepsItsID(t *testing.T) {
	one, two := statetest.ID[state.Cluster](1), statetest.ID[state.Cluster](2)
	store, log := statetest.New(t, &state.BeginTerm{Term: 1}) // as older builds began it
	if id := store.Snapshot().Cluster; !id.IsZero() {
		t.Errorf("before anybody named it the cluster is %s", id)
	}
	log.Must(t, &state.BeginTerm{Term: 2, Cluster: one})
	log.Must(t, &state.BeginTerm{Term: 3, Cluster: two})
	log.Must(t, &state.BeginTerm{Term: 4})
	s := store.Snapshot()
	if s.Cluster != one {
		t.Errorf("the cluster is %s", s.Cluster)
	}
	var saved bytes.Buffer
	if err := s.Save(&saved); err != nil {
		t.Fatal(err)
	}
	back, err := state.Load(&saved)
	if err != nil || back.Cluster != one || back.Hash() != s.Hash() {
		t.Errorf("saved and loaded it is %s: %v", back.Cluster, err)
	}
	other, _ := statetest.New(t, &state.BeginTerm{Term: 9, Cluster: two})
	if id := back.Raised(other.Snapshot()).Cluster; id != two {
		t.Errorf("restored over cluster %s it is %s", two, id)
	}
	empty, _ := statetest.New(t)
	if id := back.Raised(empty.Snapshot()).Cluster; id != one {
		t.Errorf("restored over a state of no cluster it is %s", id)
	}
}
