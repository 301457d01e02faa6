package wire

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"berth"
)

// decode reads one frame, which a scanner has walked before, into v, a pointer
// to a zero value. It accepts both forms of msgpack; nil is the zero value of
// anything; keys that a struct does not have are passed over. What does not
// fit its type is an Invalid error that names the place.
//
// Memory is taken as values are found to fit, so a frame costs at most what
// the values of its types take, whatever it claims to hold. Nothing decoded
// points into the frame or to anything else decoded: go-msgpack 2.1.5 was
// found to let the values of one map share their pointers.
func decode(frame []byte, v any) error {
	to := reflect.ValueOf(v)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("decode into %T: a pointer is wanted", v)
	}
	rest, err := (*readPlans.of(to.Type().Elem()))(frame, to.Elem())
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the value", len(rest))
	}
	if err != nil {
		return berth.Errorf(berth.Invalid, "decode %v: %w", to.Type().Elem(), err)
	}
	return nil
}

// readPlan reads the first value of b into v, and returns what follows it.
type readPlan func(b []byte, v reflect.Value) (rest []byte, err error)

var readPlans planner[readPlan]

func init() { readPlans.build = buildRead }

var unmarshalType = reflect.TypeFor[encoding.BinaryUnmarshaler]()

func buildRead(t reflect.Type) readPlan {
	var read readPlan
	switch {
	case t == rawType:
		return readRaw
	case reflect.PointerTo(t).Implements(unmarshalType):
		read = readUnmarshaler
	default:
		read = readKind(t)
	}
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if len(b) > 0 && b[0] == 0xc0 {
			v.SetZero()
			return b[1:], nil
		}
		return read(b, v)
	}
}

func readKind(t reflect.Type) readPlan {
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
		elem := readPlans.part(t.Elem())
		return func(b []byte, v reflect.Value) ([]byte, error) {
			v.Set(reflect.New(t.Elem()))
			return (*elem)(b, v.Elem())
		}
	case reflect.Slice:
		return readSlice(t)
	case reflect.Map:
		return readMap(t)
	case reflect.Struct:
		return readStruct(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return readAny
		}
	}
	return func([]byte, reflect.Value) ([]byte, error) { return nil, fmt.Errorf("a %v cannot be received", t) }
}

// mismatch says that a value is not what is wanted.
func mismatch(b []byte, want string) error {
	if len(b) == 0 {
		return fmt.Errorf("%s is wanted, and nothing is there", want)
	}
	return fmt.Errorf("%s is wanted, not %s", want, kindOf(b[0]))
}

func kindOf(c byte) string {
	switch {
	case c == 0xc0:
		return "nil"
	case c == 0xc2, c == 0xc3:
		return "a bool"
	case c == 0xca, c == 0xcb:
		return "a number with a fraction"
	case c <= 0x7f, c >= 0xcc && c <= 0xd3, c >= 0xe0:
		return "a whole number"
	case isContainer(c) && mapBit(c) == 1:
		return "a map"
	case isContainer(c):
		return "a list"
	case c >= 0xc7 && c <= 0xc9, c >= 0xd4 && c <= 0xd8:
		return "an extension"
	}
	return "a string"
}

func readRaw(b []byte, v reflect.Value) ([]byte, error) {
	value, rest := cut(b)
	if value == nil {
		return nil, mismatch(nil, "a value")
	}
	v.SetBytes(append(Raw(nil), value...))
	return rest, nil
}

func readUnmarshaler(b []byte, v reflect.Value) ([]byte, error) {
	value, rest := cut(b)
	text, ok := textOf(value)
	if !ok {
		return nil, mismatch(b, fmt.Sprintf("the text of a %v", v.Type()))
	}
	return rest, v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(text)
}

func readBool(b []byte, v reflect.Value) ([]byte, error) {
	if len(b) == 0 || b[0] != 0xc2 && b[0] != 0xc3 {
		return nil, mismatch(b, "a bool")
	}
	v.SetBool(b[0] == 0xc3)
	return b[1:], nil
}

// readWhole reads a whole number. If it is below 0, neg is set and n is its
// two's complement.
func readWhole(b []byte) (n uint64, neg bool, rest []byte, err error) {
	value, rest := cut(b)
	if n, ok := wholeOf(value); ok {
		return n, false, rest, nil
	}
	if len(value) > 0 {
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
	return 0, false, nil, mismatch(b, "a whole number")
}

func readInt(b []byte, v reflect.Value) ([]byte, error) {
	n, neg, rest, err := readWhole(b)
	if err != nil {
		return nil, err
	}
	if !neg && n > math.MaxInt64 || v.OverflowInt(int64(n)) {
		return nil, outOfRange(n, neg, v)
	}
	v.SetInt(int64(n))
	return rest, nil
}

func readUint(b []byte, v reflect.Value) ([]byte, error) {
	n, neg, rest, err := readWhole(b)
	if err != nil {
		return nil, err
	}
	if neg || v.OverflowUint(n) {
		return nil, outOfRange(n, neg, v)
	}
	v.SetUint(n)
	return rest, nil
}

func outOfRange(n uint64, neg bool, v reflect.Value) error {
	if neg {
		return fmt.Errorf("%d is out of range for %v", int64(n), v.Kind())
	}
	return fmt.Errorf("%d is out of range for %v", n, v.Kind())
}

func readFloat(b []byte, v reflect.Value) ([]byte, error) {
	f, rest, ok := floatOf(b)
	if !ok {
		n, neg, rest, err := readWhole(b)
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

func floatOf(b []byte) (f float64, rest []byte, ok bool) {
	switch {
	case len(b) >= 5 && b[0] == 0xca:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b[1:]))), b[5:], true
	case len(b) >= 9 && b[0] == 0xcb:
		return math.Float64frombits(binary.BigEndian.Uint64(b[1:])), b[9:], true
	}
	return 0, nil, false
}

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
	text, ok := textOf(value)
	if !ok {
		return nil, nil, mismatch(b, "a string")
	}
	return text, rest, nil
}
