package csi

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"berth"
)

// The messages of the protocol are structs whose fields have their numbers in
// the tag pb. Texts, booleans, integers, lists of texts and messages, messages and
// maps of texts are all that it needs. The generated code would link all of
// grpc-go into the program, whose size is bounded. Tests speak to plugins that
// are made with it.

// encode appends a message, a pointer to a struct.
func encode(b []byte, v any) []byte { return encodeStruct(b, reflect.ValueOf(v).Elem()) }

func encodeStruct(b []byte, v reflect.Value) []byte {
	for i := range v.NumField() {
		n, err := strconv.Atoi(v.Type().Field(i).Tag.Get("pb"))
		if err != nil {
			panic("csi: " + v.Type().String() + " has a field without a number")
		}
		b = encodeField(b, protowire.Number(n), v.Field(i))
	}
	return b
}

// encodeField appends a field. Zero values are left out, as proto3 has it.
func encodeField(b []byte, n protowire.Number, f reflect.Value) []byte {
	message := func(m reflect.Value) {
		b = protowire.AppendTag(b, n, protowire.BytesType)
		b = protowire.AppendBytes(b, encodeStruct(nil, m))
	}
	switch f.Kind() {
	case reflect.String:
		if s := f.String(); s != "" {
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
		}
	case reflect.Bool:
		if f.Bool() {
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), 1)
		}
	case reflect.Int64, reflect.Int32:
		if x := f.Int(); x != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(x))
		}
	case reflect.Pointer:
		if !f.IsNil() {
			message(f.Elem())
		}
	case reflect.Slice:
		for i := range f.Len() {
			if x := f.Index(i); x.Kind() == reflect.String {
				b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), x.String())
			} else {
				message(x)
			}
		}
	case reflect.Map:
		keys := make([]string, 0, f.Len())
		for _, k := range f.MapKeys() {
			keys = append(keys, k.String())
		}
		slices.Sort(keys)
		for _, k := range keys {
			message(reflect.ValueOf(pair{k, f.MapIndex(reflect.ValueOf(k)).String()}))
		}
	default:
		panic("csi: no encoding for " + f.Type().String())
	}
	return b
}

// pair is an entry of a map.
type pair struct {
	Key   string `pb:"1"`
	Value string `pb:"2"`
}

// decode reads a message into a pointer to a struct. Fields that it does not know
// are skipped.
func decode(b []byte, v any) error { return decodeStruct(b, reflect.ValueOf(v).Elem()) }

func decodeStruct(b []byte, v reflect.Value) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return damaged(protowire.ParseError(size))
		}
		b = b[size:]
		size = protowire.ConsumeFieldValue(n, typ, b)
		if size < 0 {
			return damaged(protowire.ParseError(size))
		}
		if f := numbered(v, n); f.IsValid() {
			if err := decodeField(b[:size], typ, f); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

// numbered returns the field of a struct with a number; none: the zero Value.
func numbered(v reflect.Value, n protowire.Number) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("pb") == strconv.Itoa(int(n)) {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

func decodeField(b []byte, typ protowire.Type, f reflect.Value) error {
	switch {
	case typ == protowire.VarintType:
		x, _ := protowire.ConsumeVarint(b)
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(x != 0)
			return nil
		case reflect.Int64, reflect.Int32:
			f.SetInt(int64(x))
			return nil
		}
	case typ == protowire.BytesType:
		text, _ := protowire.ConsumeBytes(b)
		switch f.Kind() {
		case reflect.String:
			f.SetString(string(text))
			return nil
		case reflect.Pointer:
			if f.IsNil() {
				f.Set(reflect.New(f.Type().Elem()))
			}
			return decodeStruct(text, f.Elem())
		case reflect.Slice:
			x := reflect.New(f.Type().Elem()).Elem()
			if x.Kind() == reflect.String {
				x.SetString(string(text))
			} else if err := decodeStruct(text, x); err != nil {
				return err
			}
			f.Set(reflect.Append(f, x))
			return nil
		case reflect.Map:
			var p pair
			if err := decode(text, &p); err != nil {
				return err
			}
			if f.IsNil() {
				f.Set(reflect.MakeMap(f.Type()))
			}
			f.SetMapIndex(reflect.ValueOf(p.Key), reflect.ValueOf(p.Value))
			return nil
		}
	}
	return damaged(fmt.Errorf("a %s has wire type %d", f.Type(), typ))
}

// damaged is the error for an answer that is no message of the protocol.
func damaged(err error) error {
	return berth.Errorf(berth.Unavailable, "the CSI plugin answers with a damaged message: %w", err)
}
