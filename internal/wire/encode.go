package wire

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
)

// Raw is a value that is msgpack already. It travels as it is, and a field of
// this type takes whatever comes, for [Raw.Decode].
type Raw []byte

// Decode reads the value into v, a pointer.
func (r Raw) Decode(v any) error { return decode(r, v) }

// An encoder writes values in the old form of msgpack, as the protocol has
// them: structs as maps keyed by field name with embedded structs flattened,
// strings and bytes alike raw, whatever implements encoding.BinaryMarshaler
// raw, nil for nil slices, maps and pointers.
//
// The codec is our own. Answers are most of what a server encodes, and the
// whole job is in each allocation: what never changes is encoded once, see
// [Once]. And it takes a frame no further than its types go, see decode.
type encoder struct {
	plans planner[appendPlan]
	memos map[reflect.Type]*memo
}

// plain encodes what is not worth remembering.
var plain = newEncoder(nil)

func newEncoder(memos []Memo) *encoder {
	e := &encoder{memos: map[reflect.Type]*memo{}}
	e.plans.build = e.build
	for _, m := range memos {
		e.memos[m.of] = m.make()
	}
	return e
}

// append appends the encoding of v.
func (e *encoder) append(b []byte, v any) ([]byte, error) {
	if v == nil {
		return append(b, 0xc0), nil
	}
	x := reflect.ValueOf(v)
	return (*e.plans.of(x.Type()))(b, x)
}

// appendPlan is how values of one type are encoded.
type appendPlan func(b []byte, v reflect.Value) ([]byte, error)

var (
	rawType      = reflect.TypeFor[Raw]()
	appenderType = reflect.TypeFor[encoding.BinaryAppender]()
	marshalType  = reflect.TypeFor[encoding.BinaryMarshaler]()
)

func (e *encoder) build(t reflect.Type) appendPlan {
	switch {
	case t == rawType:
		return appendRaw
	case t.Kind() != reflect.Pointer && t.Implements(appenderType):
		return appendAppender
	case t.Kind() != reflect.Pointer && t.Implements(marshalType):
		return appendMarshaler
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(b []byte, v reflect.Value) ([]byte, error) { return appendBool(b, v.Bool()), nil }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return appendInt(b, v.Int()), nil }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return appendUint(b, v.Uint()), nil }
	case reflect.Float32, reflect.Float64:
		return appendFloat
	case reflect.String:
		return func(b []byte, v reflect.Value) ([]byte, error) { return appendString(b, v.String()), nil }
	case reflect.Interface:
		return func(b []byte, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return append(b, 0xc0), nil
			}
			return (*e.plans.of(v.Elem().Type()))(b, v.Elem())
		}
	case reflect.Pointer:
		return e.pointer(t)
	case reflect.Slice:
		return e.slice(t)
	case reflect.Map:
		return e.mapping(t)
	case reflect.Struct:
		return e.structure(t)
	}
	return func([]byte, reflect.Value) ([]byte, error) { return nil, fmt.Errorf("a %v cannot be sent", t) }
}

func (e *encoder) pointer(t reflect.Type) appendPlan {
	elem := e.plans.part(t.Elem())
	if m := e.memos[t]; m != nil {
		return func(b []byte, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return append(b, 0xc0), nil
			}
			return m.append(b, v.Interface(), func(b []byte) ([]byte, error) { return (*elem)(b, v.Elem()) })
		}
	}
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(b, 0xc0), nil
		}
		return (*elem)(b, v.Elem())
	}
}

func (e *encoder) slice(t reflect.Type) appendPlan {
	if t.Elem().Kind() == reflect.Uint8 {
		return func(b []byte, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return append(b, 0xc0), nil
			}
			return append(appendRawHead(b, v.Len()), v.Bytes()...), nil
		}
	}
	elem := e.plans.part(t.Elem())
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		if v.IsNil() {
			return append(b, 0xc0), nil
		}
		n := v.Len()
		b = appendHead(b, n, 0x90, 0xdc)
		for i := range n {
			if b, err = (*elem)(b, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
}

func (e *encoder) mapping(t reflect.Type) appendPlan {
	if t == reflect.TypeFor[map[string]string]() {
		return func(b []byte, v reflect.Value) ([]byte, error) {
			m := v.Interface().(map[string]string)
			if m == nil {
				return append(b, 0xc0), nil
			}
			b = appendHead(b, len(m), 0x80, 0xde)
			for k, s := range m {
				b = appendString(appendString(b, k), s)
			}
			return b, nil
		}
	}
	key, elem := e.plans.part(t.Key()), e.plans.part(t.Elem())
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		if v.IsNil() {
			return append(b, 0xc0), nil
		}
		b = appendHead(b, v.Len(), 0x80, 0xde)
		if v.Len() == 0 {
			return b, nil
		}
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

func (e *encoder) structure(t reflect.Type) appendPlan {
	type field struct {
		key   []byte
		index []int
		plan  *appendPlan
	}
	var all []field
	for _, f := range fieldsOf(t) {
		all = append(all, field{appendString(nil, f.Name), f.Index, e.plans.part(f.Type)})
	}
	head := appendHead(nil, len(all), 0x80, 0xde)
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		b = append(b, head...)
		for i := range all {
			f := &all[i]
			b = append(b, f.key...)
			var x reflect.Value
			if len(f.index) == 1 {
				x = v.Field(f.index[0])
			} else if x, err = v.FieldByIndexErr(f.index); err != nil { // the embedded pointer is nil
				b = append(b, 0xc0)
				continue
			}
			if b, err = (*f.plan)(b, x); err != nil {
				return nil, fmt.Errorf("%s: %w", f.key[1:], err)
			}
		}
		return b, nil
	}
}

func appendRaw(b []byte, v reflect.Value) ([]byte, error) {
	if v.Len() == 0 {
		return append(b, 0xc0), nil
	}
	return append(b, v.Bytes()...), nil
}

func appendAppender(b []byte, v reflect.Value) ([]byte, error) {
	if v.CanAddr() {
		v = v.Addr() // then Interface does not allocate
	}
	at := len(b)
	b, err := v.Interface().(encoding.BinaryAppender).AppendBinary(append(b, 0))
	if err != nil {
		return nil, err
	}
	// The head comes before content whose length was not known.
	n := len(b) - at - 1
	if n < 32 {
		b[at] = 0xa0 | byte(n)
		return b, nil
	}
	var room [5]byte
	head := appendRawHead(room[:0], n)
	b = append(b, head[1:]...)
	copy(b[at+len(head):], b[at+1:])
	copy(b[at:], head)
	return b, nil
}

func appendMarshaler(b []byte, v reflect.Value) ([]byte, error) {
	text, err := v.Interface().(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil, err
	}
	return append(appendRawHead(b, len(text)), text...), nil
}

// appendFloat refuses what the far end would.
func appendFloat(b []byte, v reflect.Value) ([]byte, error) {
	f := v.Float()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v cannot be sent", f)
	}
	if v.Kind() == reflect.Float32 {
		return binary.BigEndian.AppendUint32(append(b, 0xca), math.Float32bits(float32(f))), nil
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(f)), nil
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

func appendInt(b []byte, n int64) []byte {
	switch {
	case n >= 0:
		return appendUint(b, uint64(n))
	case n >= -32:
		return append(b, byte(n))
	case n >= math.MinInt8:
		return append(b, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
}

func appendUint(b []byte, n uint64) []byte {
	switch {
	case n <= 0x7f:
		return append(b, byte(n))
	case n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

func appendString(b []byte, s string) []byte { return append(appendRawHead(b, len(s)), s...) }

// appendRawHead begins a string or bytes. The old form has no heads of one
// byte of length.
func appendRawHead(b []byte, n int) []byte {
	switch {
	case n < 32:
		return append(b, 0xa0|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
}

// appendHead begins a list or map of n.
func appendHead(b []byte, n int, fix, sized byte) []byte {
	switch {
	case n < 16:
		return append(b, fix|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, sized), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, sized+1), uint32(n))
}
