package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"berth/internal/decode"

	"github.com/agext/levenshtein"

	"berth"
)

// A setting reads the value of one key.
type setting func(d *decoder, path string, n *node)

// table holds the settings of a block by key.
type table map[string]setting

// decoder turns nodes into a Config. It collects problems and continues.
type decoder struct {
	to       *Config // filled in as keys are read
	problems *berth.Problems
	setAt    map[string]string // position of each key that is set, by path
	others   []string          // paths of blocks of external plugins
	instead  string            // follows what the setting at work refuses; see because
}

// addf notes a problem at a position, such as "agent.hcl:12" or "-bind".
func (d *decoder) addf(pos, path, format string, args ...any) {
	*d.problems = append(*d.problems, berth.Problem{Pos: pos, Path: path, Text: fmt.Sprintf(format, args...)})
}

// fail adds a problem with the value at path.
func (d *decoder) fail(path, format string, args ...any) {
	d.addf(d.setAt[path], path, format, args...)
}

// warnf adds a warning, which the agent logs when it starts.
func (d *decoder) warnf(format string, args ...any) {
	d.to.Warnings = append(d.to.Warnings, fmt.Sprintf(format, args...))
}

// block applies a table to an object.
func (d *decoder) block(path string, n *node, t table) {
	o, ok := n.value.(object)
	if !ok {
		d.addf(n.pos, path, "must be a block, got %s", kind(n.value))
		return
	}
	for _, k := range o.keys() {
		at := decode.Join(path, k)
		d.setAt[at] = o[k].pos
		if s, ok := t[k]; ok {
			s(d, at, o[k])
		} else {
			d.unknown(o[k].pos, at, slices.Collect(maps.Keys(t)))
		}
	}
}

// unknown rejects a key that is not in the table, and suggests a similar one.
func (d *decoder) unknown(pos, path string, known []string) {
	key := path[strings.LastIndexByte(path, '.')+1:]
	best, least := "", max(2, len(key)/3)+1
	slices.Sort(known)
	for _, k := range known {
		if n := levenshtein.Distance(key, k, nil); n < least {
			best, least = k, n
		}
	}
	if best == "" {
		d.addf(pos, berth.Clip(path, 100), "unknown key")
		return
	}
	d.addf(pos, berth.Clip(path, 100), "unknown key; did you mean %s?", best)
}

// kind returns what a value is, for problems: numbers and bools themselves. A
// string in the place of a block or list may be a secret, so it is not shown.
func kind(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case bool, int64, float64:
		return fmt.Sprint(v)
	case []*node:
		return "a list"
	}
	return "a block"
}

// scalar is as kind for a value that should be a number or a bool, which no secret
// is: of a string it shows the beginning.
func scalar(v any) string {
	if text, ok := v.(string); ok {
		return fmt.Sprintf("the string %.40q", text)
	}
	return kind(v)
}

// The readers of values. Strings convert to numbers and bools and back, as with
// Nomad.

// text reads a string. Booleans and numbers count as their text.
func (d *decoder) text(path string, n *node) (string, bool) {
	switch v := n.value.(type) {
	case string:
		return v, true
	case bool, int64, float64:
		return fmt.Sprint(v), true
	}
	d.addf(n.pos, path, "must be a string, got %s", kind(n.value))
	return "", false
}

// line reads a string without control characters. No name has any.
func (d *decoder) line(path string, n *node) (string, bool) {
	s, ok := d.text(path, n)
	if ok && strings.ContainsFunc(s, unicode.IsControl) {
		d.addf(n.pos, path, "%.60q contains a line break or another control character", s)
		return "", false
	}
	return s, ok
}

// flag reads true or false, also in quotes.
func (d *decoder) flag(path string, n *node) (bool, bool) {
	switch v := n.value.(type) {
	case bool:
		return v, true
	case string:
		if v == "true" || v == "false" {
			return v == "true", true
		}
	}
	d.addf(n.pos, path, "must be true or false, got %s", scalar(n.value))
	return false, false
}

// whole reads an integer, also in quotes. A fraction is a problem, not rounded.
func (d *decoder) whole(path string, n *node) (int, bool) {
	switch v := n.value.(type) {
	case int64:
		return int(v), true
	case string:
		if i, err := strconv.Atoi(v); err == nil {
			return i, true
		}
	}
	if f, ok := n.value.(float64); ok && math.Abs(f) >= 1<<63 {
		d.addf(n.pos, path, "must be an integer of at most 64 bits, got %v", f)
		return 0, false
	}
	d.addf(n.pos, path, "must be an integer, got %s", scalar(n.value))
	return 0, false
}

// number reads an integer or a fraction, also in quotes.
func (d *decoder) number(path string, n *node) (float64, bool) {
	switch v := n.value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		if f, ok := number(v).(float64); ok {
			return f, true
		}
		if i, ok := number(v).(int64); ok {
			return float64(i), true
		}
	}
	d.addf(n.pos, path, "must be a number, got %s", scalar(n.value))
	return 0, false
}

// span reads a duration such as "30s". A number without a unit is a problem, as
// files disagree on the unit.
func (d *decoder) span(path string, n *node) (time.Duration, bool) {
	s, ok := n.value.(string)
	if !ok {
		d.addf(n.pos, path, "must be a duration with a unit such as \"30s\", got %s", kind(n.value))
		return 0, false
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		d.addf(n.pos, path, "invalid duration %.40q: use a unit, such as \"30s\"", s)
		return 0, false
	}
	return v, true
}

// texts reads a list of strings.
func (d *decoder) texts(path string, n *node) (out []string, ok bool) {
	list, ok := n.value.([]*node)
	if !ok {
		if s, is := n.value.(string); is {
			return []string{s}, true // a single value is a list of one
		}
		d.addf(n.pos, path, "must be a list of strings, got %s", kind(n.value))
		return nil, false
	}
	for _, e := range list {
		s, ok := d.text(path, e)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// dict reads a block of strings. It records where each key was set, for later
// problems.
func (d *decoder) dict(path string, n *node) (map[string]string, bool) {
	o, ok := n.value.(object)
	if !ok {
		d.addf(n.pos, path, "must be a block of keys and strings, got %s", kind(n.value))
		return nil, false
	}
	out := map[string]string{}
	for _, k := range o.keys() {
		d.setAt[decode.Join(path, k)] = o[k].pos
		s, ok := d.text(decode.Join(path, k), o[k])
		if !ok {
			return nil, false
		}
		out[k] = s
	}
	return out, true
}

// The settings of supported keys, by the type of their field.

// into returns the setting that reads a value and stores it in a field. Nothing
// is stored if the value is a problem.
func into[T any](read func(*decoder, string, *node) (T, bool), field func(*Config) *T) setting {
	return func(d *decoder, path string, n *node) {
		if v, ok := read(d, path, n); ok {
			*field(d.to) = v
		}
	}
}

// The settings of simple types. Each stores its value in the field that the
// function returns.
func text(field func(*Config) *string) setting        { return into((*decoder).line, field) }
func flag(field func(*Config) *bool) setting          { return into((*decoder).flag, field) }
func whole(field func(*Config) *int) setting          { return into((*decoder).whole, field) }
func fraction(field func(*Config) *float64) setting   { return into((*decoder).number, field) }
func span(field func(*Config) *time.Duration) setting { return into((*decoder).span, field) }
func texts(field func(*Config) *[]string) setting     { return into((*decoder).texts, field) }
func dict(field func(*Config) *map[string]string) setting {
	return into((*decoder).dict, field)
}

// block returns the setting that reads a block by its own table.
func block(t table) setting {
	return func(d *decoder, path string, n *node) { d.block(path, n, t) }
}

// anyBool accepts a bool and ignores it: both values ask for what Berth does.
func anyBool(d *decoder, path string, n *node) { d.flag(path, n) }
