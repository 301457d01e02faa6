//go:build race

package state

import (
	"fmt"
	"hash/fnv"
	"runtime"
	"sync"
	"weak"

	"berth/internal/state/codec"
)

// Stored values never change. Under the race detector each is remembered with a
// hash as long as it lives, and CheckFrozen compares.

// frozenValue is a row as it was stored, by its hash. It does not keep the row
// alive.
type frozenValue struct {
	value func() any // nil once collected
	hash  uint64
}

var frozen struct {
	sync.Mutex
	values map[uint64]frozenValue
	next   uint64
}

// mostFrozen bounds how many values are remembered, so that large tests stay
// fast. Later ones are not checked.
const mostFrozen = 20_000

// freeze remembers the content of a row that is now shared with snapshots. A
// later change of it is found by comparing hashes. Beyond mostFrozen rows it
// remembers no more.
func freeze[T any](v *T) {
	if v == nil {
		return
	}
	frozen.Lock()
	defer frozen.Unlock()
	if frozen.values == nil {
		frozen.values = map[uint64]frozenValue{}
	}
	if len(frozen.values) >= mostFrozen {
		return
	}
	w := weak.Make(v)
	id := frozen.next
	frozen.next++
	frozen.values[id] = frozenValue{
		value: func() any {
			if p := w.Value(); p != nil {
				return p
			}
			return nil
		},
		hash: hashValue(v),
	}
	// A collected row cannot be changed any more: make room for others.
	runtime.AddCleanup(v, func(id uint64) {
		frozen.Lock()
		delete(frozen.values, id)
		frozen.Unlock()
	}, id)
}

// CheckFrozen returns an error if a stored value was changed in place.
func CheckFrozen() error {
	frozen.Lock()
	defer frozen.Unlock()
	for _, f := range frozen.values {
		if v := f.value(); v != nil && hashValue(v) != f.hash {
			return fmt.Errorf("a stored %T was changed in place: %+v", v, v)
		}
	}
	return nil
}

// hashValue returns a hash of everything that v contains.
func hashValue(v any) uint64 {
	f := fnv.New64a()
	f.Write(codec.Canonical(v))
	return f.Sum64()
}
