package consensus_test

import (
	"errors"
	"strings"
	"testing"

	"berth"
	"berth/internal/consensus"
	"berth/internal/state"
)

// endless is an upload that repeats one byte and never ends a line. It fails
// after a mebibyte, so that a reader without a limit fails instead of running
// for ever.
type endless struct {
	first string // sent before the repeated byte
	read  int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.read > 1<<20 {
		return 0, errors.New("read too much")
	}
	n := copy(b, e.first)
	e.first = e.first[n:]
	for i := n; i < len(b); i++ {
		b[i] = 'a'
	}
	e.read += len(b)
	return len(b), nil
}

// Each line at the start of a snapshot is bounded, so an upload that never ends
// one is refused after a few kibibytes.
func TestASnapshotWithoutLinesIsRefusedEarly(t *testing.T) {
	const magic = "berth operator snapshot 1\n"
	for _, first := range []string{"", magic[:len(magic)-1], magic, magic + "{}\n", strings.Repeat("\x00", 100)} {
		in := &endless{first: first}
		if _, _, err := consensus.ReadBackup(in); berth.KindOf(err) != berth.Invalid {
			t.Errorf("after %q: %v", first, err)
		}
		if in.read > 16<<10 {
			t.Errorf("after %q: %d bytes were read", first, in.read)
		}
	}
}

// The state inside a snapshot begins with a line of its own.
func TestAStateWithoutALineIsRefusedEarly(t *testing.T) {
	for _, first := range []string{"", "berth state "} {
		in := &endless{first: first}
		if _, err := state.Load(in); err == nil || in.read > 16<<10 {
			t.Errorf("after %q: %v, %d bytes were read", first, err, in.read)
		}
	}
}
