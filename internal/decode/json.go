package decode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"berth"
	"berth/internal/limit"
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

// MaxValues is how many values a JSON text may have, with those inside others:
// an object, a list, each of its elements and each member is one. In memory a
// value can need a hundred times its text.
const MaxValues = 200_000

var valuesLimit = limit.Declare(limit.Info{
	Name: "values_per_json_text", Of: "Values in the JSON of a request or a job file: objects, lists, elements and members", Unit: limit.Count, Default: MaxValues,
	Beyond: "the request is refused (400)",
})

// ParseJSON reads one JSON object. It refuses what parsers treat differently:
// invalid UTF-8, a name twice in one object, numbers that no float64 can hold,
// text after the object and deep nesting; and more than MaxValues values.
func ParseJSON(data []byte) (Tree, error) { return ParseJSONContext(context.Background(), data) }

// ParseJSONContext is ParseJSON that stops with the cause of ctx when ctx ends.
func ParseJSONContext(ctx context.Context, data []byte) (Tree, error) {
	var found strictjson.Kind
	p := &parser{ctx: ctx}
	v, fault := strictjson.ReadOne(data, func(d *strictjson.Decoder) (any, error) {
		found = d.PeekKind()
		p.Decoder = d
		return p.value()
	})
	valuesLimit.Use(int64(min(p.values, MaxValues)), MaxValues)
	switch {
	case found != '{' && found != 0:
		return nil, berth.Errorf(berth.Invalid, "JSON: must be an object, got %s", kindName(found))
	case p.values > MaxValues:
		valuesLimit.Refuse()
		return nil, jsonError(fault)
	case fault != nil && errors.Is(fault, errStopped):
		return nil, context.Cause(ctx)
	case fault != nil:
		return nil, jsonError(fault)
	}
	return v.(Tree), nil
}

// errStopped ends a parse whose context has ended.
var errStopped = errors.New("the parse was stopped")

// parser reads a tree from a text.
type parser struct {
	*strictjson.Decoder
	ctx    context.Context
	values int // so far
}

// count notes one more value. It returns an error if there are too many, or if
// nobody waits for the result any more.
func (p *parser) count() error {
	p.values++
	if p.values > MaxValues {
		return fmt.Errorf("more than %d values", MaxValues)
	}
	if p.values%checkEvery == 0 && p.ctx.Err() != nil {
		return errStopped
	}
	return nil
}

// checkEvery is how many values are read between two looks at a context. That
// is less than a millisecond.
const checkEvery = 512

// value reads the next value as a tree. Numbers keep their digits, and one that
// no float64 can hold is an error, as is nesting below berth.MaxNesting.
func (p *parser) value() (any, error) {
	if err := p.count(); err != nil {
		return nil, err
	}
	t, err := p.ReadToken()
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
	}
	if p.StackDepth() > berth.MaxNesting {
		return nil, fmt.Errorf("nested deeper than %d", berth.MaxNesting)
	}
	if t.Kind() == '{' {
		return p.object()
	}
	return p.list()
}

// object reads the rest of an object.
func (p *parser) object() (any, error) {
	out := Tree{}
	for p.PeekKind() != '}' {
		k, err := p.ReadToken()
		if err != nil {
			return nil, err
		}
		name := k.String()
		if out[name], err = p.value(); err != nil {
			return nil, err
		}
	}
	_, err := p.ReadToken()
	return out, err
}

// list reads the rest of a list.
func (p *parser) list() (any, error) {
	out := []any{}
	for p.PeekKind() != ']' {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := p.ReadToken()
	return out, err
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
