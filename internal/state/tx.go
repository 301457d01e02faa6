package state

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"berth/internal/fit"
	"berth/internal/quota"
)

// A Tx applies commands one after another to its own state, which starts as a
// snapshot. It belongs to one goroutine.
type Tx struct {
	*Snapshot // with the changes so far

	base    *Snapshot
	edit    uint64     // owns the blocks made since the last snapshot was taken
	fit     fit.Writer // of the usage of nodes; as old as edit
	changes []Change
	applied []Command                             // to apply again if a later one panics
	allow   func(c Command, logVersion int) error // if not nil, asked before the first command of a log version

	needs int // the highest log version that an applied command needs

	// Of the current command:

	counting    map[uint32]*Summary     // by the job's slot: the summaries that it changes
	quotaCounts map[uint32]*quota.Usage // by the quota's slot: the usages that it changes
	ids         *rand.ChaCha8           // the source of the IDs that it creates
	by          Number
}

// edits numbers edits across all stores of the process.
var edits atomic.Uint64

// ErrLogVersion is in every error that refuses a command because a server of
// the cluster does not know its log version. Try again after that server was
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

// newID returns the next ID that the current command creates. IDs follow from
// the command's seed and index alone, so every server creates the same ones and
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

// ByLeader is embedded in commands that a leader service decides on. Stamped
// with a term, the command is refused once another term began, no matter who
// proposes it.
type ByLeader struct{ Term uint64 }

// Stamp sets the term in which the command was decided on.
func (b *ByLeader) Stamp(term uint64) { b.Term = term }

// term implements termed.
func (b *ByLeader) term() uint64 { return b.Term }

// termed is a command that counts only in the term it was decided in; 0 stands
// for any term.
type termed interface{ term() uint64 }

// A Command is one change of the state, as the log carries it. Apply depends
// only on the command and the transaction, not on a clock or on chance. It
// checks everything before it writes; an error, which has a kind, refuses the
// command and leaves the state as it was.
type Command interface {
	Apply(tx *Tx) error
}
