package decode

import (
	"reflect"
	"strings"
	"sync"
)

// field describes a struct field: how to reach it and what job files call it.
type field struct {
	index []int
	file  string // the name in a job file, and in errors
	label bool   // a block's label

	inline bool // its fields are written among those of the surrounding struct
}

var fieldsOf sync.Map // reflect.Type → map[string]field, by lower-case name

// fields returns the fields of a struct type and of its embedded structs, by
// lower-case name.
func fields(t reflect.Type) map[string]field {
	if m, ok := fieldsOf.Load(t); ok {
		return m.(map[string]field)
	}
	m := map[string]field{}
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		name, label := FileName(f)
		m[strings.ToLower(f.Name)] = field{f.Index, name, label, Inline(f)}
	}
	fieldsOf.Store(t, m)
	return m
}

// Inline reports whether job files write the fields of this struct among those of
// the surrounding one.
func Inline(f reflect.StructField) bool { return f.Tag.Get("hcl") == ",inline" }

// FileName returns the name of a field in job files, and whether it is the
// label of its block. Without a tag the name is the field's name in snake case;
// "-" means that job files cannot set it.
func FileName(f reflect.StructField) (name string, label bool) {
	if Inline(f) {
		return "-", false
	}
	tag := f.Tag.Get("hcl")
	name, rest, _ := strings.Cut(tag, ",")
	if name == "" {
		name = snake(f.Name)
	}
	return name, rest == "label"
}

// snake turns MaxFileSizeMB into max_file_size_mb.
func snake(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		upper := c >= 'A' && c <= 'Z'
		if upper && i > 0 {
			lowerBefore := s[i-1] >= 'a' && s[i-1] <= 'z'
			lowerAfter := i+1 < len(s) && s[i+1] >= 'a' && s[i+1] <= 'z'
			if lowerBefore || lowerAfter {
				b.WriteByte('_')
			}
		}
		if upper {
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}
