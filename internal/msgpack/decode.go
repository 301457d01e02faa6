package msgpack

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
)

// readPlan reads the first value of b into v and returns the rest of b.
type readPlan func(b []byte, v reflect.Value) (rest []byte, err error)

// unmarshalType is what types with a decoder of their own implement.
var unmarshalType = reflect.TypeFor[encoding.BinaryUnmarshaler]()

// buildRead returns the plan that reads values of type t. Nil sets any value to
// zero, except a Raw, which keeps it.
func (c *Codec) buildRead(t reflect.Type) readPlan {
	var read readPlan
	custom, isCustom := c.custom[t]
	// A custom type comes before the decoder that it may have itself.
	switch {
	case t == rawType:
		return readRaw
	case isCustom:
		read = custom.read
	case c.storage && t == timeType:
		read = readTime
	case reflect.PointerTo(t).Implements(unmarshalType):
		read = readUnmarshaler
	default:
		read = c.readKind(t)
	}
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if len(b) > 0 && b[0] == codeNil {
			v.SetZero()
			return b[1:], nil
		}
		return read(b, v)
	}
}

// readKind returns the plan for a type without a decoder of its own. A type
// that cannot be decoded gets a plan that fails when it is used.
func (c *Codec) readKind(t reflect.Type) readPlan {
	switch t.Kind() {
	case reflect.Bool:
		return readBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return readInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return readUint
	case reflect.Float32, reflect.Float64:
		return readFloat
	case reflect.String:
		return readString
	case reflect.Pointer:
		elem := c.reads.part(t.Elem())
		return func(b []byte, v reflect.Value) ([]byte, error) {
			v.Set(reflect.New(t.Elem()))
			return (*elem)(b, v.Elem())
		}
	case reflect.Slice:
		return c.readSlice(t)
	case reflect.Map:
		return c.readMap(t)
	case reflect.Struct:
		return c.readStruct(t)
	case reflect.Array:
		if c.storage && t.Elem().Kind() == reflect.Uint8 {
			return readByteArray
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return c.readAny
		}
	}
	return func([]byte, reflect.Value) ([]byte, error) { return nil, fmt.Errorf("cannot decode a %v", t) }
}

// mismatch returns the error for a value that does not fit its type.
func mismatch(b []byte, want string) error {
	if len(b) == 0 {
		return fmt.Errorf("want %s, got nothing", want)
	}
	return fmt.Errorf("want %s, got %s", want, kindOf(b[0]))
}

// kindOf names the kind of value that begins with c.
func kindOf(c byte) string {
	switch {
	case c == codeNil:
		return "nil"
	case c == codeFalse, c == codeTrue:
		return "a bool"
	case c == 0xca, c == 0xcb:
		return "a float"
	case c <= 0x7f, c >= 0xcc && c <= 0xd3, c >= 0xe0:
		return "an integer"
	case isContainer(c) && mapBit(c) == 1:
		return "a map"
	case isContainer(c):
		return "a list"
	case c >= 0xc7 && c <= 0xc9, c >= 0xd4 && c <= 0xd8:
		return "an extension"
	}
	return "a string"
}

// readRaw keeps a copy of the next value, not decoded.
func readRaw(b []byte, v reflect.Value) ([]byte, error) {
	value, rest := cut(b)
	if value == nil {
		return nil, mismatch(nil, "a value")
	}
	v.SetBytes(append(Raw(nil), value...))
	return rest, nil
}

// readUnmarshaler hands a string or bytes to UnmarshalBinary. The text is part
// of the input, so the method must copy what it keeps.
func readUnmarshaler(b []byte, v reflect.Value) ([]byte, error) {
	value, rest := cut(b)
	text, ok := Text(value)
	if !ok {
		return nil, mismatch(b, fmt.Sprintf("the text of a %v", v.Type()))
	}
	return rest, v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(text)
}

// readBool accepts true and false only: a number is an error.
func readBool(b []byte, v reflect.Value) ([]byte, error) {
	if len(b) == 0 || b[0] != codeFalse && b[0] != codeTrue {
		return nil, mismatch(b, "a bool")
	}
	v.SetBool(b[0] == codeTrue)
	return b[1:], nil
}

// readInteger reads an integer. If it is below 0, neg is set and n is its two's
// complement.
func readInteger(b []byte) (n uint64, neg bool, rest []byte, err error) {
	value, rest := cut(b)
	if n, ok := Uint(value); ok {
		return n, false, rest, nil
	}
	if len(value) > 0 {
		// Negative numbers are extended to 64 bits.
		switch c := value[0]; {
		case c >= 0xe0:
			return uint64(int64(int8(c))), true, rest, nil
		case c == 0xd0:
			return uint64(int64(int8(value[1]))), true, rest, nil
		case c == 0xd1:
			return uint64(int64(int16(binary.BigEndian.Uint16(value[1:])))), true, rest, nil
		case c == 0xd2:
			return uint64(int64(int32(binary.BigEndian.Uint32(value[1:])))), true, rest, nil
		case c == 0xd3:
			return binary.BigEndian.Uint64(value[1:]), true, rest, nil
		}
	}
	return 0, false, nil, mismatch(b, "an integer")
}

// readInt accepts any integer that fits the type of v, signed or not.
func readInt(b []byte, v reflect.Value) ([]byte, error) {
	n, neg, rest, err := readInteger(b)
	if err != nil {
		return nil, err
	}
	if !neg && n > math.MaxInt64 || v.OverflowInt(int64(n)) {
		return nil, outOfRange(n, neg, v)
	}
	v.SetInt(int64(n))
	return rest, nil
}

// readUint accepts any integer from 0 that fits the type of v.
func readUint(b []byte, v reflect.Value) ([]byte, error) {
	n, neg, rest, err := readInteger(b)
	if err != nil {
		return nil, err
	}
	if neg || v.OverflowUint(n) {
		return nil, outOfRange(n, neg, v)
	}
	v.SetUint(n)
	return rest, nil
}

// outOfRange returns the error for a number that v's type cannot hold. With
// neg, n holds the bits of a negative number.
func outOfRange(n uint64, neg bool, v reflect.Value) error {
	if neg {
		return fmt.Errorf("%d is out of range for %v", int64(n), v.Kind())
	}
	return fmt.Errorf("%d is out of range for %v", n, v.Kind())
}

// readFloat accepts floats of both sizes and integers, since encoders write
// whole numbers as integers.
func readFloat(b []byte, v reflect.Value) ([]byte, error) {
	f, rest, ok := floatOf(b)
	if !ok {
		n, neg, rest, err := readInteger(b)
		if err != nil {
			return nil, mismatch(b, "a number")
		}
		if f = float64(n); neg {
			f = float64(int64(n))
		}
		v.SetFloat(f)
		return rest, nil
	}
	v.SetFloat(f)
	return rest, nil
}

// floatOf returns the float that b begins with, and what follows it. ok is
// false if b begins with something else or is cut short.
func floatOf(b []byte) (f float64, rest []byte, ok bool) {
	switch {
	case len(b) >= 5 && b[0] == 0xca:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b[1:]))), b[5:], true
	case len(b) >= 9 && b[0] == 0xcb:
		return math.Float64frombits(binary.BigEndian.Uint64(b[1:])), b[9:], true
	}
	return 0, nil, false
}

// readString accepts strings and bytes, and copies them.
func readString(b []byte, v reflect.Value) ([]byte, error) {
	text, rest, err := readText(b)
	if err != nil {
		return nil, err
	}
	v.SetString(string(text))
	return rest, nil
}

// readText reads a string or bytes, which remain part of b.
func readText(b []byte) (text, rest []byte, err error) {
	if n := shortToken(b, 0); n > 0 && b[0] >= 0xa0 && b[0] <= 0xbf {
		return b[1:n], b[n:], nil
	}
	value, rest := cut(b)
	text, ok := Text(value)
	if !ok {
		return nil, nil, mismatch(b, "a string")
	}
	return text, rest, nil
}

// readByteArray fills an array from the front. Shorter input leaves the rest as
// it was; longer input is an error.
func readByteArray(b []byte, v reflect.Value) ([]byte, error) {
	text, rest, err := readText(b)
	if err != nil {
		return nil, err
	}
	if len(text) > v.Len() {
		return nil, fmt.Errorf("want %d bytes, got %d", v.Len(), len(text))
	}
	copy(v.Bytes(), text)
	return rest, nil
}
