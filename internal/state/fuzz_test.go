package state_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// history is a drawn history: its entries as the log has them, and the state
// that they lead to.
type history struct {
	entries [][]byte
	end     *state.Snapshot
}

// histories draws the same few histories each time.
var histories = sync.OnceValue(func() (out []history) {
	gen := rapid.Custom(func(t *rapid.T) history {
		var draw statetest.Random
		h := history{end: state.New().Snapshot()}
		for range 12 {
			tx := state.Begin(h.end)
			var cmds []byte
			for range 6 {
				if c := draw.Command(t, tx.Snapshot); tx.Apply(c).Err == nil {
					cmds = state.AppendCommand(cmds, c)
				}
			}
			h.entries = append(h.entries, codec.EncodeEntry(cmds))
			h.end = tx.Seal()
		}
		return h
	})
	for seed := range 8 {
		out = append(out, gen.Example(seed))
	}
	return out
})

// plainEntry returns an entry that is not compressed, so that a fuzzer can
// change a field of it.
func plainEntry(t testing.TB, entry []byte) []byte {
	if entry[1] == 0 {
		return entry
	}
	cmds, err := s2.Decode(nil, entry[2:])
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{entry[0], 0}, cmds...)
}

func encodeAll(cmds []state.Command) []byte {
	var b []byte
	for _, c := range cmds {
		b = state.AppendCommand(b, c)
	}
	return codec.EncodeEntry(b)
}

// What a server wrote is read and written again to the last bit.
func TestEntriesReencode(t *testing.T) {
	for _, h := range histories() {
		for _, entry := range h.entries {
			cmds, err := state.DecodeEntry(entry)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(encodeAll(cmds), entry) {
				t.Errorf("an entry of %d commands is written in another way when it is written again", len(cmds))
			}
		}
	}
}

// Any bytes are an error or commands, which can be written and read again, and
// which a state refuses or takes, all without a panic and in no more memory
// than the bytes account for.
func FuzzDecodeEntry(f *testing.F) {
	for _, h := range histories() {
		for _, entry := range h.entries {
			f.Add(entry)
			f.Add(plainEntry(f, entry))
		}
	}
	f.Add(registration("\x81\xa3Job\x81\xabConstraints\xdd\x00\x40\x00\x00"))
	f.Add([]byte{codec.EntryVersion + 1, 0})
	f.Add(codec.EncodeEntryOn(1, codec.LogVersion, state.AppendCommand(nil, &state.BeginTerm{Term: 2, Cluster: state.ClusterID{1}})))
	world := histories()[0].end
	f.Fuzz(func(t *testing.T, data []byte) {
		var cmds []state.Command
		var err error
		size := len(data)
		if len(data) > 2 && data[1] != 0 {
			if n, err := s2.DecodedLen(data[2:]); err == nil && n <= codec.MaxEntry+codec.MaxCommand {
				size += n
			}
		}
		if n := allocated(func() { cmds, err = state.DecodeEntry(data) }); n > 1<<20+256*uint64(size) {
			t.Fatalf("%d bytes take %d to decode", size, n)
		}
		if err != nil {
			return
		}
		first := encodeAll(cmds)
		again, err := state.DecodeEntry(first)
		if err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
		if second := encodeAll(again); !bytes.Equal(first, second) {
			t.Fatalf("written again it is\n%x, not\n%x", second, first)
		}
		one, two := state.Begin(world), state.Begin(world)
		for i := range cmds {
			r1, r2 := one.Apply(cmds[i]), two.Apply(again[i])
			if (r1.Err == nil) != (r2.Err == nil) || r1.Index != r2.Index {
				t.Fatalf("%T comes to %v, and written again to %v", cmds[i], r1, r2)
			}
			if r1.Err != nil && strings.Contains(r1.Err.Error(), "broke its promise") {
				t.Fatalf("%v\n%+v", r1.Err, cmds[i])
			}
		}
		if one.Seal().Hash() != two.Seal().Hash() {
			t.Fatal("the two lead to different states")
		}
	})
}

var headLine = fmt.Sprintf("berth snapshot %d\n", codec.SnapshotVersion)

var (
	zip   = must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest)))
	unzip = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// file returns a saved snapshot of these records, with the checksum that they
// must have.
func file(records []byte) []byte {
	const end = 13
	sum := binary.AppendUvarint(nil, uint64(crc32.Checksum(records, crc32.MakeTable(crc32.Castagnoli))))
	records = append(append(bytes.Clone(records), end, byte(len(sum))), sum...)
	return zip.EncodeAll(records, []byte(headLine))
}

// records returns the records of a saved snapshot but for the checksum.
func records(t testing.TB, s *state.Snapshot) (saved, records []byte) {
	var out bytes.Buffer
	newest := *s
	newest.LogVersion = codec.LogVersion // so that all tables are in it
	if err := newest.Save(&out); err != nil {
		t.Fatal(err)
	}
	all, err := unzip.DecodeAll(out.Bytes()[len(headLine):], nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 3; n <= 7; n++ { // the last record is 1 to 5 bytes after a kind and a length
		if r := all[:len(all)-n]; bytes.HasSuffix(all, append([]byte{13, byte(n - 2)}, all[len(all)-n+2:]...)) {
			if got, err := state.Load(bytes.NewReader(file(r))); err == nil && got.Hash() == s.Hash() {
				return out.Bytes(), r
			}
		}
	}
	t.Fatal("the saved snapshot does not end with a checksum")
	return nil, nil
}

// Any bytes are an error or a state, which is saved and loaded again as the
// same and can be looked through, without a panic and in no more memory than
// the bytes account for. With sealed the bytes are records, and what makes a
// file of them is right: else no change would get past the checksum.
func FuzzLoad(f *testing.F) {
	for _, h := range histories() {
		saved, recs := records(f, h.end)
		f.Add(saved, false)
		f.Add(recs, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			data = file(data)
		}
		var s *state.Snapshot
		var err error
		n := allocated(func() { s, err = state.Load(bytes.NewReader(data)) })
		if err != nil && n > 128<<20 {
			t.Fatalf("%d bytes take %d to refuse", len(data), n)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := s.Save(&again); err != nil {
			t.Fatal(err)
		}
		second, err := state.Load(&again)
		if err != nil {
			t.Fatalf("what was loaded cannot be saved and loaded again: %v", err)
		}
		if s.Hash() != second.Hash() {
			t.Fatalf("saved and loaded again it is another state\n%s", diff(s, second))
		}
		s.Dump(io.Discard)
		invariant.Check(s)
		for a := range s.Allocs() {
			if s.Alloc(a.ID) != a || s.Eval(berth.EvalID{}) != nil {
				t.Fatal("a row is not found by its key")
			}
		}
	})
}
