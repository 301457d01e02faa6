package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"berth"

	"github.com/klauspost/compress/s2"
)

// The log carries a command as its number and its fields. Numbers are never
// used for anything else again, and a server that meets one it does not know
// refuses to start: it must not go on without a change that others made. What a
// server must know beyond numbers is in dialect.go.

// packed is a command that writes its own fields.
type packed interface {
	Command
	pack(w *writer)
	unpack(r *reader)
}

// commands are all there are, by number.
var commands = map[uint64]func() Command{
	1:  func() Command { return &BeginTerm{} },
	2:  func() Command { return &RegisterJob{} },
	3:  func() Command { return &StopJob{} },
	4:  func() Command { return &RegisterNode{} },
	5:  func() Command { return &SetNodeStatus{} },
	6:  func() Command { return &ApplyPlan{} },
	7:  func() Command { return &ReportAllocs{} },
	8:  func() Command { return &CancelEvals{} },
	9:  func() Command { return &FailEval{} },
	10: func() Command { return &AddNodeEvents{} },
	11: func() Command { return &CreateEvals{} },
	12: func() Command { return &DeleteRows{} },
	13: func() Command { return &RaiseCore{} },
	14: func() Command { return &SetSchedulerConfig{} },
	15: func() Command { return &UpsertNodePools{} },
	16: func() Command { return &DeleteNodePools{} },
	17: func() Command { return &SetNodeEligibility{} },
	18: func() Command { return &EvaluateJob{} },
	19: func() Command { return &SetDeploymentStatus{} },
	20: func() Command { return &PromoteDeployment{} },
	21: func() Command { return &SetAllocHealth{} },
	22: func() Command { return &FailDeployment{} },
	23: func() Command { return &StepDeployments{} },
	24: func() Command { return &SetTrackedVersions{} },
	25: func() Command { return &UpdateDrain{} },
	26: func() Command { return &MigrateAllocs{} },
	27: func() Command { return &FinishDrain{} },
	28: func() Command { return &LaunchPeriodic{} },
	30: func() Command { return &DispatchJob{} },
	31: func() Command { return &RevertJob{} },
	32: func() Command { return &SetJobStability{} },
	33: func() Command { return &TagVersion{} },
	34: func() Command { return &ScaleJob{} },
	37: func() Command { return &StopAlloc{} },
	40: func() Command { return &UpsertServices{} },
	41: func() Command { return &DeleteServices{} },
	42: func() Command { return &CheckHash{} },
	43: func() Command { return &SetAutopilotConfig{} },
	44: func() Command { return &DeleteJob{} },
	45: func() Command { return &FinalizeDeletions{} },
	46: func() Command { return &PlanSubmission{} },
	47: func() Command { return &EnsureResources{} },
	48: func() Command { return &LaunchPE{} },
	49: func() Command { return &CompleteSubmission{} },
	50: func() Command { return &DeleteResource{} },
	51: func() Command { return &CollectResources{} },
	52: func() Command { return &SetConnectivity{} },
	53: func() Command { return &RecoverJobs{} },
	54: func() Command { return &FailSubmission{} },
	55: func() Command { return &SetExport{} },
	56: func() Command { return &SetImport{} },
}

var numbers = func() map[reflect.Type]uint64 {
	m := map[reflect.Type]uint64{}
	for n, f := range commands {
		m[reflect.TypeOf(f())] = n
	}
	return m
}()

// Number names a kind of command, as the log does.
type Number uint16

// NumberOf returns the number of a command's kind; 0 is a kind that no log
// carries.
func NumberOf(c Command) Number { return Number(numbers[reflect.TypeOf(c)]) }

// EntryVersion is the newest version of log entries that this build writes and
// reads. It reads older ones, and writes the oldest that can say what there is.
const EntryVersion = entryWithDialect

// The versions of entries.
const (
	entryWithoutBase = iota + 1 // it does not say on which state it was made
	entryWithBase
	entryWithDialect // it says what a server must know to read it
)

// Flags of an entry.
const entryCompressed = 1

// MaxEntry is the most bytes of commands that are gathered into one entry
// (known bug class N24). One command may be larger, up to MaxCommand.
const (
	MaxEntry   = 512 << 10
	MaxCommand = 8 << 20
)

// AppendCommand appends an applied command as entries hold it. What a command
// learned when it was applied, such as the numbers of nodes, is part of it.
func AppendCommand(b []byte, c Command) []byte {
	n, ok := numbers[reflect.TypeOf(c)]
	if !ok {
		panic(fmt.Sprintf("state: %T has no number in the log", c))
	}
	var fields []byte
	if p, ok := c.(packed); ok {
		var w writer
		p.pack(&w)
		fields = w.buf
	} else {
		fields = encode(c)
	}
	w := writer{b}
	w.uint(n)
	w.bytes(fields)
	return w.buf
}

// EncodeEntry makes an entry of commands that AppendCommand appended. It can be
// applied to any state.
func EncodeEntry(cmds []byte) []byte { return encodeEntry([]byte{entryWithoutBase, 0}, cmds) }

// EncodeEntryOn makes an entry of commands that were applied to the state with
// the index base, which EntryBase tells, and need a dialect. A server that does
// not know the dialect refuses the entry, though it may know all numbers.
func EncodeEntryOn(base uint64, dialect int, cmds []byte) []byte {
	if dialect == 1 {
		return encodeEntry(binary.AppendUvarint([]byte{entryWithBase, 0}, base), cmds)
	}
	head := binary.AppendUvarint([]byte{entryWithDialect, 0}, base)
	return encodeEntry(binary.AppendUvarint(head, uint64(dialect)), cmds)
}

func encodeEntry(head, cmds []byte) []byte {
	const worthwhile = 256
	if len(cmds) >= worthwhile {
		out := make([]byte, len(head), len(head)+s2.MaxEncodedLen(len(cmds)))
		copy(out, head)
		out[1] |= entryCompressed
		out = append(out, s2.EncodeBetter(nil, cmds)...)
		if len(out) < len(cmds) {
			return out
		}
	}
	return append(head, cmds...)
}

// EntryBase returns the index of the state that an entry's commands were
// applied to, if the entry says it.
func EntryBase(b []byte) (index uint64, ok bool) {
	if len(b) < 3 || b[0] < entryWithBase || b[0] > EntryVersion {
		return 0, false
	}
	index, n := binary.Uvarint(b[2:])
	return index, n > 0
}

// DecodeEntry returns the commands of a log entry. Bytes that no server wrote
// are an error, never a panic; so is a command or version of a newer server.
func DecodeEntry(b []byte) ([]Command, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("log entry: %d bytes are too few", len(b))
	}
	if b[0] == 0 || b[0] > EntryVersion {
		return nil, fmt.Errorf("log entry: version %d; this build knows 1 to %d", b[0], EntryVersion)
	}
	body := b[2:]
	if b[0] > entryWithoutBase {
		_, n := binary.Uvarint(body)
		if n <= 0 {
			return nil, errors.New("log entry: it does not say on which state it was made")
		}
		body = body[n:]
	}
	if b[0] >= entryWithDialect {
		dialect, n := binary.Uvarint(body)
		switch {
		case n <= 0 || dialect < 1:
			return nil, errors.New("log entry: it does not say what a server must know to read it")
		case dialect > Dialect:
			return nil, berth.Errorf(berth.Unavailable, "log entry: it is of log dialect %d, and this build knows 1 to %d; it was written by a newer one", dialect, Dialect)
		}
		body = body[n:]
	}
	switch b[1] {
	case 0:
	case entryCompressed:
		n, err := s2.DecodedLen(body)
		if err == nil && n > MaxEntry+MaxCommand {
			err = fmt.Errorf("%d bytes", n)
		}
		if err == nil {
			body, err = s2.Decode(nil, body)
		}
		if err != nil {
			return nil, fmt.Errorf("log entry: %w", err)
		}
	default:
		return nil, fmt.Errorf("log entry: flags %d are not known", b[1])
	}
	var out []Command
	r := reader{buf: body}
	for len(r.buf) > 0 && r.err == nil {
		n := r.uint()
		fields := r.take(r.length(1))
		if r.err != nil {
			break
		}
		c, err := decodeCommand(n, fields)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if r.err != nil {
		return nil, fmt.Errorf("log entry: %w", r.err)
	}
	return out, nil
}

func decodeCommand(n uint64, fields []byte) (Command, error) {
	make, ok := commands[n]
	if !ok {
		return nil, berth.Errorf(berth.Unavailable, "log entry: command %d is not known to this build; it was written by a newer one", n)
	}
	c := make()
	p, ok := c.(packed)
	if !ok {
		if err := decode(fields, c); err != nil {
			return nil, fmt.Errorf("log entry: %w", err)
		}
		return c, nil
	}
	r := reader{buf: fields}
	p.unpack(&r)
	if r.err == nil && len(r.buf) > 0 {
		r.fail(fmt.Sprintf("%d bytes are left over", len(r.buf)))
	}
	if r.err != nil {
		return nil, fmt.Errorf("log entry: %T: %w", c, r.err)
	}
	return c, nil
}
