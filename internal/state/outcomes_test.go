package state_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

var recordOutcomes = flag.Bool("record-outcomes", false, "record the outcomes of log versions that have none yet")

// recording is a pair of files: commands, and what comes of each.
type recording struct {
	name  string // of the files
	start int    // the log version of the state that the first command is applied to
	every int    // the sum of the state follows each such number of commands
	make  func(t *testing.T) [][]byte
}

// path is where the recording is, without the endings of its two files.
func (r recording) path() string { return filepath.Join("testdata", "outcomes", r.name) }

// recordings returns all recordings.
func recordings() (out []recording) {
	for v := 1; v < codec.LogVersion; v++ {
		out = append(out, recording{fmt.Sprint("logversion", v), v, 8, func(t *testing.T) [][]byte { return drawn(t, v) }})
	}
	return append(out, written, forgotten)
}

// What comes of a command is part of a log version, as its fields are: servers of
// different builds apply the same log, and must come to the same state. For each
// log version that is settled, commands were recorded with what came of them. A
// change of the outcome belongs to a new log version: Apply asks tx.LogVersion.
//
// The newest log version may still change until it is in a release. When the next
// one begins, record it: go test ./internal/state -run Outcomes -args -record-outcomes.
func TestOutcomesStayAsTheyAre(t *testing.T) {
	for _, r := range recordings() {
		t.Run(r.name, func(t *testing.T) {
			if _, err := os.Stat(r.path() + ".log.gz"); err != nil && *recordOutcomes {
				record(t, r, r.make(t))
			}
			cmds := recorded(t, r.path()+".log.gz")
			want, err := os.ReadFile(r.path() + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			got := outcomes(t, r, cmds)
			a, b := strings.Split(string(want), "\n"), strings.Split(got, "\n")
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					t.Fatalf("command %d had the outcome\n  %s\nand has\n  %s\nServers of an earlier build have the first one: make the new outcome depend on tx.LogVersion.", i+1, a[i], b[i])
				}
			}
			if len(a) != len(b) {
				t.Errorf("%d outcomes, want %d", len(b), len(a))
			}
		})
	}
}

// outcomes applies commands to an empty state and returns a line for each: what it
// was, whether it was refused, and the sum of the state's rows.
func outcomes(t *testing.T, rec recording, cmds [][]byte) string {
	t.Helper()
	start := *state.New().Snapshot()
	start.LogVersion = rec.start
	var out strings.Builder
	s := &start
	for i, text := range cmds {
		list, err := state.DecodeEntry(codec.EncodeEntryOn(s.Index, rec.start, text))
		if err != nil || len(list) != 1 {
			t.Fatalf("command %d: %v", i+1, err)
		}
		tx := state.Begin(s)
		r := tx.Apply(list[0])
		said := "applied"
		if r.Err != nil {
			said = "refused " + string(berth.KindOf(r.Err))
		} else {
			s = tx.End().Snapshot
			if c := s.Check(); c != nil && c.Index == s.Index { // no row has it
				said += fmt.Sprintf(", to compare %x of %d", c.Hash, c.Of)
			}
		}
		sum := crc32.NewIEEE()
		if i%rec.every == rec.every-1 || i == len(cmds)-1 { // the whole state is saved for it
			if err := s.Save(sum); err != nil {
				t.Fatal(err)
			}
			said += fmt.Sprintf(" %08x", sum.Sum32())
		}
		fmt.Fprintf(&out, "%s %s at %d\n", reflect.TypeOf(list[0]).Elem().Name(), said, s.Index)
	}
	return out.String()
}

// recorded returns the commands of a file.
func recorded(t *testing.T, path string) (out [][]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for len(all) > 0 {
		n, k := binary.Uvarint(all)
		out, all = append(out, all[k:k+int(n)]), all[k+int(n):]
	}
	return out
}

// drawn draws commands that a log version has.
func drawn(t *testing.T, version int) (cmds [][]byte) {
	t.Helper()
	rapid.Custom(func(t *rapid.T) int {
		var draw statetest.Random
		cmds = nil
		start := *state.New().Snapshot()
		start.LogVersion = version
		s := &start
		for len(cmds) < 600 {
			c := draw.Command(t, s)
			if state.Needs(c) > version {
				continue
			}
			tx := state.Begin(s)
			if r := tx.Apply(c); r.Err != nil {
				continue // is not logged
			}
			s = tx.End().Snapshot
			cmds = append(cmds, state.AppendCommand(nil, c)) // a plan says only now what it uses
		}
		return 0
	}).Example(version)
	return cmds
}

// record writes commands with what comes of them.
func record(t *testing.T, r recording, cmds [][]byte) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, c := range cmds {
		z.Write(append(binary.AppendUvarint(nil, uint64(len(c))), c...))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(r.path()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path()+".log.gz", b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path()+".txt", []byte(outcomes(t, r, cmds)), 0o644); err != nil {
		t.Fatal(err)
	}
}
