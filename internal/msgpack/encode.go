package msgpack

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// writePlan appends the encoding of values of one type.
type writePlan func(b []byte, v reflect.Value) ([]byte, error)

var (
	rawType      = reflect.TypeFor[Raw]()
	appenderType = reflect.TypeFor[encoding.BinaryAppender]()
	marshalType  = reflect.TypeFor[encoding.BinaryMarshaler]()
)

// buildWrite returns the plan that writes values of type t. A type that cannot
// be encoded gets a plan that fails, so that only its use is an error.
func (c *Codec) buildWrite(t reflect.Type) writePlan {
	// Custom types and times come first: a time is also a marshaler.
	if c.storage {
		if x, ok := c.custom[t]; ok {
			return func(b []byte, v reflect.Value) ([]byte, error) { return x.append(b, v), nil }
		}
		if t == timeType {
			return appendTime
		}
	}
	// Then what encodes itself. A pointer is left to its element, or nil would
	// reach the marshaler.
	switch {
	case t == rawType:
		return appendRaw
	case t.Kind() == reflect.Pointer: // a marshaler among the values that it points to
	case t.Implements(appenderType) && !c.storage:
		return appendAppender
	case t.Implements(marshalType):
		return c.marshaler()
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(b []byte, v reflect.Value) ([]byte, error) { return appendBool(b, v.Bool()), nil }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return appendInt(b, v.Int()), nil }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return AppendUint(b, v.Uint()), nil }
	case reflect.Float32, reflect.Float64:
		return c.float()
	case reflect.String:
		if c.storage {
			return func(b []byte, v reflect.Value) ([]byte, error) { return appendText(b, v.String()), nil }
		}
		return func(b []byte, v reflect.Value) ([]byte, error) { return AppendString(b, v.String()), nil }
	case reflect.Interface:
		return func(b []byte, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return append(b, codeNil), nil
			}
			return (*c.writes.of(v.Elem().Type()))(b, v.Elem())
		}
	case reflect.Pointer:
		return c.pointer(t)
	case reflect.Slice:
		return c.slice(t)
	case reflect.Array:
		if c.storage && t.Elem().Kind() == reflect.Uint8 {
			return appendByteArray
		}
	case reflect.Map:
		if c.storage {
			return c.sortedMap(t)
		}
		return c.mapping(t)
	case reflect.Struct:
		if c.storage {
			return c.setFields(t)
		}
		return c.structure(t)
	}
	return func([]byte, reflect.Value) ([]byte, error) { return nil, fmt.Errorf("cannot encode a %v", t) }
}

// pointer returns a plan that writes nil or what the pointer points to. Types
// with a memo are encoded once and copied from then on.
func (c *Codec) pointer(t reflect.Type) writePlan {
	elem := c.writes.part(t.Elem())
	if m := c.memos[t]; m != nil {
		return func(b []byte, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return append(b, codeNil), nil
			}
			return m.append(b, v.Interface(), func(b []byte) ([]byte, error) { return (*elem)(b, v.Elem()) })
		}
	}
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(b, codeNil), nil
		}
		return (*elem)(b, v.Elem())
	}
}

// slice returns the plan of a slice: bytes as one value, anything else as a
// list. A nil slice is written as nil, an empty one is not.
func (c *Codec) slice(t reflect.Type) writePlan {
	if t.Elem().Kind() == reflect.Uint8 {
		return func(b []byte, v reflect.Value) ([]byte, error) {
			switch {
			case v.IsNil():
				return append(b, codeNil), nil
			case c.storage:
				return appendBytes(b, v.Bytes()), nil
			}
			return append(AppendRawHead(b, v.Len()), v.Bytes()...), nil
		}
	}
	elem := c.writes.part(t.Elem())
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		if v.IsNil() {
			return append(b, codeNil), nil
		}
		n := v.Len()
		b = appendListHead(b, n)
		for i := range n {
			if b, err = (*elem)(b, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
}

// mapping returns the plan of a map in Go's order, which differs from call to
// call. Storage uses sortedMap.
func (c *Codec) mapping(t reflect.Type) writePlan {
	// The most frequent type goes without reflection for each entry.
	if t == reflect.TypeFor[map[string]string]() {
		return func(b []byte, v reflect.Value) ([]byte, error) {
			m := v.Interface().(map[string]string)
			if m == nil {
				return append(b, codeNil), nil
			}
			b = AppendMapHead(b, len(m))
			for k, s := range m {
				b = AppendString(AppendString(b, k), s)
			}
			return b, nil
		}
	}
	key, elem := c.writes.part(t.Key()), c.writes.part(t.Elem())
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		if v.IsNil() {
			return append(b, codeNil), nil
		}
		b = AppendMapHead(b, v.Len())
		if v.Len() == 0 {
			return b, nil
		}
		// One pair of variables for all entries saves allocations.
		k, x := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		for each := v.MapRange(); each.Next(); {
			k.SetIterKey(each)
			x.SetIterValue(each)
			if b, err = (*key)(b, k); err != nil {
				return nil, err
			}
			if b, err = (*elem)(b, x); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
}

// sortedMap appends a map in order of its keys.
func (c *Codec) sortedMap(t reflect.Type) writePlan {
	if t.Key().Kind() != reflect.String {
		return func([]byte, reflect.Value) ([]byte, error) {
			return nil, fmt.Errorf("cannot encode a %v: its keys must be strings", t)
		}
	}
	elem := c.writes.part(t.Elem())
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		if v.IsNil() {
			return append(b, codeNil), nil
		}
		// Sorted, so that equal maps give equal bytes.
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		b = AppendMapHead(b, len(keys))
		for _, k := range keys {
			if b, err = (*elem)(appendText(b, k.String()), v.MapIndex(k)); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
}

// structure appends all fields of a struct.
func (c *Codec) structure(t reflect.Type) writePlan {
	type field struct {
		key   []byte
		index []int
		plan  *writePlan
	}
	var all []field
	// Names are encoded once, when the plan is made.
	for _, f := range c.fieldsOf(t) {
		all = append(all, field{AppendString(nil, f.Name), f.Index, c.writes.part(f.Type)})
	}
	head := AppendMapHead(nil, len(all))
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		b = append(b, head...)
		for i := range all {
			f := &all[i]
			b = append(b, f.key...)
			var x reflect.Value
			// Field is much cheaper than FieldByIndexErr.
			if len(f.index) == 1 {
				x = v.Field(f.index[0])
			} else if x, err = v.FieldByIndexErr(f.index); err != nil { // the embedded pointer is nil
				b = append(b, codeNil)
				continue
			}
			if b, err = (*f.plan)(b, x); err != nil {
				return nil, fmt.Errorf("%s: %w", f.key[1:], err)
			}
		}
		return b, nil
	}
}

// setFields appends the fields of a struct that are not empty. Their number is
// only known at the end.
func (c *Codec) setFields(t reflect.Type) writePlan {
	type field struct {
		name  string
		key   []byte
		index []int
		empty emptiness
		plan  *writePlan
	}
	var all []field
	for _, f := range c.fieldsOf(t) {
		all = append(all, field{f.Name, appendText(nil, f.Name), f.Index, c.emptyOf(f.Type), c.writes.part(f.Type)})
	}
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		// The head is written last: it counts the fields that are not empty.
		at, n := len(b), 0
		b = append(b, 0x80)
		for i := range all {
			f := &all[i]
			var x reflect.Value
			if len(f.index) == 1 {
				x = v.Field(f.index[0])
			} else if x, err = v.FieldByIndexErr(f.index); err != nil { // the embedded pointer is nil
				continue
			}
			if f.empty(x) {
				continue
			}
			if b, err = (*f.plan)(append(b, f.key...), x); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			n++
		}
		// Up to 15 fields fit the byte that was reserved.
		if n < 16 {
			b[at] = 0x80 | byte(n)
			return b, nil
		}
		return insertHead(b, at, AppendMapHead(nil, n)), nil
	}
}

// insertHead replaces the placeholder byte at position at by head.
func insertHead(b []byte, at int, head []byte) []byte {
	b = append(b, head[1:]...)
	copy(b[at+len(head):], b[at+1:])
	copy(b[at:], head)
	return b
}

// appendRaw appends a Raw as it is; an empty one becomes nil. Its content is
// not checked.
func appendRaw(b []byte, v reflect.Value) ([]byte, error) {
	if v.Len() == 0 {
		return append(b, codeNil), nil
	}
	return append(b, v.Bytes()...), nil
}

// appendAppender appends what AppendBinary writes, as a string. A text of 32
// bytes or more is moved to make room for its head.
func appendAppender(b []byte, v reflect.Value) ([]byte, error) {
	if v.CanAddr() {
		v = v.Addr() // so that Interface does not allocate
	}
	at := len(b)
	b, err := v.Interface().(encoding.BinaryAppender).AppendBinary(append(b, 0))
	if err != nil {
		return nil, err
	}
	// The head precedes the content, whose length was unknown until now.
	n := len(b) - at - 1
	if n < 32 {
		b[at] = 0xa0 | byte(n)
		return b, nil
	}
	var buf [5]byte
	return insertHead(b, at, AppendRawHead(buf[:0], n)), nil
}

// marshaler returns the plan of a type with MarshalBinary. In storage a nil
// text is written as nil; elsewhere it is an empty string.
func (c *Codec) marshaler() writePlan {
	return func(b []byte, v reflect.Value) ([]byte, error) {
		text, err := v.Interface().(encoding.BinaryMarshaler).MarshalBinary()
		switch {
		case err != nil:
			return nil, err
		case c.storage && text == nil:
			return append(b, codeNil), nil
		case c.storage:
			return appendBytes(b, text), nil
		}
		return append(AppendRawHead(b, len(text)), text...), nil
	}
}

// appendByteArray appends an array of bytes as bytes. It copies the content
// first, because the array may not be addressable.
func appendByteArray(b []byte, v reflect.Value) ([]byte, error) {
	content := make([]byte, v.Len())
	reflect.Copy(reflect.ValueOf(content), v)
	return appendBytes(b, content), nil
}

// float appends a floating-point number. The protocol requires it to be finite.
func (c *Codec) float() writePlan {
	return func(b []byte, v reflect.Value) ([]byte, error) {
		f := v.Float()
		if (math.IsNaN(f) || math.IsInf(f, 0)) && !c.storage {
			return nil, fmt.Errorf("cannot encode %v: must be finite", f)
		}
		if v.Kind() == reflect.Float32 {
			return binary.BigEndian.AppendUint32(append(b, 0xca), math.Float32bits(float32(f))), nil
		}
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(f)), nil
	}
}
