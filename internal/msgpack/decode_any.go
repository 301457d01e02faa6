package msgpack

import (
	"fmt"
	"math"
	"reflect"
)

// readAny reads a value of any kind into an empty interface, with the types
// that anyOf chooses.
func (c *Codec) readAny(b []byte, v reflect.Value) ([]byte, error) {
	x, rest, err := c.anyOf(b)
	if err == nil && x != nil {
		v.Set(reflect.ValueOf(x))
	}
	return rest, err
}

// anyOf reads a value without a type: bool, int64, uint64 if necessary,
// float64, string, []any or map[string]any.
func (c *Codec) anyOf(b []byte) (x any, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, mismatch(b, "a value")
	}
	switch kindOf(b[0]) {
	case "nil":
		return nil, b[1:], nil
	case "a bool":
		return b[0] == codeTrue, b[1:], nil
	case "an integer":
		n, neg, rest, err := readInteger(b)
		if neg || n <= math.MaxInt64 {
			return int64(n), rest, err
		}
		return n, rest, err
	case "a float":
		if f, rest, ok := floatOf(b); ok {
			return f, rest, nil
		}
	case "a string":
		text, rest, err := readText(b)
		return string(text), rest, err
	case "a list":
		n, rest, err := readHead(b, 0, "a list")
		if err != nil {
			return nil, nil, err
		}
		list := make([]any, 0, min(n, firstAlloc/16))
		begin := len(rest)
		for i := range n {
			if err := c.tooDense(i, begin-len(rest)); err != nil {
				return nil, nil, err
			}
			if x, rest, err = c.anyOf(rest); err != nil {
				return nil, nil, err
			}
			list = append(list, x)
		}
		return list, rest, nil
	case "a map":
		n, rest, err := readHead(b, 1, "a map")
		if err != nil {
			return nil, nil, err
		}
		m := make(map[string]any, min(n, firstAlloc/64))
		for range n {
			var key []byte
			if key, rest, err = readText(rest); err != nil {
				return nil, nil, fmt.Errorf("key: %w", err)
			}
			if x, rest, err = c.anyOf(rest); err != nil {
				return nil, nil, err
			}
			m[string(key)] = x
		}
		return m, rest, nil
	}
	return nil, nil, mismatch(b, "a value")
}
