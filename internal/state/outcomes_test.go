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

// What comes of a command is part of a log version, as its fields are: servers of
// different builds apply the same log, and must come to the same state. For each
// log version that is settled, commands were recorded with what came of them. A
// change of the outcome belongs to a new log version: Apply asks tx.LogVersion.
//
// The newest log version may still change until it is in a release. When the next
// one begins, record it: go test ./internal/state -run Outcomes -args -record-outcomes.
func TestOutcomesStayAsTheyAre(t *testing.T) {
	for v := 1; v < codec.LogVersion; v++ {
		t.Run(fmt.Sprint("log version ", v), func(t *testing.T) {
			path := filepath.Join("testdata", "outcomes", fmt.Sprintf("logversion%d", v))
			if _, err := os.Stat(path + ".log.gz"); err != nil && *recordOutcomes {
				record(t, path, v)
			}
			cmds := recorded(t, path+".log.gz")
			want, err := os.ReadFile(path + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			got := outcomes(t, v, cmds)
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

// outcomes applies commands to an empty state of a log version and returns a line
// for each: what it was, whether it was refused, and the sum of the state's rows.
func outcomes(t *testing.T, version int, cmds [][]byte) string {
	t.Helper()
	start := *state.New().Snapshot()
	start.LogVersion = version
	var out strings.Builder
	s := &start
	for i, text := range cmds {
		list, err := state.DecodeEntry(codec.EncodeEntryOn(s.Index, version, text))
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
		}
		sum := crc32.NewIEEE()
		if i%8 == 7 || i == len(cmds)-1 { // the whole state is saved for it
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

// record draws commands that a log version has, and writes them with what comes
// of them.
func record(t *testing.T, path string, version int) {
	t.Helper()
	var cmds [][]byte
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
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, c := range cmds {
		z.Write(append(binary.AppendUvarint(nil, uint64(len(c))), c...))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".log.gz", b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".txt", []byte(outcomes(t, version, cmds)), 0o644); err != nil {
		t.Fatal(err)
	}
}
