package supervise

import (
	"errors"
	"io/fs"

	"berth/internal/agent/record"
	"berth/internal/saferoot"
)

// Files of a control directory.
const (
	fileSocket = "sock"
	fileState  = "state"
	fileLock   = "lock"
	fileLog    = "log" // what the supervisor has to say, which is little
)

// state is what outlives a supervisor: its launches, so that an agent learns
// exits, and finds orphans, of one that was killed.
type state struct {
	Boot     string   // PIDs mean nothing in another boot
	Alloc    string   // ID of the allocation
	Launches []Launch // the newest of each task
}

// maxState is the most bytes that are read of a state file.
const maxState = 4 << 20

// decodeState reads what encode wrote.
func decodeState(b []byte) (*state, error) {
	s := new(state)
	return s, record.Decode(b, "supervisor", s)
}

// encode returns the state as a record with a checksum.
func (s *state) encode() ([]byte, error) { return record.Append(nil, "supervisor", s) }

// readState returns an empty state if there is none.
func readState(control *saferoot.Root) (*state, error) {
	b, err := control.ReadFile(fileState, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return &state{}, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeState(b)
}

// save replaces the state in the control directory, whole or not at all.
func (s *state) save(control *saferoot.Root) error {
	b, err := s.encode()
	if err != nil {
		return err
	}
	return control.Replace(fileState, b, 0o600)
}

// find returns a launch of the task, by number or, for 0, the newest; nil if
// there is none. It points into the state.
func (s *state) find(task string, number uint64) *Launch {
	for i := range s.Launches {
		if l := &s.Launches[i]; l.Task == task && (l.Number == number || number == 0) {
			return l
		}
	}
	return nil
}
