package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"berth"
	"berth/internal/strictjson"
)

// AppendBinary implements encoding.BinaryAppender: between servers a tree travels
// as JSON, which keeps its numbers as they were written.
func (t RawTree) AppendBinary(b []byte) ([]byte, error) {
	if t == nil {
		return b, nil
	}
	text, err := t.MarshalJSON()
	return append(b, text...), err
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (t *RawTree) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		*t = nil
		return nil
	}
	tree, err := ParseJSON(b)
	*t = RawTree(tree)
	return err
}

// MarshalJSON implements json.Marshaler. No tree is an empty object.
func (t RawTree) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("{}"), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(Tree(t))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// ParseJSON reads one JSON object. It refuses what parsers treat differently:
// invalid UTF-8, a name twice in one object, numbers that no float64 can hold,
// text after the object and deep nesting.
func ParseJSON(data []byte) (Tree, error) {
	var found strictjson.Kind
	v, fault := strictjson.ReadOne(data, func(d *strictjson.Decoder) (any, error) {
		found = d.PeekKind()
		return parseValue(d)
	})
	switch {
	case found != '{' && found != 0:
		return nil, berth.Errorf(berth.Invalid, "JSON: must be an object, got %s", kindName(found))
	case fault != nil:
		return nil, jsonError(fault)
	}
	return v.(Tree), nil
}

// parseValue reads the next value as a tree. Numbers keep their digits, and one
// that no float64 can hold is an error, as is nesting below berth.MaxNesting.
func parseValue(d *strictjson.Decoder) (any, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		s := t.String()
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return nil, fmt.Errorf("number %s is out of range", berth.Clip(s, 32))
		}
		return Number(s), nil
	case '{':
		if d.StackDepth() > berth.MaxNesting {
			return nil, fmt.Errorf("nested deeper than %d", berth.MaxNesting)
		}
		out := Tree{}
		for d.PeekKind() != '}' {
			k, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			name := k.String()
			if out[name], err = parseValue(d); err != nil {
				return nil, err
			}
		}
		_, err := d.ReadToken()
		return out, err
	default: // '['
		if d.StackDepth() > berth.MaxNesting {
			return nil, fmt.Errorf("nested deeper than %d", berth.MaxNesting)
		}
		out := []any{}
		for d.PeekKind() != ']' {
			v, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		_, err := d.ReadToken()
		return out, err
	}
}

// jsonError returns an error with the line and column of a fault, and its place
// in the object if that is known.
func jsonError(f *strictjson.Fault) error {
	var place string
	if f.Pointer != "" {
		place = fmt.Sprintf(" at %s", berth.Clip(f.Pointer, 128))
	}
	return berth.Errorf(berth.Invalid, "JSON: line %d, column %d%s: %w", f.Line, f.Column, place, f.Err)
}

// kindName returns what a token begins, with its article, for problems.
func kindName(k strictjson.Kind) string {
	switch k {
	case '[':
		return "a list"
	case '"':
		return "a string"
	case '0':
		return "a number"
	}
	return k.String()
}
