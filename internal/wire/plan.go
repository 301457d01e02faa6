package wire

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A planner works out once for each type how its values are encoded or
// decoded. A plan is used through a pointer, since a type may contain itself:
// its parts then point to a plan that is still being made.
type planner[P any] struct {
	build func(reflect.Type) P // asks for the plans of parts by part
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
	for t, plan := range p.making { // only now is each of them whole
		p.done.Store(t, plan)
	}
	return plan
}

// part is of for build.
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

// fieldsOf returns the fields of a struct that travel, in order of name: its
// own, and those of structs it embeds. An outer field hides an inner one of
// the same name, as in Go. Tags mean nothing: what JSON hides, such as a
// node's secret, does travel here.
func fieldsOf(t reflect.Type) (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || flat(f) {
			continue
		}
		if seen, ok := t.FieldByName(f.Name); ok && slices.Equal(seen.Index, f.Index) {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b reflect.StructField) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// flat says whether a field is an embedded struct, whose fields stand for it.
func flat(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return f.Anonymous && t.Kind() == reflect.Struct && !t.Implements(marshalType)
}
