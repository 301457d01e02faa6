package msgpack

import (
	"reflect"
	"runtime"
	"slices"
	"sync"
	"weak"
)

// Memo names a type whose values are encoded once. See [Once].
type Memo struct {
	of   reflect.Type
	make func() *memo
}

// Once returns the Memo of *T: a codec with it encodes each *T once and keeps
// the bytes as long as the value lives. It is for values that are encoded often
// and never change, such as job versions; changes of a *T would be missed.
func Once[T any]() Memo {
	return Memo{reflect.TypeFor[*T](), func() *memo {
		m := &memo{bytes: map[any][]byte{}}
		m.key = func(p any) any { return weak.Make(p.(*T)) }
		m.forget = func(p, key any) { runtime.AddCleanup(p.(*T), m.drop, key) }
		return m
	}}
}

// memoLimit is how many bytes a memo keeps. Beyond it, it starts over.
const memoLimit = 64 << 20

// memo is the store behind a Memo, shared by all callers of a codec.
type memo struct {
	// key returns a weak pointer to p; forget drops it when p is collected.
	key    func(p any) any
	forget func(p, key any)

	// mu guards the fields below. size is the total of bytes, in bytes.
	mu    sync.RWMutex
	bytes map[any][]byte
	size  int
}

// append appends the encoding of p, from the memo if it is there, else from
// encode, and keeps it. Several callers may encode the same p at once; the
// first result is kept.
func (m *memo) append(b []byte, p any, encode func([]byte) ([]byte, error)) ([]byte, error) {
	key := m.key(p)
	m.mu.RLock()
	known := m.bytes[key]
	m.mu.RUnlock()
	if known != nil {
		return append(b, known...), nil
	}
	at := len(b)
	b, err := encode(b)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes[key] == nil {
		// Over the limit everything goes: simpler than ages, and rare.
		if m.size > memoLimit {
			clear(m.bytes)
			m.size = 0
		}
		known = slices.Clone(b[at:])
		m.bytes[key] = known
		m.size += len(known)
		m.forget(p, key)
	}
	return b, nil
}

// drop removes a key whose value nobody uses any more. Unknown keys are fine.
func (m *memo) drop(key any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size -= len(m.bytes[key])
	delete(m.bytes, key)
}
