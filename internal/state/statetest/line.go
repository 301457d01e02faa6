package statetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Line is one line of a story: a verb, plain words and named values.
//
//	node n1 cpu=4000 meta.rack="r 1"
type Line struct {
	Verb  string
	Words []string
	text  string // as written
	named map[string]string
	order []string        // names of named values, as written
	read  map[string]bool // names that were asked for; others are mistakes
}

// Lines parses the lines of a step. A comment starts with " #".
func Lines(t testing.TB, input string) []*Line {
	t.Helper()
	var out []*Line
	for text := range strings.Lines(input) {
		text, _, _ = strings.Cut(strings.TrimSpace(text), " #")
		if strings.TrimSpace(text) == "" {
			continue
		}
		l, err := parseLine(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out = append(out, l)
	}
	return out
}

// String returns the line as written, without its comment.
func (l *Line) String() string { return l.text }

// parseLine returns the words of a line; NAME=VALUE is a named one. A name that
// is given twice is an error.
func parseLine(text string) (*Line, error) {
	l := &Line{text: text, named: map[string]string{}, read: map[string]bool{}}
	words, err := split(text)
	if err != nil {
		return nil, err
	}
	l.Verb = words[0]
	for _, w := range words[1:] {
		k, v, isNamed := strings.Cut(w, "=")
		if !isNamed || !isName(k) {
			l.Words = append(l.Words, unquote(w))
			continue
		}
		if _, twice := l.named[k]; twice {
			return nil, fmt.Errorf("%s is given twice", k)
		}
		l.named[k] = unquote(v)
		l.order = append(l.order, k)
	}
	return l, nil
}

// isName reports whether s may stand before the = of a named word.
func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
}

// split splits at spaces outside quotes, braces and brackets.
func split(text string) (out []string, err error) {
	var word strings.Builder
	depth, quoted, any := 0, false, false
	flush := func() {
		if any {
			out = append(out, word.String())
			word.Reset()
			any = false
		}
	}
	for i := range len(text) {
		c := text[i]
		switch {
		case c == '"' && (i == 0 || text[i-1] != '\\'):
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		// A space ends a word, unless it is in quotes or brackets.
		case c == ' ' && depth == 0:
			flush()
			continue
		}
		any = true
		word.WriteByte(c)
	}
	flush()
	if quoted || depth != 0 {
		return nil, errors.New("unclosed quote or bracket")
	}
	return out, nil
}

// unquote returns the content of a quoted word, and any other as it is.
func unquote(s string) string {
	if u, err := strconv.Unquote(s); err == nil && strings.HasPrefix(s, `"`) {
		return u
	}
	return s
}

// Word returns the i-th word, "" if there are fewer.
func (l *Line) Word(i int) string {
	if i < len(l.Words) {
		return l.Words[i]
	}
	return ""
}

// Has reports whether word is among the plain words.
func (l *Line) Has(word string) bool { return slices.Contains(l.Words, word) }

// Text returns a named value, or def if there is none.
func (l *Line) Text(name, def string) string {
	v, ok := l.named[name]
	if !ok {
		return def
	}
	l.read[name] = true
	return v
}

// Int returns a named number, or def if there is none.
func (l *Line) Int(t testing.TB, name string, def int) int {
	t.Helper()
	v, ok := l.named[name]
	if !ok {
		return def
	}
	l.read[name] = true
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %s: %v", l, name, err)
	}
	return n
}

// Duration returns a named duration, or def if there is none.
func (l *Line) Duration(t testing.TB, name string, def time.Duration) time.Duration {
	t.Helper()
	v, ok := l.named[name]
	if !ok {
		return def
	}
	l.read[name] = true
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("%s: %s: %v", l, name, err)
	}
	return d
}

// List returns a named value split at commas, or nil if there is none.
func (l *Line) List(name string) []string {
	v, ok := l.named[name]
	if !ok {
		return nil
	}
	l.read[name] = true
	return strings.Split(v, ",")
}

// Under returns the values named prefix.NAME by NAME, and these names in the
// order of the line.
func (l *Line) Under(prefix string) (values map[string]string, names []string) {
	values = map[string]string{}
	for _, k := range l.order {
		if rest, ok := strings.CutPrefix(k, prefix+"."); ok {
			l.read[k] = true
			values[rest] = l.named[k]
			names = append(names, rest)
		}
	}
	return values, names
}

// Names returns the names of values that have not been read yet.
func (l *Line) Names() []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(l.named)) {
		if !l.read[k] {
			out = append(out, k)
		}
	}
	return out
}

// Done fails the test if a value of the line was never read, so that a
// misspelled name in a story does not go unnoticed.
func (l *Line) Done(t testing.TB) {
	t.Helper()
	if names := l.Names(); len(names) > 0 {
		t.Fatalf("%s: unknown name %s", l, strings.Join(names, ", "))
	}
}

// Over returns the line with the named values of base as defaults.
func (l *Line) Over(base *Line) *Line {
	out := *l
	out.named, out.read = maps.Clone(base.named), map[string]bool{}
	maps.Copy(out.named, l.named)
	out.order = slices.Clone(base.order)
	for _, k := range l.order {
		if !slices.Contains(out.order, k) {
			out.order = append(out.order, k)
		}
	}
	return &out
}
