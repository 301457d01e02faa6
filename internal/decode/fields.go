package decode

import (
	"reflect"
	"strings"
	"sync"
)

// field is one field of a struct as trees and job files name it.
type field struct {
	index []int
	file  string // the name in a job file, and in errors
	label bool   // a block's label

	inline bool // a job file has its fields among those of the struct around it
}

var fieldsOf sync.Map // reflect.Type → map[string]field, by lower-case name

// fields returns the fields of a struct type, those of embedded structs
// included, by their names in lower case.
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

// Inline reports whether a job file has the fields of this field's struct among
// those of the struct around it.
func Inline(f reflect.StructField) bool { return f.Tag.Get("hcl") == ",inline" }

// FileName returns the name that a job file gives the field of a block, and
// whether it is the block's label. Without a tag it is the field's name in
// snake case. "-" is a field that has no name in a job file.
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
