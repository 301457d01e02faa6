package codec

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"berth"

	"github.com/vmihailenco/msgpack/v5"
)

// Value writes v as msgpack.
func (w *Writer) Value(v any) { w.Bytes(Marshal(v)) }

// Marshal returns v as msgpack: maps by field name, without the fields that are
// zero. Equal values give equal bytes. It panics if v has a type that cannot be
// encoded, which no type of the state has.
func Marshal(v any) []byte {
	var b bytes.Buffer
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(&b)
	e.SetOmitEmpty(true)
	e.SetSortMapKeys(true)
	e.UseCompactInts(true)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("codec: cannot encode a %T: %v", v, err))
	}
	return b.Bytes()
}

// Unmarshal reads what Marshal returned into what dst points to.
func Unmarshal(b []byte, dst any) error {
	if err := sound(b); err != nil {
		return fmt.Errorf("%T: %w", dst, err)
	}
	d := msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(bytes.NewReader(b))
	d.UseLooseInterfaceDecoding(true) // in any-typed fields: int64, float64, string, []any, map[string]any
	if err := d.Decode(dst); err != nil {
		return fmt.Errorf("%T: %w", dst, err)
	}
	return nil
}

// Value reads msgpack into what dst points to.
func (r *Reader) Value(dst any) {
	b := r.Take(r.Length(1))
	if r.err == nil {
		if err := Unmarshal(b, dst); err != nil {
			r.Damaged(err.Error())
		}
	}
}

// sortMaps makes maps of a type, and of all that it holds, go into msgpack in
// order of their keys, so that equal values are equal bytes. The library does
// so only for some.
func sortMaps(t reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		sortMaps(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			sortMaps(f.Type, seen)
		}
	case reflect.Map:
		msgpack.Register(reflect.Zero(t).Interface(), encodeSorted, nil)
		sortMaps(t.Elem(), seen)
	}
}

func encodeSorted(e *msgpack.Encoder, m reflect.Value) error {
	if m.IsNil() {
		return e.EncodeNil()
	}
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	if err := e.EncodeMapLen(len(keys)); err != nil {
		return err
	}
	for _, k := range keys {
		if err := e.EncodeString(k.String()); err != nil {
			return err
		}
		if err := e.EncodeValue(m.MapIndex(k)); err != nil {
			return err
		}
	}
	return nil
}

// Register prepares the types that are written as msgpack, and all that they
// hold. It is called when the program starts.
func Register(types ...reflect.Type) {
	for _, t := range types {
		sortMaps(t, sorted)
	}
}

// sorted are the types that Register has seen; maps among them that the library
// sorts itself are there from the start.
var sorted = map[reflect.Type]bool{
	reflect.TypeFor[map[string]string](): true, reflect.TypeFor[map[string]bool](): true, reflect.TypeFor[map[string]any](): true,
}

// init registers how IDs are written.
func init() {
	raw := func(e *msgpack.Encoder, v reflect.Value) error {
		b := make([]byte, 16)
		reflect.Copy(reflect.ValueOf(b), v)
		if bytes.Equal(b, make([]byte, 16)) {
			return e.EncodeNil()
		}
		return e.EncodeBytes(b)
	}
	unraw := func(d *msgpack.Decoder, v reflect.Value) error {
		b, err := d.DecodeBytes()
		if err == nil && b != nil && len(b) != 16 {
			err = fmt.Errorf("an ID of %d bytes", len(b))
		}
		if err == nil {
			v.SetZero()
			reflect.Copy(v, reflect.ValueOf(b))
		}
		return err
	}
	for _, id := range []any{berth.NodeID{}, berth.EvalID{}, berth.AllocID{}, berth.DeploymentID{}} {
		msgpack.Register(id, raw, unraw)
	}
	msgpack.Register(berth.UID{},
		func(e *msgpack.Encoder, v reflect.Value) error {
			u := v.Interface().(berth.UID)
			if err := e.EncodeArrayLen(2); err != nil {
				return err
			}
			return e.EncodeMulti(u.Index, u.Ordinal)
		},
		func(d *msgpack.Decoder, v reflect.Value) error {
			u := v.Addr().Interface().(*berth.UID)
			n, err := d.DecodeArrayLen()
			if err == nil && n != 2 {
				err = fmt.Errorf("a UID of %d numbers", n)
			}
			if err != nil {
				return err
			}
			return d.DecodeMulti(&u.Index, &u.Ordinal)
		})
}
