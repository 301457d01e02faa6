package state

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"berth"
)

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
		return berth.Refusef(berth.CodeStaleEpoch, "the command is of term %d, the state of term %d", t.term(), tx.Term)
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

// storeCounts ends the counting of a command.
func (tx *Tx) storeCounts() {
	for _, slot := range slices.Sorted(maps.Keys(tx.counting)) {
		tx.countChild(slot) // which may add the counts of its parent
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

// Batch is what a transaction came to: the state it began at, the state it
// leads to, and the changes between.
type Batch struct {
	Base    *Snapshot
	Changes []Change
	Needs   int // the log version that a server must know to read its commands
	*Snapshot
}

// End returns what the transaction came to. The transaction is over.
func (tx *Tx) End() *Batch {
	return &Batch{Base: tx.base, Changes: tx.changes, Needs: max(tx.needs, 1), Snapshot: tx.Seal()}
}

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
