package state_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

// registration returns a log entry that registers a job with these fields.
func registration(fields string) []byte {
	inner := append(binary.AppendUvarint(nil, uint64(len(fields))), fields...)
	b := []byte{codec.EntryVersion, 0, 1, 1, 2} // on state 1, of log version 1, command 2
	b = binary.AppendUvarint(b, uint64(len(inner)))
	return append(b, inner...)
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A damaged entry claims more than it holds, or nests deeper than any job. It
// is refused for that, before any room is made for it.
func TestDamagedEntriesAreRefusedAtOnce(t *testing.T) {
	const (
		job   = "\x81\xa3Job\x81"
		many  = "\x00\x40\x00\x00" // 4,194,304
		group = job + "\xaaTaskGroups\x91\x81\xa5Tasks\x91\x81\xa6Config\x81\xa1a"
	)
	for name, fields := range map[string]string{
		"a list longer than the entry": job + "\xabConstraints\xdd" + many,
		"a map longer than the entry":  group + strings.Repeat("\xdf\x00\x0f\x00\x00\xa1a", 3),
		"text longer than the entry":   job + "\xa2ID\xdb" + many,
		"endless nesting":              group + strings.Repeat("\x91", 1<<20) + "\xc0",
		"more after the end":           job + "\xa2ID\xa1a" + "\xc0",
		"a byte that means nothing":    job + "\xa2ID\xc1",
		"half a number":                job + "\xa8Priority\xcd\x01",
	} {
		t.Run(name, func(t *testing.T) {
			entry := registration(fields)
			var err error
			if n := allocated(func() { _, err = state.DecodeEntry(entry) }); n > 1<<20 {
				t.Errorf("%d bytes take %d to decode", len(entry), n)
			}
			if err == nil {
				t.Error("it is taken for an entry")
			}
		})
	}
}

// A node says which ports it keeps in a text that is short, however often it
// says the same.
func TestReservedPortsSaidOftenCostLittle(t *testing.T) {
	c := statetest.AddNode(1, 1000, 1000)
	c.Node.ReservedResources.Networks.ReservedHostPorts = strings.Repeat("1-65535,", 1000)
	tx := state.Begin(state.New().Snapshot())
	if n := allocated(func() {
		if r := tx.Apply(c); r.Err != nil {
			t.Error(r.Err)
		}
	}); n > 8<<20 {
		t.Errorf("it takes %d bytes to register the node", n)
	}
	if n := tx.Usage(0).Reserved.Len(); n != 65535 {
		t.Errorf("%d ports are kept", n)
	}
}

// breaks is a command that does not keep the promise of Apply.
type breaks struct{}

func (breaks) Apply(tx *state.Tx) error {
	if r := statetest.AddNode(1, 1, 1).Apply(tx); r != nil {
		return r
	}
	panic("at the wrong moment")
}

// A command that breaks its promise is refused like any other: an error without
// a kind would tell the leader's services that the log is gone.
func TestBrokenPromiseIsARefusal(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	before := tx.Seal().Hash()
	r := tx.Apply(breaks{})
	if berth.KindOf(r.Err) == "" || tx.Seal().Hash() != before {
		t.Errorf("kind %q of %v, and the state changed: %v", berth.KindOf(r.Err), r.Err, tx.Seal().Hash() != before)
	}
}

// A command that is too large to be read again can be taken back.
func TestUndo(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	apply := func(n int) {
		if r := tx.Apply(statetest.AddNode(n, 1000, 1000)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(1)
	tip := tx.Seal()
	want := tip.Hash()
	apply(2)
	tx.Undo()
	if got := tx.Seal(); got.Hash() != want || tip.Hash() != want || got.Count(state.Nodes) != 1 {
		t.Errorf("after undoing there are %d nodes", got.Count(state.Nodes))
	}
	apply(3)
	end := tx.End()
	if end.Count(state.Nodes) != 2 || len(end.Changes) != 2 || end.Index != 3 {
		t.Errorf("it went on to %d nodes at index %d with %d changes", end.Count(state.Nodes), end.Index, len(end.Changes))
	}
}

// Who staged a command reads what became of it while others go on: to apply it
// again must not write to it.
func TestUndoLeavesOtherCommandsAlone(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	tx.Apply(statetest.Register(statetest.Job(t, `{"ID":"a","TaskGroups":[{"Name":"g"}]}`), 1))
	plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](9)}}}
	if r := tx.Apply(plan); r.Err != nil || len(plan.Refused) != 1 {
		t.Fatal(r.Err, plan.Refused)
	}
	was := &plan.Refused[0]
	tx.Apply(statetest.AddNode(1, 1, 1))
	tx.Undo()
	if &plan.Refused[0] != was {
		t.Error("what the plan was told is written again")
	}
}

// Whatever score a plan has, what the log says of it is what is stored.
func TestScoresThatAreNone(t *testing.T) {
	for score, want := range map[float32]float32{0.5: 0.5, 1e9: 1, float32(math.Inf(-1)): -1, float32(math.NaN()): 0} {
		setup := []state.Command{
			statetest.AddNode(1, 1000, 1000), statetest.Register(statetest.Job(t, `{"ID":"a","TaskGroups":[{"Name":"g"}]}`), 1),
		}
		plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1), Score: score}}}
		var entry []byte
		tx := state.Begin(state.New().Snapshot())
		for _, c := range append(setup, plan) {
			if r := tx.Apply(c); r.Err != nil || len(plan.Refused) > 0 {
				t.Fatal(r.Err, plan.Refused)
			}
			entry = state.AppendCommand(entry, c)
		}
		cmds, err := state.DecodeEntry(codec.EncodeEntry(entry))
		if err != nil {
			t.Fatal(err)
		}
		reader := state.Begin(state.New().Snapshot())
		for _, c := range cmds {
			reader.Apply(c)
		}
		for a := range tx.Allocs() {
			if a.Score != want || tx.Seal().Hash() != reader.Seal().Hash() {
				t.Errorf("the score %v is kept as %v; the reader of the log has another state: %v", score, a.Score, tx.Seal().Hash() != reader.Seal().Hash())
			}
		}
	}
}

// A row that stands twice in a saved snapshot is damage: indexes rely on it
// that it stands once.
func TestRowsThatStandTwice(t *testing.T) {
	richest := slices.MaxFunc(histories(), func(a, b history) int { return cmp.Compare(a.end.Count(state.Allocs), b.end.Count(state.Allocs)) })
	_, all := records(t, richest.end)
	twice := map[byte]int{}
	for rest := all; len(rest) > 0; {
		n, width := binary.Uvarint(rest[1:])
		size := 1 + width + int(n)
		row := rest[:size]
		rest = rest[size:]
		at := len(all) - len(rest)
		damaged := slices.Concat(all[:at], row, all[at:])
		_, err := state.Load(bytes.NewReader(file(damaged)))
		switch kind := row[0]; kind {
		case 1, 2, 3, 5, 6, 8, 9: // head, namespace, node, job, history, evaluation, allocation
			if twice[kind]++; err == nil {
				t.Fatalf("a record of kind %d is loaded twice", kind)
			}
		}
	}
	if len(twice) < 7 {
		t.Errorf("the history does not have all kinds of rows: %v", twice)
	}
}
