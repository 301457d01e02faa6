package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"

	"berth"
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

// BeginAllowed starts a transaction that asks allow before it applies a command
// of a log version beyond that of all before it. An error refuses the command.
func BeginAllowed(base *Snapshot, allow func(c Command, logVersion int) error) *Tx {
	tx := Begin(base)
	tx.allow = allow
	return tx
}

// Apply applies one command. The result's index is the command's own if it was
// applied. A command that panics breaks the promise of Apply; it is refused
// like any other, on all servers alike, and leaves no trace.
func (tx *Tx) Apply(c Command) Result {
	err := tx.try(c)
	if err != nil {
		return Result{tx.Index, err}
	}
	tx.applied = append(tx.applied, c)
	return Result{tx.Index, nil}
}

func (tx *Tx) try(c Command) (err error) {
	if t, ok := c.(termed); ok && t.term() != 0 && t.term() < tx.Term {
		return berth.Errorf(berth.Conflict, "stale-epoch: the command is of term %d, the state of term %d", t.term(), tx.Term)
	}
	defer func() {
		if r := recover(); r != nil {
			err = berth.Errorf(berth.Unavailable, "%T broke its promise: %v", c, r)
			tx.rewind(tx.applied)
		}
	}()
	return tx.step(c)
}

// step gives a command the next index and applies it.
func (tx *Tx) step(c Command) error {
	tx.Index++
	tx.ids, tx.by = nil, NumberOf(c)
	logVersion := needs(c, tx.by)
	err := tx.allowed(c, logVersion)
	if err == nil {
		err = c.Apply(tx)
	}
	if err != nil {
		tx.Index--
		return err
	}
	tx.needs, tx.LogVersion = max(tx.needs, logVersion), max(tx.LogVersion, logVersion)
	tx.storeCounts()
	return nil
}

// allowed refuses a command that needs more than the log holds, if who
// proposes it says so.
func (tx *Tx) allowed(c Command, logVersion int) error {
	if logVersion <= tx.LogVersion || tx.allow == nil {
		return nil
	}
	return tx.allow(c, logVersion)
}

// Undo takes back the command that was applied last. It costs as much as to
// apply those before it.
func (tx *Tx) Undo() { tx.rewind(tx.applied[:len(tx.applied)-1]) }

// rewind drops what a command did, or left half done: it begins anew and
// applies again what had been applied before. That was deterministic, so it
// succeeds.
func (tx *Tx) rewind(again []Command) {
	own, allow := *tx.base, tx.allow
	*tx = Tx{Snapshot: &own, base: tx.base, edit: edits.Add(1)} // what was allowed once is
	defer func() { tx.allow = allow }()
	for _, c := range again {
		if err := tx.step(copyOf(c)); err != nil {
			panic(fmt.Sprintf("state: %T was applied and is refused when applied again: %v", c, err))
		}
	}
	tx.applied = again
}

// copyOf returns a command of its own to apply: whoever staged c reads in it,
// at any time, what became of it.
func copyOf(c Command) Command {
	v := reflect.ValueOf(c)
	if v.Kind() != reflect.Pointer {
		return c
	}
	own := reflect.New(v.Type().Elem())
	own.Elem().Set(v.Elem())
	return own.Interface().(Command)
}

// Seal returns the state as changed so far. The transaction may go on.
func (tx *Tx) Seal() *Snapshot {
	s := *tx.Snapshot
	tx.edit, tx.fit = edits.Add(1), fit.Writer{}
	return &s
}

// End returns what the transaction came to. The transaction is over.
func (tx *Tx) End() *Batch {
	return &Batch{Base: tx.base, Changes: tx.changes, Needs: max(tx.needs, 1), Snapshot: tx.Seal()}
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

// note records a change for those who follow commits.
func (tx *Tx) note(t Table, old, new any) {
	tx.changes = append(tx.changes, Change{t, tx.by, tx.Index, old, new})
	if t == Resources || t == Streams || t == Jobs {
		if space, may := tx.changes[len(tx.changes)-1].reroutes(); may {
			tx.traces.note(tx, routesHash(space))
		}
	}
}

// ByLeader marks a command that a leader service decided on. Stamped with a
// term, it is refused once another term began, whoever proposes it.
type ByLeader struct{ Term uint64 }

// Stamp sets the term in which the command was decided on.
func (b *ByLeader) Stamp(term uint64) { b.Term = term }

func (b *ByLeader) term() uint64 { return b.Term }

type termed interface{ term() uint64 }

// BeginTerm is the first command of a term.
type BeginTerm struct {
	Term    uint64
	Cluster ClusterID // drawn by the proposer if the state has none; the first one stands
}

// Apply implements Command.
func (c *BeginTerm) Apply(tx *Tx) error {
	if c.Term <= tx.Term {
		return berth.Errorf(berth.Conflict, "term %d does not follow term %d", c.Term, tx.Term)
	}
	tx.Term, tx.TermIndex = c.Term, tx.Index
	if tx.Cluster.IsZero() {
		tx.Cluster = c.Cluster
	}
	return nil
}

func (c *BeginTerm) needs() int {
	if !c.Cluster.IsZero() {
		return 2
	}
	return 1
}
