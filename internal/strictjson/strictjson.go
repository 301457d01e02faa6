// Package strictjson is JSON where encoding/json is not exact enough: text that
// users write, whose faults need a line, a column and a path, and in which a
// duplicate name or invalid UTF-8 must be an error; and text that is hashed,
// which must not change when a struct gains a field.
//
// It is the only package that uses github.com/go-json-experiment/json, the
// prototype of encoding/json/v2. All other JSON goes through encoding/json.
// When the standard library has v2 without an experiment, this package is where
// it comes in. docs/decisions/0008-home-made.md has the reasons.
package strictjson

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Decoder reads a text token by token. It refuses duplicate names, invalid
// UTF-8 and whatever else RFC 7493 does.
type Decoder = jsontext.Decoder

// Kind is the kind of a value, named by how its text begins: 'n', 't', 'f',
// '"', '0', '{' or '['. 0 is a fault or the end of the text.
type Kind = jsontext.Kind

// NewDecoder returns a Decoder of text.
func NewDecoder(text []byte) *Decoder { return jsontext.NewDecoder(bytes.NewBuffer(text)) }

// Fault is what is wrong with a text, and where.
type Fault struct {
	Line, Column int    // from 1; the column counts bytes
	Pointer      string // the place in the value (RFC 6901), if it is known
	Err          error
}

// Error returns the cause alone; the caller writes the position in its own
// form.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

var (
	errEnds  = errors.New("unexpected end of text")
	errTrail = errors.New("unexpected text after the object")
)

// ReadOne reads the one value of a text by read, which is given the decoder
// before the value. Errors are a [Fault], also those of read: where the decoder
// stood then.
func ReadOne[V any](text []byte, read func(*Decoder) (V, error)) (v V, fault *Fault) {
	d := NewDecoder(text)
	v, err := read(d)
	if err == nil {
		if _, e := d.ReadToken(); e != io.EOF {
			err = errTrail
		}
	}
	if err != nil {
		return v, faultOf(text, d.InputOffset(), err)
	}
	return v, nil
}

// faultOf returns an error as a fault with its position in the text. at is the
// offset for errors that have none of their own.
func faultOf(text []byte, at int64, err error) *Fault {
	var pointer string
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at, pointer, err = e.ByteOffset, string(e.JSONPointer), e.Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		err = errEnds
	}
	line, column := Position(text, at)
	return &Fault{line, column, pointer, err}
}

// Position returns the line and column of an offset in a text.
func Position(text []byte, at int64) (line, column int) {
	before := text[:min(int(at), len(text))]
	return bytes.Count(before, []byte{'\n'}) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// Deeper reports whether the values of a text nest deeper than most before its
// end or its first fault. Duplicate names are none.
func Deeper(text string, most int) bool {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		if d.StackDepth() > most {
			return true
		}
	}
}

// canonical is how values are written to be hashed.
var canonical = json.JoinOptions(json.Deterministic(true), json.OmitZeroStructFields(true),
	json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, d time.Duration) error {
		return e.WriteToken(jsontext.Int(int64(d)))
	})))

// Canonical returns the text of a value for hashing: equal values have equal
// texts, and fields that are zero are not in it, so that a field that a later
// release adds changes none. Durations are nanoseconds.
func Canonical(v any) ([]byte, error) { return json.Marshal(v, canonical) }
