package state

import (
	"fmt"
	"reflect"
	"sync"

	"berth"
	"berth/internal/state/codec"
)

// kind describes a kind of command, apart from what it does.
type kind struct {
	make func() Command
	// since is the log version that introduced its number. A command with later
	// fields has a method needs.
	since int
	// feature names it for operators, if it can need a log version beyond 1.
	// DeleteJob has a method for that.
	feature string
	cause   string // why it changed a resource, as events show it
	counted bool   // its refusals are counted: nobody waits for it, so a refusal means that it came too late
}

// streamJobs is the feature that most commands of log version 2 belong to.
const streamJobs = "jobs of type " + berth.TypeStream

// secrets is the feature of the keyring and of what it encrypts.
const secrets = "variables and the keyring"

// quotas is the feature of quotas, and quotasSince the log version that brought
// them.
const (
	quotas      = "quotas"
	quotasSince = 5
)

// kinds holds all kinds by number, and numbers the reverse. commands.go fills
// them in an init function: the table names every command, and commands depend
// on these variables.
var (
	kinds   []kind
	numbers = map[reflect.Type]Number{}
)

// NumberOf returns the number of a command's kind, or 0 for a kind that is
// never logged.
func NumberOf(c Command) Number { return numbers[reflect.TypeOf(c)] }

// Cause returns why commands of the kind change resources, or "" if they do
// not.
func (n Number) Cause() string { return kinds[n].cause }

// Counted reports whether refusals of the kind are counted.
func (n Number) Counted() bool { return kinds[n].counted }

// needer is a command that may need a higher log version than its number does.
type needer interface{ needs() int }

// Needs returns the log version that a server must know to understand a
// command.
func Needs(c Command) int { return needs(c, NumberOf(c)) }

// needs returns the log version from which a server understands c, a command
// with number n.
func needs(c Command, n Number) int {
	if x, ok := c.(needer); ok {
		return x.needs()
	}
	if n == 0 { // never logged
		return 1
	}
	return kinds[n].since
}

// featured is a command with more than one feature.
type featured interface{ feature() string }

// Feature names for operators the feature that a command needs and log version
// 1 does not have.
func Feature(c Command) string {
	if x, ok := c.(featured); ok {
		return x.feature()
	}
	return kinds[NumberOf(c)].feature
}

// packed is a command that encodes its own fields.
type packed interface {
	Command
	pack(w *codec.Writer)
	unpack(r *codec.Reader)
}

// AppendCommand appends an applied command in the encoding of log entries.
// Results of applying it that it carries, such as the numbers of nodes, are
// included.
func AppendCommand(b []byte, c Command) []byte {
	n := NumberOf(c)
	if n == 0 {
		panic(fmt.Sprintf("state: %T has no number in the log", c))
	}
	p, ok := c.(packed)
	if !ok {
		return codec.AppendCommand(b, uint64(n), codec.Marshal(c))
	}
	w := packers.Get().(*codec.Writer)
	p.pack(w)
	b = codec.AppendCommand(b, uint64(n), w.Buf())
	if cap(w.Buf()) <= codec.MaxEntry {
		w.Reset()
		packers.Put(w)
	}
	return b
}

// packers hold memory for the fields of one command.
var packers = sync.Pool{New: func() any { return new(codec.Writer) }}

// DecodeEntry returns the commands of a log entry. Invalid bytes are an error,
// never a panic; so is a command or log version of a newer server.
func DecodeEntry(b []byte) (out []Command, err error) {
	err = codec.DecodeEntry(b, func(number uint64, fields []byte) error {
		c, err := decodeCommand(number, fields)
		out = append(out, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// decodeCommand returns the command with a number from its encoded fields. It
// fails for numbers that this build does not know and for fields that are cut
// short or too long.
func decodeCommand(number uint64, fields []byte) (Command, error) {
	if number >= uint64(len(kinds)) || kinds[number].make == nil {
		return nil, berth.Errorf(berth.Unavailable, "log entry: unknown command %d, written by a newer build", number)
	}
	c := kinds[number].make()
	// Frequent commands have a form of their own, the others are msgpack.
	p, ok := c.(packed)
	if !ok {
		if err := codec.Unmarshal(fields, c); err != nil {
			return nil, fmt.Errorf("log entry: %w", err)
		}
		return c, nil
	}
	r := codec.NewReader(fields)
	p.unpack(r)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("log entry: %T: %w", c, err)
	}
	return c, nil
}

// CommandName is the name of a command's kind, such as "RegisterJob".
func CommandName(c Command) string { return reflect.TypeOf(c).Elem().Name() }
