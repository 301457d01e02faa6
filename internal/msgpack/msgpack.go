// Package msgpack encodes Go values as msgpack and decodes them. It knows
// nothing of Berth; it serves the RPC protocol ([NewProtocol]) and the servers'
// storage ([NewStorage]).
//
// Input is not trusted. A decoder allocates memory as values turn out to fit,
// so that bytes which claim more than they hold cost little, and [Scanner]
// walks a value as it arrives, before anything is decoded. Decoded values share
// no memory with the input or with each other.
//
// Any Codec reads both forms of msgpack: the old one, in which strings and
// bytes are the same, and the current one. docs/decisions/0004-wire-codec.md
// compares this package with libraries.
package msgpack

import (
	"errors"
	"fmt"
	"reflect"
)

// Raw is an encoded value. It is written unchanged, and a field of this type
// accepts any value, for [Raw.Decode].
type Raw []byte

// Decode decodes the value, in the protocol's form, into v, a pointer.
func (r Raw) Decode(v any) error { return Decode(r, v) }

// A Codec encodes and decodes values of any type. It plans the encoding of each
// type once, and is safe for concurrent use.
type Codec struct {
	writes planner[writePlan]
	reads  planner[readPlan]
	memos  map[reflect.Type]*memo  // by pointer type; fixed before the first use
	custom map[reflect.Type]Custom // fixed before the first use

	// storage selects the storage form instead of the protocol's.
	storage bool
}

// NewProtocol returns a codec for the RPC protocol, which is older than the
// current form of msgpack: structs are maps of all their fields in order of
// name, with embedded structs flattened; strings and bytes are the same; a type
// that implements encoding.BinaryMarshaler is bytes; nil slices, maps and
// pointers are nil. Each value of the memos' types is encoded once.
func NewProtocol(memos ...Memo) *Codec {
	c := newCodec()
	for _, m := range memos {
		c.memos[m.of] = m.make()
	}
	return c
}

// NewStorage returns a codec for stored data: equal values are equal bytes. It
// writes the current form of msgpack: structs are maps of the fields that are
// not empty, in the order of their declaration; maps are sorted by key, which
// must be a string; times are the Timestamp extension. A field is empty if it
// is zero, has no elements, is a struct of empty fields, or its IsZero returns
// true. Fields tagged `msgpack:"-"` are left out. It decodes input however
// dense it is, since we wrote it.
func NewStorage(custom ...Custom) *Codec {
	c := newCodec()
	c.storage = true
	for _, x := range custom {
		c.custom[x.of] = x
	}
	return c
}

// newCodec returns a codec without custom types and memos. They must be added
// before its first use, because plans are built once per type.
func newCodec() *Codec {
	c := &Codec{memos: map[reflect.Type]*memo{}, custom: map[reflect.Type]Custom{}}
	c.writes.build, c.reads.build = c.buildWrite, c.buildRead
	return c
}

// Append appends the encoding of v.
func (c *Codec) Append(b []byte, v any) ([]byte, error) {
	if v == nil {
		return append(b, codeNil), nil
	}
	x := reflect.ValueOf(v)
	return (*c.writes.of(x.Type()))(b, x)
}

// Decode decodes b, one value, into v, a pointer to a zero value. Nil is the
// zero value of any type, and unknown keys of a struct are skipped. If a value
// does not fit its type, the error names its place.
//
// A codec for the protocol must be given input that a [Scanner] has walked,
// which bounds how deep b nests. A codec for storage does that itself.
func (c *Codec) Decode(b []byte, v any) error {
	to := reflect.ValueOf(v)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("decode into %T: must be a pointer", v)
	}
	var err error
	// Stored bytes must be one whole value before any of it is used.
	if c.storage {
		err = complete(b)
	}
	rest := b
	if err == nil {
		rest, err = (*c.reads.of(to.Type().Elem()))(b, to.Elem())
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the value", len(rest))
	}
	if err != nil {
		return fmt.Errorf("decode %v: %w", to.Type().Elem(), err)
	}
	return nil
}

// protocol is the codec behind the functions of the package.
var protocol = NewProtocol()

// Append appends the encoding of v in the protocol's form.
func Append(b []byte, v any) ([]byte, error) { return protocol.Append(b, v) }

// Decode decodes b in the protocol's form. See [Codec.Decode].
func Decode(b []byte, v any) error { return protocol.Decode(b, v) }

// Custom is how a storage codec encodes values of one type.
type Custom struct {
	of     reflect.Type
	append func(b []byte, v reflect.Value) []byte
	read   func(b []byte, v reflect.Value) (rest []byte, err error)
}

// As16 encodes IDs of type T, arrays of 16 bytes, as these bytes; the zero ID
// is nil.
func As16[T ~[16]byte]() Custom {
	return Custom{
		of: reflect.TypeFor[T](),
		append: func(b []byte, v reflect.Value) []byte {
			id := [16]byte(v.Interface().(T))
			// A zero ID is written as nil, which reads back as zero.
			if id == [16]byte{} {
				return append(b, codeNil)
			}
			return append(append(b, codeBin8, 16), id[:]...)
		},
		read: func(b []byte, v reflect.Value) ([]byte, error) {
			text, rest, err := readText(b)
			if err != nil {
				return nil, err
			}
			if len(text) != 16 {
				return nil, fmt.Errorf("want an ID of 16 bytes, got %d", len(text))
			}
			copy(v.Bytes(), text)
			return rest, nil
		},
	}
}

// AsPair encodes values of type T as a list of two numbers.
func AsPair[T any](split func(T) (x, y uint64), join func(x, y uint64) (T, error)) Custom {
	return Custom{
		of: reflect.TypeFor[T](),
		append: func(b []byte, v reflect.Value) []byte {
			x, y := split(v.Interface().(T))
			// 0x92 is the head of a list of two.
			return AppendUint(AppendUint(append(b, 0x92), x), y)
		},
		read: func(b []byte, v reflect.Value) ([]byte, error) {
			n, rest, err := readHead(b, 0, "a list")
			if err == nil && n != 2 {
				err = fmt.Errorf("want 2 numbers, got %d", n)
			}
			if err != nil {
				return nil, err
			}
			var pair [2]uint64
			for i := range pair {
				var negative bool
				// IDs and indexes are unsigned.
				if pair[i], negative, rest, err = readInteger(rest); err == nil && negative {
					err = errors.New("want a number that is not negative")
				}
				if err != nil {
					return nil, err
				}
			}
			*v.Addr().Interface().(*T), err = join(pair[0], pair[1])
			return rest, err
		},
	}
}
