package decode

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"time"

	"berth"
)

// mismatch notes that a value must be something else.
func (d *Decoder) mismatch(path, want string, src any) {
	d.Problems.Addf(path, "must be %s, got %s", want, Describe(src))
}

// Describe returns what an error calls a value; long text is clipped.
func Describe(src any) string {
	switch v := src.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(berth.Clip(v, 40))
	case Number:
		return berth.Clip(string(v), 40)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "a list"
	case Tree:
		return "an object"
	}
	return fmt.Sprintf("%T", src)
}

// text returns src as a string; ok is false after a problem. A loose decoder
// takes numbers and booleans too.
func (d *Decoder) text(src any, path string) (string, bool) {
	switch v := src.(type) {
	case string:
		return v, true
	case Number:
		if d.Loose {
			return string(v), true
		}
	case bool:
		if d.Loose {
			return strconv.FormatBool(v), true
		}
	}
	d.mismatch(path, "a string", src)
	return "", false
}

// boolean sets dst. A loose decoder takes "true" and "false" in quotes.
func (d *Decoder) boolean(dst reflect.Value, src any, path string) {
	switch v := src.(type) {
	case bool:
		dst.SetBool(v)
		return
	case string:
		if d.Loose && (v == "true" || v == "false") {
			dst.SetBool(v == "true")
			return
		}
	}
	d.mismatch(path, "true or false", src)
}

// Integer returns the value of an integer however it is written, and whether it
// is one. It notes no problem.
func (d *Decoder) Integer(src any) (int64, bool) {
	quiet := Decoder{Loose: d.Loose}
	return quiet.integer(src, "")
}

// integer accepts integers however they are written: 3, 3.0, 3e2.
func (d *Decoder) integer(src any, path string) (int64, bool) {
	s, ok := src.(Number)
	if str, is := src.(string); is && d.Loose {
		s, ok = Number(str), true
	}
	if !ok {
		d.mismatch(path, "an integer", src)
		return 0, false
	}
	if n, err := strconv.ParseInt(string(s), 10, 64); err == nil {
		return n, true
	}
	// big.Rat would expand 1e999999, so a float finds out first whether it is
	// too large.
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil || math.IsInf(f, 0) || f != math.Trunc(f) {
		d.mismatch(path, "an integer", src)
		return 0, false
	}
	r, ok := new(big.Rat), false
	if math.Abs(f) <= 1<<63 {
		r, ok = r.SetString(string(s))
	}
	switch {
	case ok && !r.IsInt():
		d.mismatch(path, "an integer", src)
		return 0, false
	case !ok || !r.Num().IsInt64():
		d.mismatch(path, "an integer of at most 64 bits", src)
		return 0, false
	}
	return r.Num().Int64(), true
}

// unsigned sets dst. It tries the full range of uint64 first, which integer
// does not have.
func (d *Decoder) unsigned(dst reflect.Value, src any, path string) {
	if s, ok := src.(Number); ok {
		if n, err := strconv.ParseUint(string(s), 10, 64); err == nil && !dst.OverflowUint(n) {
			dst.SetUint(n)
			return
		}
	}
	n, ok := d.integer(src, path)
	if !ok {
		return
	}
	if n < 0 || dst.OverflowUint(uint64(n)) {
		d.Problems.Addf(path, "must be 0 to %d, got %d", uint64(math.MaxUint64)>>(64-dst.Type().Bits()), n)
		return
	}
	dst.SetUint(uint64(n))
}

// duration accepts nanoseconds, and text such as "90s" or "1h30m".
func (d *Decoder) duration(dst reflect.Value, src any, path string) {
	if s, ok := src.(string); ok {
		v, err := time.ParseDuration(s)
		if err != nil {
			d.Problems.Addf(path, "must be a duration such as \"90s\" or \"1h30m\", got %q", berth.Clip(s, 40))
			return
		}
		dst.SetInt(int64(v))
		return
	}
	if _, ok := src.(Number); !ok {
		d.mismatch(path, "a duration such as \"90s\"", src)
		return
	}
	if n, ok := d.integer(src, path); ok {
		dst.SetInt(n)
	}
}
