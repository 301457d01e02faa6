package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strings"

	"berth"
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
	Boot     string // PIDs mean nothing in another boot
	Alloc    string
	Launches []Launch
}

const maxState = 4 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes the state as a line with a checksum and a line of JSON.
func (s *state) encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "berth supervisor 1 %08x\n%s\n", crc32.Checksum(b, castagnoli), b), nil
}

func decodeState(b []byte) (*state, error) {
	head, body, ok := strings.Cut(string(b), "\n")
	body = strings.TrimSuffix(body, "\n")
	if !ok || head != fmt.Sprintf("berth supervisor 1 %08x", crc32.Checksum([]byte(body), castagnoli)) {
		return nil, berth.Errorf(berth.Invalid, "the supervisor's state is damaged")
	}
	s := new(state)
	if err := json.Unmarshal([]byte(body), s); err != nil {
		return nil, berth.Errorf(berth.Invalid, "the supervisor's state: %w", err)
	}
	return s, nil
}

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

func (s *state) save(control *saferoot.Root) error {
	b, err := s.encode()
	if err != nil {
		return err
	}
	return control.Replace(fileState, b, 0o600)
}

func (s *state) find(task string, number uint64) *Launch {
	for i := range s.Launches {
		if l := &s.Launches[i]; l.Task == task && (l.Number == number || number == 0) {
			return l
		}
	}
	return nil
}
