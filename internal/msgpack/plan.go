package msgpack

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A planner plans once for each type how its values are encoded or decoded. A
// plan is used through a pointer, since a type may contain itself: its parts
// then point to a plan that is not complete yet.
type planner[P any] struct {
	build func(reflect.Type) P // calls part for the plans of parts
	done  sync.Map             // reflect.Type to *P

	mu     sync.Mutex
	making map[reflect.Type]*P
}

// of returns the plan of t.
func (p *planner[P]) of(t reflect.Type) *P {
	if plan, ok := p.done.Load(t); ok {
		return plan.(*P)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.making = map[reflect.Type]*P{}
	plan := p.part(t)
	for t, plan := range p.making { // only now is each of them complete
		p.done.Store(t, plan)
	}
	return plan
}

// part is like of, for use in build.
func (p *planner[P]) part(t reflect.Type) *P {
	if plan, ok := p.done.Load(t); ok {
		return plan.(*P)
	}
	plan := p.making[t]
	if plan == nil {
		plan = new(P)
		p.making[t] = plan
		*plan = p.build(t)
	}
	return plan
}

// fieldsOf returns the fields of a struct that are encoded: its own, and those
// of embedded structs. An outer field hides an inner one of the same name, as
// in Go.
//
// In the protocol they are ordered by name and tags are ignored: what JSON
// hides, such as a node's secret, is sent. In storage they are in the order of
// declaration, and the tag `msgpack:"-"` hides one.
func (c *Codec) fieldsOf(t reflect.Type) (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || c.isFlattened(f) || c.storage && f.Tag.Get("msgpack") == "-" {
			continue
		}
		if seen, ok := t.FieldByName(f.Name); ok && slices.Equal(seen.Index, f.Index) {
			all = append(all, f)
		}
	}
	if !c.storage {
		slices.SortFunc(all, func(a, b reflect.StructField) int { return strings.Compare(a.Name, b.Name) })
	}
	return all
}

// isFlattened reports whether a field is an embedded struct that is replaced by
// its fields.
func (c *Codec) isFlattened(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, custom := c.custom[t]
	return f.Anonymous && t.Kind() == reflect.Struct && !custom && !t.Implements(marshalType)
}

// emptiness reports whether a value of a type is left out of storage.
type emptiness func(v reflect.Value) bool

// zeroerType is what types implement that know when they are empty.
var zeroerType = reflect.TypeFor[interface{ IsZero() bool }]()

// emptyOf returns the function that reports whether values of type t are empty.
func (c *Codec) emptyOf(t reflect.Type) emptiness {
	if t.Implements(zeroerType) {
		return func(v reflect.Value) bool {
			return v.Kind() == reflect.Pointer && v.IsNil() || v.Interface().(interface{ IsZero() bool }).IsZero()
		}
	}
	switch t.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case reflect.Struct:
		return c.emptyStruct(t)
	case reflect.Interface:
		return func(v reflect.Value) bool { return v.IsNil() || c.emptyOf(v.Elem().Type())(v.Elem()) }
	case reflect.Float32, reflect.Float64:
		return func(v reflect.Value) bool { return v.Float() == 0 } // also -0
	}
	return reflect.Value.IsZero
}

// emptyStruct returns a test for structs whose encoded fields are all empty.
// Fields behind a nil embedded pointer count as empty.
func (c *Codec) emptyStruct(t reflect.Type) emptiness {
	type field struct {
		index []int
		empty emptiness
	}
	var all []field
	for _, f := range c.fieldsOf(t) {
		all = append(all, field{f.Index, c.emptyOf(f.Type)})
	}
	return func(v reflect.Value) bool {
		for _, f := range all {
			if x, err := v.FieldByIndexErr(f.index); err == nil && !f.empty(x) {
				return false
			}
		}
		return true
	}
}
