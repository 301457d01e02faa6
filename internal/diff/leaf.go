package diff

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// flat adds the values of a map, however deep they stand: Env[PORT], or within
// the object of a free map args[0] and port_map[0][db].
func (b *block) flat(name string, old, new reflect.Value) {
	o, n := map[string]reflect.Value{}, map[string]reflect.Value{}
	flatten(o, name, old)
	flatten(n, name, new)
	all := maps.Clone(o)
	maps.Copy(all, n)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		x, y := leaf(o[path]), leaf(n[path])
		if x != nil && y != nil && *x == *y && !sameLeaf(o[path], n[path]) {
			// The text "1" and the number 1 read alike.
			s, r := typed(o[path]), typed(n[path])
			x, y = &s, &r
		}
		b.field(path, x, y, true)
	}
}

// flatten puts the leaves of a value into out, by path. What holds nothing
// has none.
func flatten(out map[string]reflect.Value, path string, v reflect.Value) {
	v = there(v)
	if !v.IsValid() {
		return
	}
	switch v.Kind() {
	case reflect.Map:
		for _, k := range v.MapKeys() {
			next := path + "[" + k.String() + "]"
			if path == "" {
				next = k.String()
			}
			flatten(out, next, v.MapIndex(k))
		}
	case reflect.Slice:
		for i := range v.Len() {
			flatten(out, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	default:
		out[path] = v
	}
}

// sameLeaf reports whether two leaves are equal. Numbers of different types
// compare by value.
func sameLeaf(a, b reflect.Value) bool {
	return a.Type() == b.Type() && a.Equal(b) || a.Type() != b.Type() && sameNumber(a, b)
}

// typed returns a leaf as text, with strings in quotes.
func typed(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return strconv.Quote(v.String())
	}
	return *leaf(v)
}

// marshaler is implemented by types that show as their own text.
var marshaler = reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()

// leaf is a value as text, nil if there is none.
func leaf(v reflect.Value) *string {
	v = there(v)
	if !v.IsValid() {
		return nil
	}
	s := ""
	switch {
	case v.Type() == timeType:
		s = v.Interface().(time.Time).Format(time.RFC3339Nano)
	case v.Type().Implements(marshaler):
		s = fmt.Sprint(v)
	case v.CanInt():
		s = strconv.FormatInt(v.Int(), 10)
	case v.CanFloat():
		s = strconv.FormatFloat(v.Float(), 'f', -1, 64)
	default:
		s = fmt.Sprint(v)
	}
	return &s
}
