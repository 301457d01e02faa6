package decode

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Nearest returns the name that was probably meant by s, in any case, or "".
// names are in lower case.
func Nearest(s string, names []string) string {
	if len(s) > 64 {
		return ""
	}
	s = strings.ToLower(s)
	best, most := "", 1
	if len(s) >= 8 {
		most = 2
	}
	for _, n := range names {
		d := levenshtein.Distance(s, n, nil)
		if d == 2 && swapped(s, n) {
			d = 1
		}
		if d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// swapped reports whether a and b differ by two swapped neighbours.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) - 1 {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}

// meant returns "; did you mean x?" with the field of t that an unknown name was
// probably meant for, or "". A name of one or two letters is near to too many.
func meant(t reflect.Type, known map[string]field, name string) string {
	if len(name) < 3 {
		return ""
	}
	n := Nearest(name, slices.Sorted(maps.Keys(known)))
	if n == "" || known[n].inline {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", t.FieldByIndex(known[n].index).Name)
}
