package jobspec

import (
	"reflect"
	"slices"
	"sort"
	"sync"
	"time"

	"berth/internal/decode"
)

// shape describes what the body of a block may hold, derived from its struct.
type shape struct {
	fields map[string]*slot // by name in a job file
	label  *slot            // the block's label, nil if it has none
	names  []string         // of fields, in order
}

// slot is one field of a struct.
type slot struct {
	key    string // its name in a tree
	within string // the field of the tree whose object has it; "" for the tree itself
	form   form
	elem   reflect.Type // of blocks: the struct
}

// home returns the object that holds the field.
func (f *slot) home(tree decode.Tree) decode.Tree {
	if f.within == "" {
		return tree
	}
	in, _ := tree[f.within].(decode.Tree)
	if in == nil {
		in = decode.Tree{}
		tree[f.within] = in
	}
	return in
}

// form is how a field is written.
type form int

const (
	attribute form = iota // name = value
	oneBlock              // name { … }
	manyBlocks
	labeledBlocks // name "key" { … }, a map
	textMap       // name { key = value } or name = { key = value }
	freeMap       // the same with nested blocks, as for drivers
)

var shapes sync.Map // reflect.Type → *shape

// shapeOf returns the shape of a struct type, from a cache that all calls
// share. The result must not be changed.
func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := &shape{fields: map[string]*slot{}}
	for _, f := range reflect.VisibleFields(t) {
		name, isLabel := decode.FileName(f)
		if decode.Inline(f) {
			s.include(f)
			continue
		}
		if !f.IsExported() || f.Anonymous || name == "-" {
			continue
		}
		at := &slot{key: f.Name}
		at.form, at.elem = formOf(f.Type)
		if isLabel {
			s.label = at
			continue
		}
		s.fields[name] = at
		s.names = append(s.names, name)
	}
	sort.Strings(s.names)
	shapes.Store(t, s)
	return s
}

// include adds the fields of an inline struct.
func (s *shape) include(f reflect.StructField) {
	inner := shapeOf(f.Type.Elem())
	for _, name := range inner.names {
		at := *inner.fields[name]
		at.within = f.Name
		s.fields[name] = &at
		s.names = append(s.names, name)
	}
}

// formOf returns how a field of the type is written, and for blocks the struct
// type of one block.
func formOf(t reflect.Type) (form, reflect.Type) {
	switch t.Kind() {
	case reflect.Struct:
		if isBlock(t) {
			return oneBlock, t
		}
	case reflect.Pointer:
		if isBlock(t.Elem()) {
			return oneBlock, t.Elem()
		}
	case reflect.Slice:
		if e := t.Elem(); isBlock(e) {
			return manyBlocks, e
		} else if e.Kind() == reflect.Pointer && isBlock(e.Elem()) {
			return manyBlocks, e.Elem()
		}
	case reflect.Map:
		switch e := t.Elem(); {
		case isBlock(e):
			return labeledBlocks, e
		case e.Kind() == reflect.Interface:
			return freeMap, nil
		default:
			return textMap, nil
		}
	}
	return attribute, nil
}

// isBlock reports whether the type is written as a block. A time is a struct in
// Go but text in a file.
func isBlock(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

// attributes returns the names that are written name = value, in order.
func (s *shape) attributes() []string {
	return slices.DeleteFunc(slices.Clone(s.names), func(name string) bool {
		f := s.fields[name].form
		return f == oneBlock || f == manyBlocks || f == labeledBlocks
	})
}

// blocks returns the names that are written name { … }, in order.
func (s *shape) blocks() []string {
	return slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return s.fields[name].form == attribute })
}
