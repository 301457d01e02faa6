package decode

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"berth"
)

// isBlock reports whether values of the type are blocks with fields of their own.
func isBlock(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

// pointer fills what dst points to, and allocates it if dst is nil. The old value
// may be shared with a parent, so it is copied first.
func (d *Decoder) pointer(dst reflect.Value, src any, path string) {
	t := dst.Type().Elem()
	fresh := reflect.New(t)
	switch {
	case !dst.IsNil():
		fresh.Elem().Set(dst.Elem())
	case isBlock(t):
		d.setDefaults(fresh.Elem())
	}
	d.value(fresh.Elem(), src, path)
	dst.Set(fresh)
}

// setDefaults sets v to the default of its type, if there is one, before a
// file's fields are read over it.
func (d *Decoder) setDefaults(v reflect.Value) {
	if def, ok := d.Defaults[v.Type()]; ok {
		v.Set(reflect.ValueOf(def))
	}
}

// list replaces the value of dst. An empty list becomes nil, so that values
// compare equal however they were written.
func (d *Decoder) list(dst reflect.Value, src any, path string) {
	t := dst.Type()
	// Bytes travel as base64, as in encoding/json.
	if t.Elem().Kind() == reflect.Uint8 {
		s, ok := src.(string)
		if !ok {
			d.mismatch(path, "base64 text", src)
			return
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			d.Problems.Addf(path, "must be base64: %v", err)
			return
		}
		dst.SetBytes(b)
		return
	}
	items, ok := src.([]any)
	if !ok {
		d.mismatch(path, "a list", src)
		return
	}
	if len(items) == 0 {
		dst.SetZero()
		return
	}
	out := reflect.MakeSlice(t, 0, len(items))
	for i, item := range items {
		if d.stop() {
			return
		}
		v := reflect.New(t.Elem()).Elem()
		at := fmt.Sprintf("%s[%s]", path, itemName(item, i))
		if item == nil {
			d.Problems.Addf(at, "must not be null")
			continue
		}
		if isBlock(v.Type()) {
			d.setDefaults(v)
		}
		d.value(v, item, at)
		out = reflect.Append(out, v)
	}
	dst.Set(out)
}

// itemName returns the name of a list item, or its position if it has none.
func itemName(item any, i int) string {
	if tree, ok := item.(Tree); ok {
		for _, key := range []string{"Name", "Label"} {
			if s, ok := tree[key].(string); ok && s != "" {
				return berth.Clip(s, 64)
			}
		}
	}
	return strconv.Itoa(i)
}

// mapping replaces the value of dst. An empty map becomes nil.
func (d *Decoder) mapping(dst reflect.Value, src any, path string) {
	tree, ok := src.(Tree)
	if !ok {
		d.mismatch(path, "an object", src)
		return
	}
	if len(tree) == 0 {
		dst.SetZero()
		return
	}
	t := dst.Type()
	out := reflect.MakeMapWithSize(t, len(tree))
	for _, k := range slices.Sorted(maps.Keys(tree)) {
		if d.stop() {
			return
		}
		v := reflect.New(t.Elem()).Elem()
		at := fmt.Sprintf("%s[%s]", path, berth.Clip(k, 64))
		if isBlock(v.Type()) {
			d.setDefaults(v)
		}
		if tree[k] == nil && t.Elem().Kind() != reflect.Interface {
			d.Problems.Addf(at, "must not be null")
			continue
		}
		if tree[k] != nil {
			d.value(v, tree[k], at)
		}
		out.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), v)
	}
	dst.Set(out)
}

// plain turns a tree into the values that an any-typed field holds: strings,
// bools, int64, float64, []any and map[string]any.
func plain(src any) any {
	switch v := src.(type) {
	case Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		f, _ := strconv.ParseFloat(string(v), 64)
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f) // 1e3 and 1000 are equal values
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case Tree:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = plain(x)
		}
		return out
	}
	return src
}
