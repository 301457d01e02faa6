package driver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
)

// A setting arrives as JSON, msgpack or interpolation made it.
func TestSettingsReadWhatCodecsMakeOfThem(t *testing.T) {
	for _, v := range []any{5, int8(5), int16(5), int32(5), int64(5), uint8(5), uint16(5), uint32(5), uint64(5), 5.0, "5", []byte("5")} {
		s := Read("d", map[string]any{"n": v})
		if n := s.Number("n", 0, 10); n != 5 || s.Err() != nil {
			t.Errorf("%T: %d, %v", v, n, s.Err())
		}
	}
	for _, v := range []any{"90s", []byte("1m30s"), int64(90 * time.Second), 9e10} {
		s := Read("d", map[string]any{"d": v})
		if d := s.Duration("d"); d != 90*time.Second || s.Err() != nil {
			t.Errorf("%T: %v, %v", v, d, s.Err())
		}
	}
	for _, v := range []any{true, "true", []byte("1")} {
		s := Read("d", map[string]any{"b": v})
		if !s.Bool("b") || s.Err() != nil {
			t.Errorf("%T: %v", v, s.Err())
		}
	}
	s := Read("d", map[string]any{"a": []any{"x", []byte("y")}, "b": []string{"z"}, "c": nil})
	if got := fmt.Sprint(s.Texts("a"), s.Texts("b"), s.Texts("c"), s.Text("missing")); got != "[x y] [z] []" || s.Err() != nil {
		t.Errorf("%s, %v", got, s.Err())
	}
}

func TestAllThatIsWrongIsTold(t *testing.T) {
	s := Read("d", map[string]any{"n": 11, "f": 1.5, "t": 1, "l": []any{1}, "m": "x", "b": "maybe", "d": "-1s", "more": 1, "huge": uint64(1 << 63)})
	s.Number("n", 0, 10)
	s.Number("f", 0, 10)
	s.Number("huge", 0, 10)
	s.Text("t")
	s.Texts("l")
	s.Texts("m")
	s.Bool("b")
	s.Duration("d")
	err := s.Err()
	if berth.KindOf(err) != berth.Invalid {
		t.Fatal(err)
	}
	for _, want := range []string{
		"config.n: 11 is out of range; allowed are 0 to 10", "config.f:", "config.huge:", "config.t: a string is wanted", "config.l[0]:",
		"config.m: a list of strings", "config.b: true or false", "config.d: a duration", "config.more: the driver d has no such setting",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing from\n%v", want, err)
		}
	}
}

func TestRecoverableIsKept(t *testing.T) {
	err := fmt.Errorf("start: %w", Recoverable(ErrLost))
	if !IsRecoverable(err) || !errors.Is(err, ErrLost) || IsRecoverable(ErrLost) || IsRecoverable(nil) {
		t.Error(err)
	}
}
