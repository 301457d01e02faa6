package state_test

import (
	"bytes"
	"testing"

	"berth/internal/state"
	"berth/internal/state/statetest"
)

// No bit of a saved snapshot that means anything can be another without that
// being found. zstd has some that mean nothing.
func TestEveryBitOfASavedSnapshotCounts(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	for n := range 3 {
		if r := tx.Apply(statetest.AddNode(n+1, 1000, 1000)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	snap := tx.Seal()
	var saved bytes.Buffer
	if err := snap.Save(&saved); err != nil {
		t.Fatal(err)
	}
	b := saved.Bytes()
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			got, err := state.Load(bytes.NewReader(b))
			if err == nil && (got.Hash() != snap.Hash() || got.LogVersion != snap.LogVersion || i < bytes.IndexByte(b, '\n')) {
				t.Errorf("bit %d of byte %d of %d: % x", bit, i, len(b), b[max(0, i-4):min(len(b), i+4)])
			}
			if v := state.Verify(bytes.NewReader(b)); (v == nil) != (err == nil) {
				t.Errorf("bit %d of byte %d: read with %v, verified with %v", bit, i, err, v)
			}
			b[i] ^= 1 << bit
		}
	}
	for i := range b {
		if _, err := state.Load(bytes.NewReader(b[:i])); err == nil {
			t.Errorf("%d of %d bytes", i, len(b))
		}
	}
}
