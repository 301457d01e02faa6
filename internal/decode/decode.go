// Package decode turns text and trees into values. [ParseJSON] reads a JSON
// object into a [Tree]; a [Decoder] fills Go values from trees and collects all
// problems with their paths, so that a user can fix them in one go. It knows
// nothing about jobs: package admit has their defaults and rules.
package decode

import (
	"context"
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
)

// Tree is a parsed object. Its values are nil, bool, string, Number, []any and
// Tree. Parsers turn job files and request bodies into trees, and a [Decoder]
// turns trees into values.
type Tree = map[string]any

// RawTree is the type of a field whose object is kept undecoded, for later.
type RawTree Tree

// Number is a number as it was written.
type Number string

// Decoder fills values from trees. The zero Decoder converts no types and has no
// defaults.
type Decoder struct {
	Loose    bool                 // convert between strings, numbers and bools, as HCL does
	Defaults map[reflect.Type]any // initial values of blocks, by type
	Ignored  map[string]bool      // lower-case names that are not fields but are accepted and dropped
	Problems berth.Problems       // all problems found so far
	// Context ends the decoding early; nil: nothing does. The caller looks at it
	// afterwards: what was decoded by then is not complete.
	Context context.Context

	steps   int
	stopped bool
}

// stop reports whether decoding must end now. Loops call it for each element.
func (d *Decoder) stop() bool {
	if d.Context == nil || d.stopped {
		return d.stopped
	}
	if d.steps++; d.steps%checkEvery == 0 {
		d.stopped = d.Context.Err() != nil
	}
	return d.stopped
}

// Fill decodes src into the struct that dst points to and adds what is wrong to
// d.Problems. Fields that are absent or null keep their value, which is how
// defaults and inherited values get in; an explicit zero is set. Field names
// match without regard to case. path names dst in problems, in the words of a
// job file. Fields named in skip are left alone.
//
// An unknown field is a problem unless its value is empty: newer clients send
// null, false, 0, "" and empty objects and lists for fields that we do not have.
func (d *Decoder) Fill(dst any, src Tree, path string, skip ...string) {
	d.object(reflect.ValueOf(dst).Elem(), src, path, skip...)
}

// object reads the fields of src into the struct dst. Names match in any case.
// skip names fields that the caller reads itself. An unknown field with a value
// is a problem; null and empty ones are ignored.
func (d *Decoder) object(dst reflect.Value, src Tree, path string, skip ...string) {
	known := fields(dst.Type())
	spelt := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(src)) {
		if d.stop() {
			return
		}
		v := src[name]
		lower := strings.ToLower(name)
		if other, twice := spelt[lower]; twice && known[lower].index != nil {
			d.Problems.Addf(Join(path, known[lower].file), "is given twice, as %q and %q", other, name)
			continue
		}
		spelt[lower] = name
		if v == nil || slices.ContainsFunc(skip, func(s string) bool { return strings.EqualFold(s, name) }) {
			continue
		}
		f, ok := known[lower]
		switch {
		case ok && f.inline:
			d.value(dst.FieldByIndex(f.index), v, path)
		case ok:
			d.value(dst.FieldByIndex(f.index), v, Join(path, f.file))
		case !isEmpty(v) && !d.Ignored[lower]:
			d.Problems.Addf(Join(path, name), "unknown field%s", meant(dst.Type(), known, lower))
		}
	}
}

// isEmpty reports whether a value is null, zero or empty, at any depth.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return err == nil && f == 0
	case []any:
		return len(v) == 0
	case Tree:
		for _, x := range v {
			if !isEmpty(x) {
				return false
			}
		}
		return true
	}
	return false
}

// value reads src into dst as the type of dst demands. null leaves dst as it
// is. After a problem dst may be partly set.
func (d *Decoder) value(dst reflect.Value, src any, path string) {
	if src == nil {
		return
	}
	// Types with a rule of their own come before the kinds, which they also
	// have.
	t := dst.Type()
	switch {
	case t == reflect.TypeFor[RawTree]():
		if tree, ok := src.(Tree); ok {
			dst.Set(reflect.ValueOf(RawTree(tree)))
		} else {
			d.mismatch(path, "an object", src)
		}
		return
	case t == reflect.TypeFor[time.Duration]():
		d.duration(dst, src, path)
		return
	case t.Kind() == reflect.Pointer:
		d.pointer(dst, src, path)
		return
	case dst.CanAddr() && dst.Addr().Type().Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		s, ok := d.text(src, path)
		if ok {
			if err := dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
				d.Problems.Addf(path, "%v", err)
			}
		}
		return
	}
	switch t.Kind() {
	case reflect.String:
		if s, ok := d.text(src, path); ok {
			dst.SetString(s)
		}
	case reflect.Bool:
		d.boolean(dst, src, path)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, ok := d.integer(src, path); ok {
			if dst.OverflowInt(n) {
				high := int64(math.MaxInt64) >> (64 - t.Bits())
				d.Problems.Addf(path, "must be %d to %d, got %d", -high-1, high, n)
				return
			}
			dst.SetInt(n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.unsigned(dst, src, path)
	case reflect.Float64:
		if n, ok := src.(Number); ok {
			f, _ := strconv.ParseFloat(string(n), 64)
			dst.SetFloat(f)
			return
		}
		d.mismatch(path, "a number", src)
	case reflect.Slice:
		d.list(dst, src, path)
	case reflect.Map:
		d.mapping(dst, src, path)
	case reflect.Struct:
		if tree, ok := src.(Tree); ok {
			d.object(dst, tree, path)
			return
		}
		d.mismatch(path, "an object", src)
	case reflect.Interface:
		dst.Set(reflect.ValueOf(plain(src)))
	default:
		panic("decode: no rule for " + t.String())
	}
}

// Objects calls each with every object of a list and its path. Anything but a
// list of objects is a problem.
func (d *Decoder) Objects(src any, path string, each func(Tree, string)) {
	if src == nil {
		return
	}
	items, ok := src.([]any)
	if !ok {
		d.mismatch(path, "a list", src)
		return
	}
	for i, item := range items {
		if d.stop() {
			return
		}
		at := fmt.Sprintf("%s[%s]", path, itemName(item, i))
		tree, ok := item.(Tree)
		if !ok {
			d.mismatch(at, "an object", item)
			continue
		}
		each(tree, at)
	}
}

// Lookup returns the value of a field, or nil if the tree does not have it. Names
// match without regard to case.
func Lookup(tree Tree, name string) any {
	if v, ok := tree[name]; ok {
		return v
	}
	for k, v := range tree {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return nil
}

// Join appends a name to a path. A long name is clipped.
func Join(path, name string) string {
	name = berth.Clip(name, 64)
	if path == "" {
		return name
	}
	return path + "." + name
}
