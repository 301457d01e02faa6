// Package pluginwire is the protocol of external task drivers and device plugins
// as plain structs: the messages that Nomad publishes for its plugins, and a
// codec for gRPC that writes them in the format of Protocol Buffers.
//
// A field's tag is its number: `pb:"3"`. Its Go type says how it is written:
// strings, bytes and structs with a length, integers and bools as varints,
// float64 in eight bytes. A slice is a repeated field, a map one of pairs. A
// field that is its zero value is left out; a pointer to a plain value is one of
// a oneof, and is written whenever it is set.
package pluginwire

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for the messages of go-plugin itself
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// messageDepth is how many messages may stand one in another. Schemas of drivers and
// statistics of devices are trees.
const messageDepth = 64

// Codec is the codec for gRPC. Messages of Protocol Buffers' own types pass
// through it as through gRPC's.
type Codec struct{}

// Name implements [encoding.CodecV2].
func (Codec) Name() string { return "proto" }

// Marshal implements [encoding.CodecV2].
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(proto.Message); ok {
		return encoding.GetCodecV2("proto").Marshal(m)
	}
	b, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(proto.Message); ok {
		return encoding.GetCodecV2("proto").Unmarshal(data, m)
	}
	return Unmarshal(data.Materialize(), v)
}

// Marshal returns the bytes of a message, a pointer to a struct of this package.
func Marshal(v any) ([]byte, error) {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Pointer || r.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("pluginwire: %T is not a message", v)
	}
	return appendMessage(nil, r.Elem(), 0)
}

// Unmarshal reads the bytes of a message into v. Fields that v does not have are
// passed over.
func Unmarshal(b []byte, v any) error {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Pointer || r.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("pluginwire: %T is not a message", v)
	}
	return readMessage(b, r.Elem(), 0)
}

// fields are the places of a struct's fields by number.
type fields struct {
	numbers []protowire.Number // in order
	at      map[protowire.Number]int
}

var known sync.Map // *fields by reflect.Type

// of returns the fields of a struct. A tag that is no number is a mistake in
// this package.
func of(t reflect.Type) *fields {
	if f, ok := known.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{at: map[protowire.Number]int{}}
	for i := range t.NumField() {
		n, err := strconv.Atoi(t.Field(i).Tag.Get("pb"))
		if err != nil {
			panic(fmt.Sprintf("pluginwire: %s.%s has no number", t, t.Field(i).Name))
		}
		f.at[protowire.Number(n)] = i
		f.numbers = append(f.numbers, protowire.Number(n))
	}
	slices.Sort(f.numbers)
	known.Store(t, f)
	return f
}

// appendMessage appends the fields of a struct.
func appendMessage(b []byte, v reflect.Value, depth int) ([]byte, error) {
	if depth > messageDepth {
		return nil, fmt.Errorf("pluginwire: more than %d messages one in another", messageDepth)
	}
	f := of(v.Type())
	var err error
	for _, n := range f.numbers {
		if b, err = appendField(b, n, v.Field(f.at[n]), depth); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendField appends one field, with its number.
func appendField(b []byte, n protowire.Number, v reflect.Value, depth int) (_ []byte, err error) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return b, nil
		}
		return appendValue(b, n, v.Elem(), depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		for i := range v.Len() {
			e := v.Index(i)
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			if b, err = appendValue(b, n, e, depth); err != nil {
				return nil, err
			}
		}
		return b, nil
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int {
			if a.String() < b.String() {
				return -1
			}
			return 1
		})
		for _, k := range keys {
			pair, err := appendField(nil, 1, k, depth)
			if err == nil {
				pair, err = appendField(pair, 2, v.MapIndex(k), depth)
			}
			if err != nil {
				return nil, err
			}
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), pair)
		}
		return b, nil
	}
	if v.IsZero() {
		return b, nil
	}
	return appendValue(b, n, v, depth)
}

// appendValue appends one value that is no list, with its number.
func appendValue(b []byte, n protowire.Number, v reflect.Value, depth int) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v.String()), nil
	case reflect.Slice:
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v.Bytes()), nil
	case reflect.Bool:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), protowire.EncodeBool(v.Bool())), nil
	case reflect.Int32, reflect.Int64:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v.Int())), nil
	case reflect.Uint32, reflect.Uint64:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v.Uint()), nil
	case reflect.Float64:
		return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), math.Float64bits(v.Float())), nil
	case reflect.Struct:
		in, err := appendMessage(nil, v, depth+1)
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), in), err
	}
	return nil, fmt.Errorf("pluginwire: a field of type %s", v.Type())
}

// readMessage reads the fields of a struct.
func readMessage(b []byte, v reflect.Value, depth int) error {
	if depth > messageDepth {
		return fmt.Errorf("pluginwire: more than %d messages one in another", messageDepth)
	}
	f := of(v.Type())
	for len(b) > 0 {
		n, kind, used := protowire.ConsumeTag(b)
		if used < 0 {
			return protowire.ParseError(used)
		}
		b = b[used:]
		size := protowire.ConsumeFieldValue(n, kind, b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if i, ok := f.at[n]; ok {
			if err := readField(v.Field(i), kind, b[:size], depth); err != nil {
				return fmt.Errorf("%s.%s: %w", v.Type().Name(), v.Type().Field(i).Name, err)
			}
		}
		b = b[size:]
	}
	return nil
}

// readField reads one occurrence of a field.
func readField(v reflect.Value, kind protowire.Type, b []byte, depth int) error {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		return readValue(v.Elem(), kind, b, depth)
	case t.Kind() == reflect.Map:
		return readPair(v, kind, b, depth)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		e := t.Elem()
		if packed := kind == protowire.BytesType && e.Kind() == reflect.Int32; packed {
			in, _ := protowire.ConsumeBytes(b)
			for len(in) > 0 {
				x, used := protowire.ConsumeVarint(in)
				if used < 0 {
					return protowire.ParseError(used)
				}
				v.Set(reflect.Append(v, reflect.ValueOf(int32(x)).Convert(e)))
				in = in[used:]
			}
			return nil
		}
		x := reflect.New(e).Elem()
		if err := readField(x, kind, b, depth); err != nil {
			return err
		}
		v.Set(reflect.Append(v, x))
		return nil
	}
	return readValue(v, kind, b, depth)
}

// readPair reads one pair of a map.
func readPair(v reflect.Value, kind protowire.Type, b []byte, depth int) error {
	if kind != protowire.BytesType {
		return fmt.Errorf("wire type %d of a map", kind)
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
	if value.Kind() == reflect.Pointer {
		value.Set(reflect.New(value.Type().Elem()))
	}
	in, _ := protowire.ConsumeBytes(b)
	for len(in) > 0 {
		n, kind, used := protowire.ConsumeTag(in)
		if used < 0 {
			return protowire.ParseError(used)
		}
		in = in[used:]
		size := protowire.ConsumeFieldValue(n, kind, in)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if to, ok := map[protowire.Number]reflect.Value{1: key, 2: value}[n]; ok {
			if err := readField(to, kind, in[:size], depth); err != nil {
				return err
			}
		}
		in = in[size:]
	}
	v.SetMapIndex(key, value)
	return nil
}

// readValue reads one value that is no list. b is whole: its length was checked.
func readValue(v reflect.Value, kind protowire.Type, b []byte, depth int) error {
	want := protowire.BytesType
	switch v.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		want = protowire.VarintType
	case reflect.Float64:
		want = protowire.Fixed64Type
	}
	if kind != want {
		return fmt.Errorf("wire type %d, want %d", kind, want)
	}
	switch want {
	case protowire.VarintType:
		x, _ := protowire.ConsumeVarint(b)
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(protowire.DecodeBool(x))
		case reflect.Int32:
			v.SetInt(int64(int32(x)))
		case reflect.Int64:
			v.SetInt(int64(x))
		case reflect.Uint32:
			v.SetUint(uint64(uint32(x)))
		default:
			v.SetUint(x)
		}
		return nil
	case protowire.Fixed64Type:
		x, _ := protowire.ConsumeFixed64(b)
		v.SetFloat(math.Float64frombits(x))
		return nil
	}
	in, _ := protowire.ConsumeBytes(b)
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(in))
	case reflect.Slice:
		v.SetBytes(slices.Clone(in))
	case reflect.Struct:
		return readMessage(in, v, depth+1)
	default:
		return fmt.Errorf("a field of type %s", v.Type())
	}
	return nil
}
