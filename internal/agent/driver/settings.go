package driver

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"berth"
)

// Settings reads a task's config, which comes from a job file through servers
// and is checked here again, after interpolation. Each read takes its setting;
// [Settings.Err] then tells of everything wrong, settings that nobody took
// included. Numbers, bools and durations may be written as strings, because
// interpolation makes them so.
type Settings struct {
	driver   string
	left     map[string]any
	problems berth.Problems
}

// Read begins to read the config of a driver's task.
func Read(driver string, config map[string]any) *Settings {
	return &Settings{driver: driver, left: maps.Clone(config)}
}

// Err returns an Invalid error that names what is wrong.
func (s *Settings) Err() error {
	for _, name := range slices.Sorted(maps.Keys(s.left)) {
		s.addf(name, "the driver %s has no such setting", s.driver)
	}
	return s.problems.Err()
}

func (s *Settings) addf(name, format string, args ...any) {
	s.problems.Addf("config."+name, format, args...)
}

func (s *Settings) take(name string) any {
	v := s.left[name]
	delete(s.left, name)
	return v
}

// Text reads a string.
func (s *Settings) Text(name string) string {
	v := s.take(name)
	t, ok := text(v)
	if v != nil && !ok {
		s.addf(name, "a string is wanted, not %v", v)
	}
	return t
}

// Texts reads a list of strings.
func (s *Settings) Texts(name string) (out []string) {
	switch v := s.take(name).(type) {
	case nil:
	case []string:
		return v
	case []any:
		for i, x := range v {
			t, ok := text(x)
			if !ok {
				s.addf(name+"["+strconv.Itoa(i)+"]", "a string is wanted, not %v", x)
			}
			out = append(out, t)
		}
	default:
		s.addf(name, "a list of strings is wanted, not %v", v)
	}
	return out
}

// Bool reads true or false.
func (s *Settings) Bool(name string) bool {
	switch v := s.take(name).(type) {
	case nil:
	case bool:
		return v
	default:
		t, _ := text(v)
		b, err := strconv.ParseBool(t)
		if err == nil {
			return b
		}
		s.addf(name, "true or false is wanted, not %v", v)
	}
	return false
}

// Number reads a whole number from low to high.
func (s *Settings) Number(name string, low, high int64) int64 {
	v := s.take(name)
	if v == nil {
		return 0
	}
	n, ok := whole(v)
	if !ok {
		s.addf(name, "a whole number is wanted, not %v", v)
	} else if n < low || n > high {
		s.addf(name, "%d is out of range; allowed are %d to %d", n, low, high)
	}
	return n
}

// Duration reads a duration such as "90s", or nanoseconds.
func (s *Settings) Duration(name string) time.Duration {
	v := s.take(name)
	if v == nil {
		return 0
	}
	d := time.Duration(-1)
	if t, ok := text(v); ok {
		if parsed, err := time.ParseDuration(t); err == nil {
			d = parsed
		}
	} else if n, ok := whole(v); ok {
		d = time.Duration(n)
	}
	if d < 0 {
		s.addf(name, "a duration such as \"90s\" is wanted, not %v", v)
		return 0
	}
	return d
}

// text reads what a codec makes of a string: the old msgpack form does not
// tell strings from bytes.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// whole reads what codecs make of a whole number.
func whole(v any) (int64, bool) {
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
	t, ok := text(v)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(t, 10, 64)
	return n, err == nil
}
