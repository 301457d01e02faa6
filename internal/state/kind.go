package state

import (
	"fmt"
	"reflect"

	"berth"
	"berth/internal/state/codec"
)

// kind is what there is to know of a kind of command, beside what it does.
type kind struct {
	make func() Command
	// since is the log version that its number came with. A command that says
	// more than that has a method needs.
	since int
	// feature says in an operator's words what it is, if it can need a log version
	// beyond 1. DeleteJob says it itself.
	feature string
	cause   string // why it changed a resource, as events tell it
	counted bool   // its refusals are counted: nobody waits for it, so it came too late
}

const streamJobs = "jobs of type " + berth.TypeStream

// kinds are all there are, by number, and numbers the other way round. They are
// filled in by commands.go: the table names every command, and commands stand
// on what is here.
var (
	kinds   []kind
	numbers = map[reflect.Type]Number{}
)

// NumberOf returns the number of a command's kind; 0 is a kind that no log
// carries.
func NumberOf(c Command) Number { return numbers[reflect.TypeOf(c)] }

// Cause says why commands of the kind change resources, "" if they do not.
func (n Number) Cause() string { return kinds[n].cause }

// Counted reports whether refusals of the kind are counted.
func (n Number) Counted() bool { return kinds[n].counted }

// needer is a command that can say what the log version of its number has not.
type needer interface{ needs() int }

// Needs returns the log version that a server must know to read a command as it
// is meant.
func Needs(c Command) int { return needs(c, NumberOf(c)) }

func needs(c Command, n Number) int {
	if x, ok := c.(needer); ok {
		return x.needs()
	}
	if n == 0 { // no log carries it
		return 1
	}
	return kinds[n].since
}

// featured is a command that has more than one feature.
type featured interface{ feature() string }

// Feature says in an operator's words what a command is that log version 1 does
// not have.
func Feature(c Command) string {
	if x, ok := c.(featured); ok {
		return x.feature()
	}
	return kinds[NumberOf(c)].feature
}

// packed is a command that writes its own fields.
type packed interface {
	Command
	pack(w *codec.Writer)
	unpack(r *codec.Reader)
}

// AppendCommand appends an applied command as entries hold it. What a command
// learned when it was applied, such as the numbers of nodes, is part of it.
func AppendCommand(b []byte, c Command) []byte {
	n := NumberOf(c)
	if n == 0 {
		panic(fmt.Sprintf("state: %T has no number in the log", c))
	}
	p, ok := c.(packed)
	if !ok {
		return codec.AppendCommand(b, uint64(n), codec.Marshal(c))
	}
	var w codec.Writer
	p.pack(&w)
	return codec.AppendCommand(b, uint64(n), w.Buf())
}

// DecodeEntry returns the commands of a log entry. Bytes that no server wrote
// are an error, never a panic; so is a command or version of a newer server.
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

func decodeCommand(number uint64, fields []byte) (Command, error) {
	if number >= uint64(len(kinds)) || kinds[number].make == nil {
		return nil, berth.Errorf(berth.Unavailable, "log entry: unknown command %d, written by a newer build", number)
	}
	c := kinds[number].make()
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
