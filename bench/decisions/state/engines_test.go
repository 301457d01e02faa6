// Package state_test compares engines for the allocation table: the real row,
// with its real indexes, in batches as commits come. The page
// docs/decisions/0001-state-engine.md holds what it printed.
package state_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"berth"
	"berth/internal/cow"

	"github.com/google/btree"
	"github.com/hashicorp/go-memdb"
	tidwall "github.com/tidwall/btree"
)

// engine is a table of allocations by ID, creation, node, job and evaluation.
type engine interface {
	insert(a *berth.Alloc)
	update(old, a *berth.Alloc)
	get(id berth.AllocID) *berth.Alloc
	onNode(id berth.NodeID, f func(*berth.Alloc))
	commit() // what was written is visible from here on, and a snapshot is kept of it
}

var engines = []struct {
	name string
	make func() engine
}{
	{"cow", func() engine { return &cowEngine{edit: 1} }},
	{"tidwall", newTidwall},
	{"google", newGoogle},
	{"memdb", newMemdb},
}

const (
	nodes    = 5000
	perJob   = 1000
	perBatch = 1000
)

func rows(n int) []*berth.Alloc {
	r := rand.New(rand.NewPCG(1, 2))
	id := func(b []byte) {
		binary.BigEndian.PutUint64(b, r.Uint64())
		binary.BigEndian.PutUint64(b[8:], r.Uint64())
	}
	ids := make([]berth.NodeID, nodes)
	for i := range ids {
		id(ids[i][:])
	}
	out := make([]*berth.Alloc, n)
	var job *berth.Job
	var eval berth.EvalID
	for i := range out {
		if i%perJob == 0 {
			job = &berth.Job{Namespace: "default", ID: berth.JobID("job-" + strconv.Itoa(i/perJob)), TaskGroups: []*berth.TaskGroup{{Name: "g"}}}
			id(eval[:])
		}
		a := &berth.Alloc{Job: job, Group: job.TaskGroups[0], EvalID: eval, NodeID: ids[r.IntN(nodes)], Index: uint32(i % perJob)}
		id(a.ID[:])
		a.CreateIndex, a.Ordinal = uint64(10+i/perJob), uint32(i%perJob)
		out[i] = a
	}
	return out
}

func size() int {
	if n, _ := strconv.Atoi(os.Getenv("ROWS")); n > 0 {
		return n
	}
	return 1_000_000
}

// TestEngines prints one line an engine: ns and bytes a row.
func TestEngines(t *testing.T) {
	n := size()
	all := rows(n)
	fmt.Printf("%-8s %9s %9s %9s %9s %9s %9s %9s %9s\n", "engine", "insert", "update", "lookup", "node scan", "snapshot", "heap", "garbage", "gc")
	fmt.Printf("%-8s %9s %9s %9s %9s %9s %9s %9s %9s\n", "", "ns", "ns", "ns", "ns/row", "ns", "B/row", "B/update", "ms")
	for _, e := range engines {
		measure(e.name, e.make(), all)
	}
}

func measure(name string, e engine, all []*berth.Alloc) {
	n := len(all)
	base := heap()
	start := time.Now()
	for i, a := range all {
		e.insert(a)
		if i%perBatch == perBatch-1 {
			e.commit()
		}
	}
	e.commit()
	insert := time.Since(start)
	indexes := heap() - base

	r := rand.New(rand.NewPCG(3, 4))
	order := r.Perm(n)[:n/2]
	now := make([]*berth.Alloc, len(order))
	for k, i := range order {
		b := *all[i]
		b.Client = berth.ClientRunning
		now[k] = &b
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start = time.Now()
	for k, i := range order {
		e.update(all[i], now[k])
		if k%perBatch == perBatch-1 {
			e.commit()
		}
	}
	e.commit()
	update := time.Since(start)
	runtime.ReadMemStats(&after)

	start = time.Now()
	for _, i := range order {
		if e.get(all[i].ID) == nil {
			panic("lost")
		}
	}
	lookup := time.Since(start)

	start = time.Now()
	scanned := 0
	for i := range 2000 {
		e.onNode(all[i].NodeID, func(*berth.Alloc) { scanned++ })
	}
	scan := time.Since(start)

	start = time.Now()
	for range 1000 {
		e.commit()
	}
	snapshot := time.Since(start) / 1000

	start = time.Now()
	for range 3 {
		runtime.GC()
	}
	gc := time.Since(start) / 3
	per := func(d time.Duration, n int) int64 { return d.Nanoseconds() / int64(n) }
	fmt.Printf("%-8s %9d %9d %9d %9d %9d %9d %9d %9.1f\n", name, per(insert, n), per(update, len(order)), per(lookup, len(order)),
		per(scan, scanned), snapshot.Nanoseconds(), indexes/int64(n), int64(after.TotalAlloc-before.TotalAlloc)/int64(len(order)), gc.Seconds()*1000)
	runtime.KeepAlive(e)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func fnv(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * 1099511628211
		}
	}
	return h
}

// cowEngine is what package state does: rows in slots, indexes of words.
type cowEngine struct {
	tree struct {
		rows                                cow.Vec[*berth.Alloc]
		byID, byTime, byNode, byJob, byEval cow.Tree[uint64]
	}
	next uint32
	edit uint64
	kept any
}

func (e *cowEngine) insert(a *berth.Alloc) {
	s := e.next
	e.next++
	t := &e.tree
	t.rows.Set(e.edit, s, a)
	id, _ := a.ID.Words()
	node, _ := a.NodeID.Words()
	eval, _ := a.EvalID.Words()
	t.byID.Add(e.edit, id, s)
	t.byTime.Add(e.edit, a.CreateIndex, s)
	t.byNode.Add(e.edit, node, s)
	t.byJob.Add(e.edit, fnv(a.Job.Namespace, string(a.Job.ID)), s)
	t.byEval.Add(e.edit, eval, s)
}

func (e *cowEngine) find(id berth.AllocID) (uint32, *berth.Alloc) {
	hi, _ := id.Words()
	for s := range e.tree.byID.Of(hi) {
		if a := e.tree.rows.Get(s); a.ID == id {
			return s, a
		}
	}
	return 0, nil
}

func (e *cowEngine) update(_, a *berth.Alloc) {
	s, _ := e.find(a.ID)
	e.tree.rows.Set(e.edit, s, a)
}

func (e *cowEngine) get(id berth.AllocID) *berth.Alloc { _, a := e.find(id); return a }

func (e *cowEngine) onNode(id berth.NodeID, f func(*berth.Alloc)) {
	hi, _ := id.Words()
	for s := range e.tree.byNode.Of(hi) {
		f(e.tree.rows.Get(s))
	}
}

func (e *cowEngine) commit() {
	kept := e.tree
	e.kept = &kept
	e.edit++
}

// The orders of the five indexes, for engines that hold pointers to rows.

func cmpID(a, b *berth.Alloc) int { return cmpBytes(a.ID[:], b.ID[:]) }

func cmpBytes(a, b []byte) int {
	x, y := binary.BigEndian.Uint64(a), binary.BigEndian.Uint64(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	x, y = binary.BigEndian.Uint64(a[8:]), binary.BigEndian.Uint64(b[8:])
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func or(c int, f func() int) int {
	if c != 0 {
		return c
	}
	return f()
}

var orders = []func(a, b *berth.Alloc) bool{
	func(a, b *berth.Alloc) bool { return cmpID(a, b) < 0 },
	func(a, b *berth.Alloc) bool {
		return a.CreateIndex < b.CreateIndex || a.CreateIndex == b.CreateIndex && a.Ordinal < b.Ordinal
	},
	func(a, b *berth.Alloc) bool {
		return or(cmpBytes(a.NodeID[:], b.NodeID[:]), func() int { return cmpID(a, b) }) < 0
	},
	func(a, b *berth.Alloc) bool {
		if a.Job != b.Job && a.Job.ID != b.Job.ID {
			return a.Job.ID < b.Job.ID
		}
		return cmpID(a, b) < 0
	},
	func(a, b *berth.Alloc) bool {
		return or(cmpBytes(a.EvalID[:], b.EvalID[:]), func() int { return cmpID(a, b) }) < 0
	},
}

type tidwallEngine struct {
	trees [5]*tidwall.BTreeG[*berth.Alloc]
	kept  [5]*tidwall.BTreeG[*berth.Alloc]
}

func newTidwall() engine {
	e := &tidwallEngine{}
	for i := range e.trees {
		e.trees[i] = tidwall.NewBTreeGOptions(orders[i], tidwall.Options{NoLocks: true})
	}
	return e
}

func (e *tidwallEngine) insert(a *berth.Alloc) {
	for _, t := range e.trees {
		t.Set(a)
	}
}
func (e *tidwallEngine) update(_, a *berth.Alloc) { e.insert(a) }
func (e *tidwallEngine) get(id berth.AllocID) *berth.Alloc {
	a, _ := e.trees[0].Get(&berth.Alloc{ID: id})
	return a
}
func (e *tidwallEngine) onNode(id berth.NodeID, f func(*berth.Alloc)) {
	e.trees[2].Ascend(&berth.Alloc{NodeID: id}, func(a *berth.Alloc) bool {
		if a.NodeID != id {
			return false
		}
		f(a)
		return true
	})
}
func (e *tidwallEngine) commit() {
	for i := range e.trees {
		e.kept[i] = e.trees[i].Copy()
	}
}

type googleEngine struct {
	trees [5]*btree.BTreeG[*berth.Alloc]
	kept  [5]*btree.BTreeG[*berth.Alloc]
}

func newGoogle() engine {
	e := &googleEngine{}
	for i := range e.trees {
		e.trees[i] = btree.NewG(32, btree.LessFunc[*berth.Alloc](orders[i]))
	}
	return e
}

func (e *googleEngine) insert(a *berth.Alloc) {
	for _, t := range e.trees {
		t.ReplaceOrInsert(a)
	}
}
func (e *googleEngine) update(_, a *berth.Alloc) { e.insert(a) }
func (e *googleEngine) get(id berth.AllocID) *berth.Alloc {
	a, _ := e.trees[0].Get(&berth.Alloc{ID: id})
	return a
}
func (e *googleEngine) onNode(id berth.NodeID, f func(*berth.Alloc)) {
	e.trees[2].AscendGreaterOrEqual(&berth.Alloc{NodeID: id}, func(a *berth.Alloc) bool {
		if a.NodeID != id {
			return false
		}
		f(a)
		return true
	})
}
func (e *googleEngine) commit() {
	for i := range e.trees {
		e.kept[i] = e.trees[i].Clone()
	}
}

type memdbEngine struct {
	db   *memdb.MemDB
	txn  *memdb.Txn
	kept *memdb.Txn
}

// memdbKey indexes by bytes that it makes of a row, so that no reflection is
// in the measurement.
type memdbKey func(*berth.Alloc) []byte

func (k memdbKey) FromObject(v any) (bool, []byte, error) { return true, k(v.(*berth.Alloc)), nil }
func (k memdbKey) FromArgs(args ...any) ([]byte, error)   { return args[0].([]byte), nil }

func newMemdb() engine {
	index := func(name string, unique bool, k memdbKey) *memdb.IndexSchema {
		return &memdb.IndexSchema{Name: name, Unique: unique, Indexer: k}
	}
	schema := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{"alloc": {Name: "alloc", Indexes: map[string]*memdb.IndexSchema{
		"id":   index("id", true, func(a *berth.Alloc) []byte { return a.ID[:] }),
		"time": index("time", false, func(a *berth.Alloc) []byte { return binary.BigEndian.AppendUint64(nil, a.CreateIndex) }),
		"node": index("node", false, func(a *berth.Alloc) []byte { return a.NodeID[:] }),
		"job":  index("job", false, func(a *berth.Alloc) []byte { return append([]byte(a.Job.ID), 0) }),
		"eval": index("eval", false, func(a *berth.Alloc) []byte { return a.EvalID[:] }),
	}}}}
	db, err := memdb.NewMemDB(schema)
	if err != nil {
		panic(err)
	}
	return &memdbEngine{db: db, txn: db.Txn(true)}
}

func (e *memdbEngine) insert(a *berth.Alloc) {
	if err := e.txn.Insert("alloc", a); err != nil {
		panic(err)
	}
}
func (e *memdbEngine) update(_, a *berth.Alloc) { e.insert(a) }
func (e *memdbEngine) get(id berth.AllocID) *berth.Alloc {
	v, _ := e.txn.First("alloc", "id", id[:])
	a, _ := v.(*berth.Alloc)
	return a
}
func (e *memdbEngine) onNode(id berth.NodeID, f func(*berth.Alloc)) {
	it, err := e.txn.Get("alloc", "node", id[:])
	if err != nil {
		panic(err)
	}
	for v := it.Next(); v != nil; v = it.Next() {
		f(v.(*berth.Alloc))
	}
}
func (e *memdbEngine) commit() {
	e.txn.Commit()
	e.kept = e.db.Txn(false)
	e.txn = e.db.Txn(true)
}
