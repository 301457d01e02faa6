package state

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"berth/internal/fit"
)

// A Tx applies commands one after another to a state of its own, which starts
// as a snapshot. It belongs to one goroutine.
type Tx struct {
	*Snapshot // as changed so far

	base    *Snapshot
	edit    uint64     // owns the blocks made since the last snapshot was taken
	fit     fit.Writer // of the usage of nodes; as old as edit
	changes []Change
	applied []Command                             // to do again if one of their successors panics
	allow   func(c Command, logVersion int) error // asked before the first command of a log version, if it is not nil

	needs int // the greatest log version of a command that was applied

	// Of the command in hand:

	counting map[uint32]*Summary // by the job's slot: summaries it changes
	ids      *rand.ChaCha8       // where the IDs it gives come from
	by       Number
}

// edits numbers edits over all stores of the process.
var edits atomic.Uint64

// ErrLogVersion is in every error that refuses a command because a server of the
// cluster does not know its log version. It can be asked for again when that is
// upgraded.
var ErrLogVersion = errors.New("not every server knows it")

// Begin starts a transaction on a snapshot.
func Begin(base *Snapshot) *Tx {
	own := *base
	return &Tx{Snapshot: &own, base: base, edit: edits.Add(1)}
}

// Seal returns the state as changed so far. The transaction may go on.
func (tx *Tx) Seal() *Snapshot {
	s := *tx.Snapshot
	tx.edit, tx.fit = edits.Add(1), fit.Writer{}
	return &s
}

// newID gives the next of the IDs that the command in hand makes. They follow
// from the command's seed and index alone, so every server gives the same and
// the log need not carry them.
func (tx *Tx) newID(seed [16]byte) (id [16]byte) {
	if tx.ids == nil {
		var s [32]byte
		copy(s[:16], seed[:])
		binary.BigEndian.PutUint64(s[16:], tx.Index)
		tx.ids = rand.NewChaCha8(s)
	}
	tx.ids.Read(id[:])
	return id
}

// ByLeader marks a command that a leader service decided on. Stamped with a
// term, it is refused once another term began, whoever proposes it.
type ByLeader struct{ Term uint64 }

// Stamp sets the term in which the command was decided on.
func (b *ByLeader) Stamp(term uint64) { b.Term = term }

func (b *ByLeader) term() uint64 { return b.Term }

type termed interface{ term() uint64 }

// A Command is one change to the state, as the log carries it. Apply depends
// on nothing but the command and the transaction: no clock, no chance. It
// checks everything before it writes; an error, which has a kind, refuses the
// command and leaves the state as it was.
type Command interface {
	Apply(tx *Tx) error
}
