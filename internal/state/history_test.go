package state_test

import (
	"bytes"
	"testing"

	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// Whatever commands arrive: all invariants hold, a refused command changes
// nothing, a server that reads the log ends up with the same state as the one
// that wrote it, and a saved state is the state.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var draw statetest.Random
		store := state.New()
		writer, reader := store.Snapshot(), store.Snapshot()
		for range rapid.IntRange(1, 15).Draw(t, "entries") {
			before, hash := writer, writer.Hash()
			tx := state.Begin(writer)
			var entry []byte
			for range rapid.IntRange(1, 6).Draw(t, "commands") {
				c := draw.Command(t, tx.Snapshot)
				was := tx.Seal()
				unchanged := was.Hash()
				if r := tx.Apply(c); r.Err == nil {
					entry = state.AppendCommand(entry, c)
					if v := invariant.Step(was, tx.Seal()); len(v) > 0 {
						t.Fatalf("%T: %v", c, v)
					}
				} else if tx.Seal().Hash() != unchanged {
					t.Fatalf("%T was refused (%v) and changed the state", c, r.Err)
				}
			}
			batch := tx.End()
			writer = batch.Snapshot
			if v := invariant.Changed(before, batch.Changes); len(v) > 0 {
				t.Fatal(v)
			}
			if before.Hash() != hash {
				t.Fatal("a snapshot changed")
			}
			reader = replay(t, reader, codec.EncodeEntry(entry))
			if writer.Hash() != reader.Hash() {
				t.Fatalf("the reader of the log has another state:\n%s", diff(writer, reader))
			}
			var saved bytes.Buffer
			if err := writer.Save(&saved); err != nil {
				t.Fatal(err)
			}
			loaded, err := state.Load(&saved)
			if err != nil {
				t.Fatal(err)
			}
			if loaded.Hash() != writer.Hash() {
				t.Fatal("what was loaded is not what was saved")
			}
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				reader = loaded // goes on from a snapshot, as a server does that was away
			}
			for _, s := range []*state.Snapshot{writer, loaded} {
				if v := invariant.Check(s); len(v) > 0 {
					t.Fatal(v)
				}
			}
			if v := invariant.Between(before, writer); len(v) > 0 {
				t.Fatal(v)
			}
		}
		if err := state.CheckFrozen(); err != nil {
			t.Fatal(err)
		}
	})
}

func replay(t *rapid.T, s *state.Snapshot, entry []byte) *state.Snapshot {
	cmds, err := state.DecodeEntry(entry)
	if err != nil {
		t.Fatal(err)
	}
	tx := state.Begin(s)
	for _, c := range cmds {
		if r := tx.Apply(c); r.Err != nil {
			t.Fatalf("%T from the log is refused: %v", c, r.Err)
		}
	}
	return tx.Seal()
}

// diff shows where two states differ, for people.
func diff(a, b *state.Snapshot) string {
	var out bytes.Buffer
	for _, s := range []*state.Snapshot{a, b} {
		s.Dump(&out)
	}
	return out.String()
}
