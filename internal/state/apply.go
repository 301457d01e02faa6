package state

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"berth"
	"berth/internal/state/codec"
)

// BeginAllowed starts a transaction that calls allow before it applies a
// command with a higher log version than any command before it. An error from
// allow refuses the command.
func BeginAllowed(base *Snapshot, allow func(c Command, logVersion int) error) *Tx {
	tx := Begin(base)
	tx.allow = allow
	return tx
}

// Apply applies one command. The result's index is the command's own if it was
// applied. A command that panics breaks Apply's contract; it is refused like
// any other, on all servers alike, and leaves no trace.
func (tx *Tx) Apply(c Command) Result {
	err := tx.try(c)
	if err != nil {
		return Result{tx.Index, err}
	}
	tx.applied = append(tx.applied, c)
	return Result{tx.Index, nil}
}

// try applies one command. A panic becomes an error, and the commands before it
// are applied again on the base: a half-applied command leaves nothing.
func (tx *Tx) try(c Command) (err error) {
	if t, ok := c.(termed); ok && t.term() != 0 && t.term() < tx.Term {
		return berth.Refusef(berth.CodeStaleEpoch, "the command is of term %d, the state of term %d", t.term(), tx.Term)
	}
	defer func() {
		if r := recover(); r != nil {
			err = berth.Errorf(berth.Unavailable, "%T panicked: %v", c, r)
			tx.rewind(tx.applied)
		}
	}()
	return tx.step(c)
}

// step gives a command the next index and applies it.
func (tx *Tx) step(c Command) error {
	tx.Index++
	tx.ids, tx.by = nil, NumberOf(c)
	clear(tx.quotaCounts) // a refused command may have read some
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

// allowed refuses a command that needs a higher log version than the log has so
// far, if the allow function says so.
func (tx *Tx) allowed(c Command, logVersion int) error {
	if logVersion <= tx.LogVersion || tx.allow == nil {
		return nil
	}
	return tx.allow(c, logVersion)
}

// storeCounts stores the counts that a command changed.
func (tx *Tx) storeCounts() {
	for _, slot := range slices.Sorted(maps.Keys(tx.counting)) {
		tx.countChild(slot) // may add the counts of its parent
	}
	for _, slot := range slices.Sorted(maps.Keys(tx.counting)) {
		s := tx.counting[slot]
		s.Changed = tx.Index
		tx.note(Summaries, tx.jobs.summaries.Get(slot), s)
		freeze(s)
		tx.jobs.summaries.Set(tx.edit, slot, s)
		tx.jobs.summaryChanged = tx.Index
		tx.touchStream(s.UID)
	}
	clear(tx.counting)
	tx.storeQuotaCounts()
}

// Undo takes back the last applied command. It costs as much as applying all
// those before it.
func (tx *Tx) Undo() { tx.rewind(tx.applied[:len(tx.applied)-1]) }

// rewind drops what a command did or left half done: it starts over and applies
// the earlier commands again. Apply is deterministic, so they succeed.
func (tx *Tx) rewind(again []Command) {
	own, allow := *tx.base, tx.allow
	*tx = Tx{Snapshot: &own, base: tx.base, edit: edits.Add(1)} // what was allowed once stays allowed
	defer func() { tx.allow = allow }()
	for _, c := range again {
		if err := tx.step(copyOf(c)); err != nil {
			panic(fmt.Sprintf("state: %T was applied once and refused the second time: %v", c, err))
		}
	}
	tx.applied = again
}

// copyOf returns a copy of a command for Apply to write to: the proposer may
// read the results in its own command at any time.
func copyOf(c Command) Command {
	v := reflect.ValueOf(c)
	if v.Kind() != reflect.Pointer {
		return c
	}
	own := reflect.New(v.Type().Elem())
	own.Elem().Set(v.Elem())
	return own.Interface().(Command)
}

// Batch is the outcome of a transaction: the state it began with, the state it
// leads to, and the changes between them.
type Batch struct {
	Base    *Snapshot
	Changes []Change
	Needs   int // the log version that a server must know to read its commands
	*Snapshot
}

// End returns the outcome of the transaction, which is then over.
func (tx *Tx) End() *Batch {
	return &Batch{Base: tx.base, Changes: tx.changes, Needs: max(tx.needs, 1), Snapshot: tx.Seal()}
}

// BeginTerm is the first command of a term.
type BeginTerm struct {
	Term    uint64
	Cluster ClusterID // chosen by the proposer if the state has none; the first one stays
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

// RaiseLogVersion records that every server knows a log version. From then on
// rows may hold what came with it.
type RaiseLogVersion struct {
	ByLeader
	To int // at most the log version of the proposer
}

// raisedSince is the log version that brought the command.
const raisedSince = 3

// Apply implements Command. The state takes the log version from what the
// command needs.
func (c *RaiseLogVersion) Apply(tx *Tx) error {
	if c.To < 1 || c.To > codec.LogVersion {
		return berth.Errorf(berth.Invalid, "log version %d: this build knows 1 to %d", c.To, codec.LogVersion)
	}
	return nil
}

// needs implements needer.
func (c *RaiseLogVersion) needs() int { return max(c.To, raisedSince) }

// needs implements needer: naming the cluster came with log version 2.
func (c *BeginTerm) needs() int {
	if !c.Cluster.IsZero() {
		return 2
	}
	return 1
}
