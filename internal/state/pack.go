package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"berth"

	"github.com/vmihailenco/msgpack/v5"
)

// The log and snapshots hold what there is much of field by field, in as few
// bytes as it takes, and everything else as msgpack maps by field name without
// the fields that are zero: those can gain fields without a new version.

// writer appends to a log entry or snapshot record.
type writer struct{ buf []byte }

func (w *writer) uint(v uint64)  { w.buf = binary.AppendUvarint(w.buf, v) }
func (w *writer) int(v int64)    { w.buf = binary.AppendVarint(w.buf, v) }
func (w *writer) byte(v byte)    { w.buf = append(w.buf, v) }
func (w *writer) id(v [16]byte)  { w.buf = append(w.buf, v[:]...) }
func (w *writer) bytes(v []byte) { w.uint(uint64(len(v))); w.buf = append(w.buf, v...) }
func (w *writer) text(v string)  { w.uint(uint64(len(v))); w.buf = append(w.buf, v...) }
func (w *writer) optional(id [16]byte) {
	if id == [16]byte{} {
		w.byte(0)
		return
	}
	w.byte(1)
	w.id(id)
}

func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

// value writes v as msgpack.
func (w *writer) value(v any) { w.bytes(encode(v)) }

// encode returns v as msgpack. Types of the state always can be encoded.
func encode(v any) []byte {
	var b bytes.Buffer
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(&b)
	e.SetOmitEmpty(true)
	e.SetSortMapKeys(true)
	e.UseCompactInts(true)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("state: cannot encode a %T: %v", v, err))
	}
	return b.Bytes()
}

// decode reads what encode returned into what dst points to.
func decode(b []byte, dst any) error {
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

// reader reads what a writer wrote. After a fault err is set and it reads
// zeros; whoever uses it looks at err once, at the end. It never reads past
// its bytes and makes no list longer than they could fill.
type reader struct {
	buf []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("damaged: %s", what)
		r.buf = nil
	}
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// small reads a number below limit.
func (r *reader) small(limit uint64, what string) uint64 {
	v := r.uint()
	if v >= limit {
		r.fail(what)
		return 0
	}
	return v
}

// length reads the length of a list whose items take at least each bytes.
func (r *reader) length(each int) int {
	n := r.uint()
	if n > uint64(len(r.buf)/each) {
		r.fail("length")
		return 0
	}
	return int(n)
}

func (r *reader) take(n int) []byte {
	if n > len(r.buf) {
		r.fail("end")
		return make([]byte, min(n, 16))
	}
	b := r.buf[:n]
	r.buf = r.buf[n:]
	return b
}

func (r *reader) byte() byte   { return r.take(1)[0] }
func (r *reader) bool() bool   { return r.byte() != 0 }
func (r *reader) id() [16]byte { return [16]byte(r.take(16)) }
func (r *reader) text() string { return string(r.take(r.length(1))) }
func (r *reader) optional() [16]byte {
	if r.byte() == 0 {
		return [16]byte{}
	}
	return r.id()
}

// value reads msgpack into what dst points to.
func (r *reader) value(dst any) {
	b := r.take(r.length(1))
	if r.err == nil {
		if err := decode(b, dst); err != nil {
			r.fail(err.Error())
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

func init() {
	seen := map[reflect.Type]bool{ // these the library sorts
		reflect.TypeFor[map[string]string](): true, reflect.TypeFor[map[string]bool](): true, reflect.TypeFor[map[string]any](): true,
	}
	for t := range numbers {
		sortMaps(t, seen)
	}
	for _, row := range []any{berth.Namespace{}, berth.Node{}, berth.Job{}, berth.Eval{}, berth.AllocMore{}, berth.Deployment{},
		Summary{}, Submission{}, Reschedules{}, Explanation{}, endRest{}, updateRest{}} {
		sortMaps(reflect.TypeOf(row), seen)
	}
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
