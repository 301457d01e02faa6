package filter

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/hashicorp/go-bexpr/grammar"
)

// selector finds a value in an object.
type selector struct {
	part  int // where it begins; -1: at a variable
	local int // the variable, by its place in env.vars
	steps []step
	typ   reflect.Type // of the value; an interface if that differs from object to object
}

// step leads from a value to one that it contains.
type step struct {
	field []int         // of a struct, through embedded ones
	key   reflect.Value // of a map
	index int           // of a list
	name  string        // of whatever the value turns out to be
	by    kind
}

// kind is how a step finds its value.
type kind uint8

const (
	byField kind = iota
	byKey
	byIndex
	byName
)

var (
	textType = reflect.TypeFor[encoding.TextMarshaler]()
	anyType  = reflect.TypeFor[any]()
)

// textual reports whether values of a type are text in JSON.
func textual(t reflect.Type) bool { return t.Kind() == reflect.String || t.Implements(textType) }

// selector compiles a path. Its first name is a variable of a loop or a field.
func (c *compiler) selector(sel grammar.Selector) (*selector, error) {
	if len(sel.Path) == 0 {
		return nil, fmt.Errorf("a field is missing")
	}
	s := &selector{part: -1}
	at, rest := reflect.Type(nil), sel.Path[1:]
	for i := len(c.vars) - 1; i >= 0 && at == nil; i-- {
		if c.vars[i].name == sel.Path[0] {
			s.local, at = i, c.vars[i].typ
		}
	}
	for i := 0; i < len(c.parts) && at == nil; i++ {
		t := deref(c.parts[i].Type)
		if f, ok := field(t, sel.Path[0]); ok && !contains(c.parts[i].Without, sel.Path[0]) {
			s.part, at = i, f.Type
			s.steps = append(s.steps, step{by: byField, field: f.Index})
		}
	}
	if at == nil {
		return nil, fmt.Errorf("unknown field %q", sel.Path[0])
	}
	for i, name := range rest {
		next, to, err := stepTo(deref(at), name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(sel.Path[:i+1], "."), err)
		}
		s.steps, at = append(s.steps, next), to
	}
	s.typ = deref(at)
	return s, nil
}

// stepTo returns the step from a value of a type to what it has by the name,
// and the type of that.
func stepTo(t reflect.Type, name string) (step, reflect.Type, error) {
	switch {
	case t.Kind() == reflect.Interface:
		return step{by: byName, name: name}, anyType, nil
	case textual(t):
		return step{}, nil, fmt.Errorf("is text and has no field %q", name)
	}
	switch t.Kind() {
	case reflect.Struct:
		if f, ok := field(t, name); ok {
			return step{by: byField, field: f.Index}, f.Type, nil
		}
		return step{}, nil, fmt.Errorf("unknown field %q", name)
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return step{by: byKey, key: reflect.ValueOf(name).Convert(t.Key())}, t.Elem(), nil
		}
	case reflect.Slice, reflect.Array:
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 {
			return step{}, nil, fmt.Errorf("is a list: %q is not an index", name)
		}
		return step{by: byIndex, index: n}, t.Elem(), nil
	}
	return step{}, nil, fmt.Errorf("has no field %q", name)
}

// field returns the field of a struct that JSON shows under a name.
func field(t reflect.Type, name string) (found reflect.StructField, ok bool) {
	if t.Kind() != reflect.Struct {
		return found, false
	}
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || shown(f) != name {
			continue
		}
		// Of several, JSON shows the one that is embedded least deeply.
		if !ok || len(f.Index) < len(found.Index) {
			found, ok = f, true
		}
	}
	return found, ok
}

// shown returns the name of a field in JSON; "" if it is left out there.
func shown(f reflect.StructField) string {
	tag, tagged := f.Tag.Lookup("json")
	name, _, _ := strings.Cut(tag, ",")
	switch {
	case name == "-" || f.Anonymous && !tagged && deref(f.Type).Kind() == reflect.Struct:
		return ""
	case name != "":
		return name
	}
	return f.Name
}

// deref returns the type that pointers lead to.
func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// contains reports whether a name is in a short list.
func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// find returns the value in an object, behind all pointers. There is none if
// something on the way is missing.
func (s *selector) find(e *env) (v reflect.Value, ok bool) {
	if s.part >= 0 {
		v = e.get(s.part)
	} else {
		v = e.vars[s.local]
	}
	if v, ok = behind(v); !ok {
		return v, false
	}
	for i := range s.steps {
		if v, ok = s.steps[i].from(v); !ok {
			return v, false
		}
		if v, ok = behind(v); !ok {
			return v, false
		}
	}
	return v, true
}

// behind follows pointers and interfaces; nothing is behind a nil.
func behind(v reflect.Value) (reflect.Value, bool) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return v, false
		}
		v = v.Elem()
	}
	return v, v.IsValid()
}

// from takes the step from a value.
func (s *step) from(v reflect.Value) (reflect.Value, bool) {
	switch s.by {
	case byField:
		for i, at := range s.field {
			if i > 0 { // an embedded struct may be behind a pointer
				var ok bool
				if v, ok = behind(v); !ok {
					return v, false
				}
			}
			v = v.Field(at)
		}
		return v, true
	case byKey:
		v = v.MapIndex(s.key)
		return v, v.IsValid()
	case byIndex:
		if s.index >= v.Len() {
			return v, false
		}
		return v.Index(s.index), true
	}
	next, _, err := stepTo(v.Type(), s.name)
	if err != nil {
		return v, false
	}
	return next.from(v)
}
