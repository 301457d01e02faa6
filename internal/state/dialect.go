package state

import (
	"errors"

	"berth"
)

// A dialect of the log is what there is to say in it: the numbers of commands,
// and the fields of each. Every dialect has all of the one before it. While
// servers are upgraded one after another they are of several builds, and what
// one of them does not know, or reads without a field that the others see,
// would part its state from theirs. So each says which dialect it knows, and
// the leader's log takes nothing beyond what all of them do.
//
// What the log holds already was known to all once, and a server that does not
// know it refuses to start: so this is asked for the first command of a
// dialect, and not again.

// Dialect is the dialect of the log that this build knows. A new number of a
// command, or a new field of one or of a row, needs the next; the test of
// dialects fails until it is there.
const Dialect = 2

// lastNumbers are the last numbers of commands that each dialect has.
var lastNumbers = [Dialect + 1]Number{1: 43, 2: 56}

// savedSince are the versions of saved snapshots that hold a state which needs
// a dialect. The oldest that does is written, so that a server that knows no
// more can read it.
var savedSince = [Dialect + 1]int{1: servicesSince, 2: streamsSince}

// ErrDialect is in every error that refuses a command because a server of the
// cluster does not know it. It can be asked for again when that is upgraded.
var ErrDialect = errors.New("not every server knows it")

// needer is a command that can say what its number's dialect has not.
type needer interface{ needs() int }

// Needs returns the dialect that a server must know to read a command as it is
// meant.
func Needs(c Command) int { return needs(c, NumberOf(c)) }

func needs(c Command, n Number) int {
	if x, ok := c.(needer); ok {
		return x.needs()
	}
	return dialectOf(n)
}

func dialectOf(n Number) int {
	for d := 1; d < Dialect; d++ {
		if n <= lastNumbers[d] {
			return d
		}
	}
	return Dialect
}

// dialectOfSaved returns the dialect that a saved snapshot of a version may need.
func dialectOfSaved(version int) int {
	for d := Dialect; d > 1; d-- {
		if version >= savedSince[d] {
			return d
		}
	}
	return 1
}

// Feature says in an operator's words what a command is of that dialect 1 does
// not have.
func Feature(c Command) string {
	switch c := c.(type) {
	case *DeleteJob:
		return "deletion of jobs with propagation " + string(c.Policy)
	case *FinalizeDeletions:
		return "deletion of jobs with propagation foreground"
	case *CreateEvals:
		return "evaluations for what a job left that is gone"
	case *BeginTerm:
		return "the ID of a cluster"
	}
	return "jobs of type " + berth.TypeStream
}

func (c *BeginTerm) needs() int {
	if !c.Cluster.IsZero() {
		return 2
	}
	return 1
}

func (c *CreateEvals) needs() int {
	for i := range c.Evals {
		if c.Evals[i].Left {
			return 2
		}
	}
	return 1
}

func (c *RegisterJob) needs() int {
	if c.Job != nil && c.Job.Type == berth.TypeStream {
		return 2
	}
	return 1
}

// allowed refuses a command that needs more than the log holds, if who
// proposes it says so.
func (tx *Tx) allowed(c Command, dialect int) error {
	if dialect <= tx.Dialect || tx.allow == nil {
		return nil
	}
	return tx.allow(c, dialect)
}

// BeginAllowed starts a transaction that asks allow before it applies a command
// of a dialect beyond that of all before it. An error refuses the command.
func BeginAllowed(base *Snapshot, allow func(c Command, dialect int) error) *Tx {
	tx := Begin(base)
	tx.allow = allow
	return tx
}
