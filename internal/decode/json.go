package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"berth"
)

// ParseJSON reads one JSON object. It refuses what JSON leaves open and
// parsers settle differently: invalid UTF-8, a name twice in one object,
// numbers that no float64 holds, text after the object, deep nesting.
func ParseJSON(data []byte) (Tree, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	if k := d.PeekKind(); k != '{' && k != 0 {
		return nil, berth.Errorf(berth.Invalid, "JSON: an object is wanted, not %s", kindName(k))
	}
	v, err := parseValue(d)
	if err == nil {
		if _, e := d.ReadToken(); e != io.EOF {
			err = errors.New("more text follows the object")
		}
	}
	if err != nil {
		return nil, jsonError(data, d.InputOffset(), err)
	}
	return v.(Tree), nil
}

func parseValue(d *jsontext.Decoder) (any, error) {
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

// jsonError names the line and column of a fault, and where it is known the
// place in the object.
func jsonError(data []byte, at int64, err error) error {
	var place string
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = e.ByteOffset
		if e.JSONPointer != "" {
			place = fmt.Sprintf(" at %s", berth.Clip(string(e.JSONPointer), 128))
		}
		err = e.Err
	}
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = errors.New("the text ends in the middle")
	}
	before := data[:min(int(at), len(data))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	col := len(before) - bytes.LastIndexByte(before, '\n')
	return berth.Errorf(berth.Invalid, "JSON: line %d, column %d%s: %w", line, col, place, err)
}

func kindName(k jsontext.Kind) string {
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
