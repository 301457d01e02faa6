package state_test

import (
	"bytes"
	"testing"

	"berth/internal/state"
	"berth/internal/state/statetest"

	"github.com/google/go-cmp/cmp"
)

// A check changes nothing but the index; it is noticed, and neither saved nor
// part of what it compares.
func TestCheckHash(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	tx.Apply(statetest.AddNode(1, 1000, 1000))
	before := tx.Seal()
	if r := tx.Apply(&state.CheckHash{Of: 7, Hash: 8}); r.Err != nil || r.Index != before.Index+1 {
		t.Fatal(r)
	}
	after := tx.Seal()
	if got := *after.Check(); got != (state.Check{Index: after.Index, Of: 7, Hash: 8}) || before.Check() != nil {
		t.Errorf("noticed is %+v", got)
	}
	var saved bytes.Buffer
	if err := after.Save(&saved); err != nil {
		t.Fatal(err)
	}
	again, err := state.Load(&saved)
	if err != nil || again.Check() != nil || again.Hash() != after.Hash() {
		t.Errorf("saved and loaded: %v", err)
	}
	old := &state.CheckHash{}
	tx.Apply(&state.BeginTerm{Term: 5})
	old.Stamp(4)
	if r := tx.Apply(old); r.Err == nil {
		t.Error("a check of an older term is taken")
	}
}

// What a state holds is told by kind, and adds up to what is saved.
func TestContents(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	for n := range 3 {
		tx.Apply(statetest.AddNode(n+1, 1000, 1000))
	}
	counts := map[string]int{}
	for i, c := range tx.Seal().Contents() {
		if counts[c.Name] = c.Count; c.Bytes < int64(c.Count) || i == 0 && c.Name != "nodes" {
			t.Errorf("%+v", c)
		}
	}
	if d := cmp.Diff(map[string]int{"nodes": 3, "namespaces": 1, "node_pools": 2}, counts); d != "" {
		t.Error(d)
	}
}

// A state that is restored over a newer one is beyond both, in all tables.
func TestRaised(t *testing.T) {
	old := state.Begin(state.New().Snapshot())
	old.Apply(statetest.AddNode(1, 1000, 1000))
	saved := old.Seal()
	for n := range 9 {
		old.Apply(statetest.AddNode(n+2, 1000, 1000))
	}
	old.Apply(&state.BeginTerm{Term: 9})
	now := old.Seal()
	got := saved.Raised(now)
	if got.Index <= now.Index || got.Restored != got.Index || got.Term != 9 || got.Count(state.Nodes) != 1 {
		t.Errorf("index %d, term %d, %d nodes", got.Index, got.Term, got.Count(state.Nodes))
	}
	for _, table := range []state.Table{state.Nodes, state.Jobs, state.Evals, state.Allocs, state.Deployments, state.Summaries, state.NodePools, state.Services, state.Namespaces} {
		if got.LastChange(table) != got.Index {
			t.Errorf("%s: changed at %d, not at %d", table, got.LastChange(table), got.Index)
		}
	}
	var b bytes.Buffer
	if err := got.Save(&b); err != nil {
		t.Fatal(err)
	}
	if again, err := state.Load(&b); err != nil || again.Hash() != got.Hash() || again.LastChange(state.Jobs) != got.Index || again.Restored != got.Index {
		t.Errorf("saved and loaded: %v", err)
	}
	if newer := now.Raised(saved); newer.Index != now.Index+1 {
		t.Errorf("a newer one restored over an older: index %d after %d", newer.Index, now.Index)
	}
}
