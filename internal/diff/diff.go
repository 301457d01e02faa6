// Package diff says what changed between two values, by one walk over their
// fields: for people who read a plan, and for the scheduler that must know
// whether a task has to be replaced.
package diff

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// Change is one leaf that differs. Old or New is nil where there was, or is,
// nothing.
type Change struct {
	Path     Path
	Old, New any
}

// Path leads to a field: names of fields, and behind a list or map the name or
// place of the item.
type Path []string

// String returns the path as people read it: Tasks[app].Env[PORT].
func (p Path) String() string {
	s := ""
	for _, part := range p {
		if part[0] != '[' && s != "" {
			s += "."
		}
		s += part
	}
	return s
}

// Between returns what differs between two values of one type, in order of
// field. Lists whose items have a Name or Label are compared by it, so their
// order does not matter; other lists are compared item by item. A nil list or
// map is the same as an empty one, nil and a pointer to a zero value are not.
// In a value of any type a number counts, not the type that holds it.
func Between(old, new any) []Change {
	w := walker{}
	w.value(nil, reflect.ValueOf(old), reflect.ValueOf(new))
	return w.changes
}

// Equal reports whether nothing differs.
func Equal(old, new any) bool {
	w := walker{first: true}
	w.value(nil, reflect.ValueOf(old), reflect.ValueOf(new))
	return len(w.changes) == 0
}

// walker goes through two values in parallel and collects the differences.
type walker struct {
	changes []Change // in the order of the paths
	first   bool     // one change is enough
}

// done reports whether the walk can stop: the caller asks only for the first
// change.
func (w *walker) done() bool { return w.first && len(w.changes) > 0 }

// note records a change. The path is copied, as the walker reuses it. An
// invalid value means that side has no value.
func (w *walker) note(p Path, old, new reflect.Value) {
	c := Change{Path: slices.Clone(p)}
	if old.IsValid() {
		c.Old = old.Interface()
	}
	if new.IsValid() {
		c.New = new.Interface()
	}
	w.changes = append(w.changes, c)
}

// value compares; an invalid value stands for nothing.
func (w *walker) value(p Path, old, new reflect.Value) {
	if w.done() {
		return
	}
	if !old.IsValid() || !new.IsValid() {
		if old.IsValid() != new.IsValid() {
			w.one(p, old, new)
		}
		return
	}
	switch old.Kind() {
	case reflect.Pointer, reflect.Interface:
		// Versions of a job share what did not change, so equal
		// pointers save the walk.
		if old.Kind() == reflect.Pointer && old.Pointer() == new.Pointer() {
			return
		}
		if old.IsNil() || new.IsNil() {
			w.value(p, elem(old), elem(new))
			return
		}
		// Free values from JSON and HCL may hold equal numbers of
		// different types.
		if old.Kind() == reflect.Interface && old.Elem().Type() != new.Elem().Type() {
			if !sameNumber(old.Elem(), new.Elem()) {
				w.note(p, old, new)
			}
			return
		}
		w.value(p, old.Elem(), new.Elem())
	case reflect.Struct:
		// Times are equal if they are the same moment, in any zone.
		if old.Type() == timeType {
			if !old.Interface().(time.Time).Equal(new.Interface().(time.Time)) {
				w.note(p, old, new)
			}
			return
		}
		for i := range old.NumField() {
			if f := old.Type().Field(i); f.IsExported() {
				w.value(append(p, f.Name), old.Field(i), new.Field(i))
			}
		}
	case reflect.Map:
		w.mapping(p, old, new)
	case reflect.Slice:
		w.list(p, old, new)
	default:
		if !old.Equal(new) {
			w.note(p, old, new)
		}
	}
}

// timeType is compared by moment, not by its fields.
var timeType = reflect.TypeFor[time.Time]()

// sameNumber reports whether two values of any type are numbers and equal: a
// codec keeps a number in the type that is shortest, which need not be the one
// it was written in.
func sameNumber(a, b reflect.Value) bool {
	if a.CanFloat() {
		a, b = b, a
	}
	switch {
	case a.CanInt() && b.CanInt():
		return a.Int() == b.Int()
	case a.CanUint() && b.CanUint():
		return a.Uint() == b.Uint()
	case a.CanInt() && b.CanUint():
		return a.Int() >= 0 && uint64(a.Int()) == b.Uint()
	case a.CanUint() && b.CanInt():
		return b.Int() >= 0 && uint64(b.Int()) == a.Uint()
	case a.CanFloat() && b.CanFloat():
		return a.Float() == b.Float()
	case !b.CanFloat() || b.Float() != math.Trunc(b.Float()):
		return false
	case a.CanInt():
		return math.Abs(b.Float()) < 1<<63 && a.Int() == int64(b.Float())
	case a.CanUint():
		return b.Float() >= 0 && b.Float() < 1<<64 && a.Uint() == uint64(b.Float())
	}
	return false
}

// one notes a value that is there on one side only, leaf by leaf, so that a
// path always leads to a leaf.
func (w *walker) one(p Path, old, new reflect.Value) {
	v, side := old, func(x reflect.Value) (reflect.Value, reflect.Value) { return x, reflect.Value{} }
	if new.IsValid() {
		v, side = new, func(x reflect.Value) (reflect.Value, reflect.Value) { return reflect.Value{}, x }
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			a, b := side(v.Elem())
			w.value(p, a, b)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			w.note(p, old, new)
			return
		}
		before := len(w.changes)
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
				a, b := side(v.Field(i))
				w.value(append(p, f.Name), a, b)
			}
		}
		if len(w.changes) == before { // a block that says nothing is there all the same
			w.note(p, old, new)
		}
	case reflect.Map, reflect.Slice:
		if v.Len() == 0 {
			return
		}
		empty := reflect.Zero(v.Type())
		if new.IsValid() {
			w.value(p, empty, new)
		} else {
			w.value(p, old, empty)
		}
	default:
		w.note(p, old, new)
	}
}

// elem returns what v points to; the zero Value if v is nil.
func elem(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Value{}
	}
	return v.Elem()
}

// mapping compares two maps key by key, in the order of the keys as text.
func (w *walker) mapping(p Path, old, new reflect.Value) {
	keys := map[string]reflect.Value{}
	for _, m := range []reflect.Value{old, new} {
		for _, k := range m.MapKeys() {
			keys[fmt.Sprint(k)] = k
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		w.value(append(p, "["+name+"]"), old.MapIndex(keys[name]), new.MapIndex(keys[name]))
	}
}

// list compares two lists: by name if the elements have unique names, so that a
// move is no change, else by position.
func (w *walker) list(p Path, old, new reflect.Value) {
	if before, ok := named(old); ok {
		if after, ok := named(new); ok {
			names := maps.Clone(before)
			maps.Copy(names, after)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				w.value(append(p, "["+name+"]"), before[name], after[name])
			}
			return
		}
	}
	for i := range max(old.Len(), new.Len()) {
		w.value(append(p, fmt.Sprintf("[%d]", i)), at(old, i), at(new, i))
	}
}

// at returns element i; the zero Value beyond the end.
func at(v reflect.Value, i int) reflect.Value {
	if i < v.Len() {
		return v.Index(i)
	}
	return reflect.Value{}
}

// named returns a list's items by name, if they have names and no two the
// same.
func named(v reflect.Value) (map[string]reflect.Value, bool) {
	out := make(map[string]reflect.Value, v.Len())
	for i := range v.Len() {
		item := reflect.Indirect(v.Index(i))
		if item.Kind() != reflect.Struct {
			return nil, false
		}
		f := item.FieldByName("Name")
		if !f.IsValid() {
			f = item.FieldByName("Label")
		}
		if !f.IsValid() || f.Kind() != reflect.String {
			return nil, false
		}
		if _, twice := out[f.String()]; twice {
			return nil, false
		}
		out[f.String()] = v.Index(i)
	}
	return out, true
}
