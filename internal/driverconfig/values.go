package driverconfig

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"berth"
)

// Kind is the type of a setting's value.
type Kind uint8

// The kinds of setting. Integers, durations and bools may also be written as
// strings, which is what interpolation produces.
const (
	String Kind = iota
	Strings
	Integer
	Bool
	Duration // text such as "90s", or nanoseconds; at least 0
)

// kindNames are the kinds as problems and the documentation name them.
var kindNames = []string{String: "string", Strings: "list of strings", Integer: "integer", Bool: "bool", Duration: "duration"}

// String returns the name of the kind, as used in docs.
func (k Kind) String() string { return kindNames[k] }

// Values holds the values of a driver's config by key. Each has its declared
// kind; reading an undeclared key, or reading it as another kind, panics.
type Values struct {
	schema *Schema
	by     map[string]any // typed values of the keys that are set
}

// get returns a setting, or the zero value if the task does not set it. It
// panics if the driver does not declare the key with that kind, which is a
// mistake in the driver.
func get[T any](v Values, key string, kind Kind) (value T) {
	if set := v.schema.setting(key); set == nil || set.Kind != kind {
		panic(fmt.Sprintf("driverconfig: %s declares no %s %q", v.schema.Driver, kind, key))
	}
	value, _ = v.by[key].(T)
	return value
}

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

// read converts a value from JSON, msgpack or interpolation to the setting's
// kind, and notes what is wrong with it.
func (set *Setting) read(problems *berth.Problems, at string, v any) any {
	switch set.Kind {
	case String:
		if s, ok := text(v); ok {
			return s
		}
		problems.Addf(at, "must be a string, got %s", show(v))
	case Strings:
		return texts(problems, at, v)
	case Integer:
		n, ok := integer(v)
		switch {
		case !ok:
			problems.Addf(at, "must be an integer, got %s", show(v))
		case n < 0 || n > set.High:
			problems.Addf(at, "must be 0 to %d, got %d", set.High, n)
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

// show returns what an error calls a value.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(berth.Clip(v, 40))
	case []any:
		return "a list"
	case map[string]any:
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
