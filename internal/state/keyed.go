package state

import (
	"iter"

	"berth/internal/cow"
)

// keyed is a table with one index: rows by a key of text.
type keyed[T any] struct {
	rows[T]
	by cow.Tree[string]
}

// get returns the row of a key, or nil.
func (k *keyed[T]) get(key string) *T { return get(&k.rows, &k.by, key) }

// all returns the rows in order of key.
func (k *keyed[T]) all() iter.Seq[*T] { return rowsOf(&k.rows, k.by.All()) }

// of returns the rows whose keys begin with a text, in order of key.
func (k *keyed[T]) of(prefix string) iter.Seq[*T] { return startingWith(&k.rows, &k.by, prefix) }

// put stores a row in place of the one with its key, if there is one.
func (k *keyed[T]) put(tx *Tx, table Table, key string, v *T) {
	old := k.get(key)
	if slot, ok := k.by.First(key); ok {
		k.set(tx, slot, v)
	} else {
		k.by.Add(tx.edit, key, k.insert(tx, v))
	}
	tx.note(table, anyOrNil(old), v)
}

// drop deletes the row of a key; one that is gone is skipped.
func (k *keyed[T]) drop(tx *Tx, table Table, key string) {
	slot, ok := k.by.First(key)
	if !ok {
		return
	}
	old := k.vec.Get(slot)
	k.by.Remove(tx.edit, key, slot)
	k.remove(tx, slot)
	tx.note(table, old, nil)
}

// load adds a row of a saved snapshot. It returns an error for a key that there
// is already.
func (k *keyed[T]) load(l *loader, what, key string, v *T) error {
	if _, twice := k.by.First(key); twice || key == "" {
		return duplicate(what, key)
	}
	k.by.Add(l.tx.edit, key, k.insert(l.tx, v))
	return nil
}
