package driverconfig

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"berth"
)

// Kind is the type of a setting's value.
type Kind uint8

// The kinds of setting. Integers, durations and bools may also be written as
// strings, which is what interpolation produces. A Map, a Block and Blocks may
// be written as blocks or as objects; a list of one object is one block.
const (
	String Kind = iota
	Strings
	Integer
	Bool
	Duration // text such as "90s", or nanoseconds; at least 0
	Map      // of strings; numbers and bools count as their text
	Block    // at most one
	Blocks   // any number
)

// kindNames are the kinds as problems and the documentation name them.
var kindNames = []string{
	String: "string", Strings: "list of strings", Integer: "integer", Bool: "bool", Duration: "duration",
	Map: "map of strings", Block: "block", Blocks: "list of blocks",
}

// String returns the name of the kind, as used in docs.
func (k Kind) String() string { return kindNames[k] }

// Values holds the values of a driver's config, or of a block in it, by key.
// Each has its declared kind; reading an undeclared key, or reading it as
// another kind, panics.
type Values struct {
	driver   string
	settings []Setting
	by       map[string]any // typed values of the keys that are set
}

// get returns a setting, or the zero value if the task does not set it. It
// panics if the driver does not declare the key with that kind, which is a
// mistake in the driver.
func get[T any](v Values, key string, kind Kind) (value T) {
	if set := find(v.settings, key); set == nil || set.Kind != kind {
		panic(fmt.Sprintf("driverconfig: %s declares no %s %q", v.driver, kind, key))
	}
	value, _ = v.by[key].(T)
	return value
}

// Has reports whether the task sets a key.
func (v Values) Has(key string) bool { return v.by[key] != nil }

// String returns a string, or "" if it is absent.
func (v Values) String(key string) string { return get[string](v, key, String) }

// Strings returns a list of strings, or nil if it is absent.
func (v Values) Strings(key string) []string { return get[[]string](v, key, Strings) }

// Integer returns an integer, or 0 if it is absent.
func (v Values) Integer(key string) int64 { return get[int64](v, key, Integer) }

// Bool returns a bool, or false if it is absent.
func (v Values) Bool(key string) bool { return get[bool](v, key, Bool) }

// Duration returns a duration, or 0 if it is absent.
func (v Values) Duration(key string) time.Duration { return get[time.Duration](v, key, Duration) }

// Map returns a map of strings, or nil if it is absent.
func (v Values) Map(key string) map[string]string { return get[map[string]string](v, key, Map) }

// Block returns a block. One that is absent has no values.
func (v Values) Block(key string) Values {
	b := get[Values](v, key, Block)
	if b.by == nil {
		b = Values{v.driver, find(v.settings, key).Settings, nil}
	}
	return b
}

// Blocks returns the blocks of a key, in the order of the job.
func (v Values) Blocks(key string) []Values { return get[[]Values](v, key, Blocks) }

// value converts a value from JSON, msgpack or interpolation to the setting's
// kind, and notes what is wrong with it.
func (r *reader) value(set *Setting, at string, v any) any {
	problems := &r.problems
	switch set.Kind {
	case String:
		if s, ok := text(v); ok {
			r.want(set, at, s)
			return s
		}
		problems.Addf(at, "must be a string, got %s", show(v))
	case Strings:
		all := texts(problems, at, v)
		for i, s := range all {
			r.want(set, at+"["+strconv.Itoa(i)+"]", s)
		}
		return all
	case Map:
		return r.dict(set, at, v)
	case Block:
		switch all := r.objects(at, v, "a block"); len(all) {
		case 0:
		case 1:
			return r.block(at, set.Settings, all[0])
		default:
			problems.Addf(at, "must be one block, got %d", len(all))
		}
		return Values{r.driver, set.Settings, map[string]any{}}
	case Blocks:
		var out []Values
		for i, o := range r.objects(at, v, "a list of blocks") {
			out = append(out, r.block(at+"["+strconv.Itoa(i)+"]", set.Settings, o))
		}
		return out
	case Integer:
		n, ok := integer(v)
		switch {
		case !ok:
			problems.Addf(at, "must be an integer, got %s", show(v))
		case n < set.Low || n > set.High:
			problems.Addf(at, "must be %d to %d, got %d", set.Low, set.High, n)
		}
		return n
	case Bool:
		if b, ok := v.(bool); ok {
			return b
		}
		s, _ := text(v)
		b, err := strconv.ParseBool(s)
		if err != nil {
			problems.Addf(at, "must be true or false, got %s", show(v))
		}
		return b
	case Duration:
		d, ok := duration(v)
		if !ok {
			problems.Addf(at, "must be a duration such as \"90s\", got %s", show(v))
		}
		return d
	}
	return nil
}

// want notes a text that is not what its setting wants.
func (r *reader) want(set *Setting, at, s string) {
	if set.Want == nil || r.open(s) {
		return
	}
	if want := set.Want(s); want != "" {
		r.problems.Addf(at, "must be %s, got %s", want, show(s))
	}
}

// objects returns the objects of a block that may be written once, several
// times, or as a list.
func (r *reader) objects(at string, v any, what string) (out []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []map[string]any:
		return v
	case []any:
		for i, x := range v {
			if o, ok := x.(map[string]any); ok {
				out = append(out, o)
			} else {
				r.problems.Addf(at+"["+strconv.Itoa(i)+"]", "must be a block, got %s", show(x))
			}
		}
		return out
	}
	r.problems.Addf(at, "must be %s, got %s", what, show(v))
	return nil
}

// dict reads a map of strings. Later objects of a list come before earlier
// ones.
func (r *reader) dict(set *Setting, at string, v any) map[string]string {
	out := map[string]string{}
	for _, o := range r.objects(at, v, "a map of strings") {
		for _, key := range slices.Sorted(maps.Keys(o)) {
			at := at + "." + berth.Clip(key, 64)
			s, ok := scalar(o[key])
			if !ok {
				r.problems.Addf(at, "must be a string, got %s", show(o[key]))
				continue
			}
			r.want(set, at, s)
			out[key] = s
		}
	}
	return out
}

// scalar returns the text of a string, a number or a bool.
func scalar(v any) (string, bool) {
	if s, ok := text(v); ok {
		return s, true
	}
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	n, ok := integer(v)
	return strconv.FormatInt(n, 10), ok
}

// show returns what an error calls a value.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(berth.Clip(v, 40))
	case []any:
		return "a list"
	case map[string]any, []map[string]any:
		return "an object"
	}
	return berth.Clip(fmt.Sprint(v), 40)
}

// text returns a string that a codec decoded: the old msgpack format does not
// distinguish strings from bytes.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// texts reads a list of strings and notes each other element as a problem.
func texts(problems *berth.Problems, at string, v any) (out []string) {
	switch v := v.(type) {
	case []string:
		return v
	case []any:
		for i, x := range v {
			s, ok := text(x)
			if !ok {
				problems.Addf(at+"["+strconv.Itoa(i)+"]", "must be a string, got %s", show(x))
			}
			out = append(out, s)
		}
	default:
		problems.Addf(at, "must be a list of strings, got %s", show(v))
	}
	return out
}

// duration reads a text such as "30s", or a number of nanoseconds. Negative
// ones are refused.
func duration(v any) (time.Duration, bool) {
	if s, ok := text(v); ok {
		d, err := time.ParseDuration(s)
		return d, err == nil && d >= 0
	}
	n, ok := integer(v)
	return time.Duration(n), ok && n >= 0
}

// integer returns an integer of any type that codecs decode it to.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	s, ok := text(v)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
