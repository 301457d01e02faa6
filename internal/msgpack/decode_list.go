package msgpack

import (
	"fmt"
	"reflect"
)

// readHead reads the head of a list, or of a map if isMap is 1.
func readHead(b []byte, isMap uint64, want string) (items int, rest []byte, err error) {
	if len(b) == 0 || !isContainer(b[0]) || mapBit(b[0]) != isMap {
		return 0, nil, mismatch(b, want)
	}
	head, _, n, err := token(b)
	if err != nil || head == 0 || n > uint64(len(b)) { // an item takes at least one byte
		return 0, nil, mismatch(nil, want)
	}
	return int(n >> isMap), b[head:], nil
}

// firstAlloc is how many bytes are allocated for a list before its first
// elements have been decoded.
const firstAlloc = 4 << 10

// One byte of input can be an empty string in memory. So a list of the protocol
// may have more than freeElements only if they take at least minElement bytes
// each.
const (
	freeElements = 16 << 10
	minElement   = 4
)

// tooDense returns an error if n elements in size bytes are more than the
// protocol allows.
func (c *Codec) tooDense(n, size int) error {
	if c.storage || n < freeElements || size >= minElement*n {
		return nil
	}
	return fmt.Errorf("%d values in %d bytes are too many", n, size)
}

// readSlice returns the plan of a slice. It grows the slice while it reads: a
// false length in the head costs little memory.
func (c *Codec) readSlice(t reflect.Type) readPlan {
	elem := c.reads.part(t.Elem())
	bytes := t.Elem().Kind() == reflect.Uint8
	first := max(1, firstAlloc/max(1, int(t.Elem().Size())))
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if bytes && len(b) > 0 && !isContainer(b[0]) { // a list of small numbers also counts as bytes
			text, rest, err := readText(b)
			if err != nil {
				return nil, err
			}
			v.SetBytes(append([]byte{}, text...))
			return rest, nil
		}
		// The length is a claim: allocate a little, and more as values come.
		n, rest, err := readHead(b, 0, "a list")
		if err != nil {
			return nil, err
		}
		v.Set(reflect.MakeSlice(t, min(n, first), min(n, first)))
		begin := len(rest)
		for i := range n {
			if i == v.Len() {
				if err := c.tooDense(i, begin-len(rest)); err != nil {
					return nil, err
				}
				v.Grow(min(i, n-i))
				v.SetLen(min(v.Cap(), n))
			}
			if rest, err = (*elem)(rest, v.Index(i)); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return rest, nil
	}
}

// readMap returns the plan of a map. Of equal keys the last one counts.
func (c *Codec) readMap(t reflect.Type) readPlan {
	key, elem := c.reads.part(t.Key()), c.reads.part(t.Elem())
	first := max(1, firstAlloc/max(1, int(t.Key().Size()+t.Elem().Size())))
	return func(b []byte, v reflect.Value) ([]byte, error) {
		n, rest, err := readHead(b, 1, "a map")
		if err != nil {
			return nil, err
		}
		v.Set(reflect.MakeMapWithSize(t, min(n, first)))
		if n == 0 {
			return rest, nil
		}
		k, x := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		for range n {
			k.SetZero()
			x.SetZero() // or this value would share memory with the previous one
			if rest, err = (*key)(rest, k); err != nil {
				return nil, fmt.Errorf("key: %w", err)
			}
			if rest, err = (*elem)(rest, x); err != nil {
				return nil, fmt.Errorf("[%.64v]: %w", k, err)
			}
			v.SetMapIndex(k, x)
		}
		return rest, nil
	}
}

// readStruct returns the plan of a struct, from a map with the names of its
// fields. Unknown names are skipped, and fields that are not named keep their
// values.
func (c *Codec) readStruct(t reflect.Type) readPlan {
	type field struct {
		name  string
		index []int
		plan  *readPlan
	}
	var all []field
	byName := map[string]int{}
	for i, f := range c.fieldsOf(t) {
		all = append(all, field{f.Name, f.Index, c.reads.part(f.Type)})
		byName[f.Name] = i
	}
	return func(b []byte, v reflect.Value) ([]byte, error) {
		n, rest, err := readHead(b, 1, "a map")
		if err != nil {
			return nil, err
		}
		next := 0 // fields are usually in order
		for range n {
			value, after := cut(rest)
			name, ok := Text(value)
			rest = after
			i := next
			// Try the field after the previous one before the lookup by name.
			if !ok || i >= len(all) || all[i].name != string(name) {
				i, ok = byName[string(name)]
			}
			// A newer build may have written fields that this one lacks.
			if !ok {
				if value, rest = cut(rest); value == nil {
					return nil, mismatch(nil, "a value")
				}
				continue
			}
			next = i + 1
			f := &all[i]
			to := v
			if len(f.index) == 1 {
				to = v.Field(f.index[0])
			} else {
				to = embedded(v, f.index)
			}
			if rest, err = (*f.plan)(rest, to); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return rest, nil
	}
}

// embedded returns a field of an embedded struct, which it allocates if
// necessary.
func embedded(v reflect.Value, index []int) reflect.Value {
	for i, n := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(n)
	}
	return v
}
