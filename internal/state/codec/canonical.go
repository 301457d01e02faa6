package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Canonical returns bytes that are equal for two values if and only if the
// values mean the same: a nil list or map means the same as an empty one.
func Canonical(v any) []byte {
	h := hasher{seen: map[uintptr]bool{}}
	h.value(reflect.ValueOf(v))
	return h.buf
}

// hasher appends the canonical form of a value to buf.
type hasher struct {
	buf  []byte
	seen map[uintptr]bool // pointers from the root to here
}

// storedFields are the fields of each struct that are stored, as numbers.
var storedFields sync.Map

// stored returns which fields of a struct are stored. The others follow from
// them.
func stored(t reflect.Type) []int {
	if list, ok := storedFields.Load(t); ok {
		return list.([]int)
	}
	var list []int
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("msgpack") != "-" {
			list = append(list, i)
		}
	}
	storedFields.Store(t, list)
	return list
}

// word appends a number as a varint.
func (h *hasher) word(x uint64) { h.buf = binary.AppendUvarint(h.buf, x) }

// text appends a string after its length.
func (h *hasher) text(s string) {
	h.word(uint64(len(s)))
	h.buf = append(h.buf, s...)
}

// value appends any value that a row may hold. It panics for kinds that rows do
// not hold, such as functions.
func (h *hasher) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid:
		h.word(0)
	case reflect.Pointer:
		h.pointer(v)
	case reflect.Interface:
		if v.IsNil() {
			h.word(0)
			return
		}
		if n, ok := wholeNumber(v.Elem()); ok { // whichever integer type a codec chose
			h.text("number")
			h.word(uint64(n))
			return
		}
		h.text(v.Elem().Type().String())
		h.value(v.Elem())
	case reflect.Struct:
		if t, ok := asTime(v); ok {
			h.word(uint64(t.UnixNano()))
			return
		}
		for _, i := range stored(v.Type()) {
			h.value(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		h.word(uint64(v.Len()))
		for i := range v.Len() {
			h.value(v.Index(i))
		}
	case reflect.Map:
		// In the order of keys: Go's order differs from run to run.
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		h.word(uint64(len(keys)))
		for _, k := range keys {
			h.value(k)
			h.value(v.MapIndex(k))
		}
	case reflect.String:
		h.text(v.String())
	case reflect.Bool:
		h.word(map[bool]uint64{false: 1, true: 2}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		h.word(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		h.word(v.Uint())
	case reflect.Float32, reflect.Float64:
		h.word(math.Float64bits(v.Float()))
	default:
		panic("codec: no hash of a " + v.Type().String())
	}
}

// wholeNumber returns the bits of an integer of any type. ok is false for other
// values.
func wholeNumber(v reflect.Value) (int64, bool) {
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), true
	}
	return 0, false
}

// asTime returns v as a time. Equal times hash equally, whatever their zone.
func asTime(v reflect.Value) (time.Time, bool) {
	if v.Type() != reflect.TypeFor[time.Time]() || !v.CanInterface() {
		return time.Time{}, false
	}
	return v.Interface().(time.Time), true
}

// pointer appends what v points to, or a mark for nil or for a pointer that
// leads back to itself.
func (h *hasher) pointer(v reflect.Value) {
	if v.IsNil() {
		h.word(0)
		return
	}
	if h.seen[v.Pointer()] {
		h.word(2)
		return
	}
	h.seen[v.Pointer()] = true
	h.word(1)
	h.value(v.Elem())
	delete(h.seen, v.Pointer())
}
