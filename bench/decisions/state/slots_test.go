package state_test

import (
	"os"
	"slices"
	"strings"

	"berth"
	"berth/internal/cow"

	tidwall "github.com/tidwall/btree"
)

// The question behind the others: how much of the difference do the slots
// make, and how much the tree? So here are the slots over a library's tree.
func init() {
	engines = append(engines, struct {
		name string
		make func() engine
	}{"slots", newSlots})
	if only := os.Getenv("ENGINES"); only != "" { // "cow,slots": the others take long
		engines = slices.DeleteFunc(engines, func(e struct {
			name string
			make func() engine
		}) bool {
			return !slices.Contains(strings.Split(only, ","), e.name)
		})
	}
}

type pair struct {
	key  uint64
	slot uint32
}

type slotsEngine struct {
	rows  cow.Vec[*berth.Alloc]
	trees [5]*tidwall.BTreeG[pair] // by ID, time, node, job, evaluation
	next  uint32
	edit  uint64

	keptRows  cow.Vec[*berth.Alloc]
	keptTrees [5]*tidwall.BTreeG[pair]
}

func newSlots() engine {
	e := &slotsEngine{edit: 1}
	for i := range e.trees {
		e.trees[i] = tidwall.NewBTreeGOptions(func(a, b pair) bool {
			return a.key < b.key || a.key == b.key && a.slot < b.slot
		}, tidwall.Options{NoLocks: true})
	}
	return e
}

func (e *slotsEngine) insert(a *berth.Alloc) {
	s := e.next
	e.next++
	e.rows.Set(e.edit, s, a)
	id, _ := a.ID.Words()
	node, _ := a.NodeID.Words()
	eval, _ := a.EvalID.Words()
	for i, k := range [5]uint64{id, a.CreateIndex, node, fnv(a.Job.Namespace, string(a.Job.ID)), eval} {
		e.trees[i].Set(pair{k, s})
	}
}

func (e *slotsEngine) of(tree int, key uint64, f func(slot uint32, a *berth.Alloc) bool) {
	e.trees[tree].Ascend(pair{key: key}, func(p pair) bool {
		return p.key == key && f(p.slot, e.rows.Get(p.slot))
	})
}

func (e *slotsEngine) find(id berth.AllocID) (slot uint32, found *berth.Alloc) {
	hi, _ := id.Words()
	e.of(0, hi, func(s uint32, a *berth.Alloc) bool {
		if a.ID == id {
			slot, found = s, a
		}
		return found == nil
	})
	return slot, found
}

func (e *slotsEngine) update(_, a *berth.Alloc) {
	s, _ := e.find(a.ID)
	e.rows.Set(e.edit, s, a)
}

func (e *slotsEngine) get(id berth.AllocID) *berth.Alloc { _, a := e.find(id); return a }

func (e *slotsEngine) onNode(id berth.NodeID, f func(*berth.Alloc)) {
	hi, _ := id.Words()
	e.of(2, hi, func(_ uint32, a *berth.Alloc) bool { f(a); return true })
}

func (e *slotsEngine) commit() {
	for i := range e.trees {
		e.keptTrees[i] = e.trees[i].Copy()
	}
	e.keptRows = e.rows
	e.edit++
}
