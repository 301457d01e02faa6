// Package expr parses and evaluates the expressions that select streams:
// conditions over named properties, such as
//
//	kind == "raw" && priority >= 3 && "eu" in regions
//
// Values are booleans, 64-bit integers, floating point numbers, strings, and
// lists of values. Operators, weakest first:
//
//	||   &&   in   == !=   < <= > >=   + -   * / %   ! -   [index]
//
// (type)x casts x to boolean, int64, float64 or rstring (a string). hash(x) is
// an integer that is the same on every machine and in every release.
//
// Logic has three values. A missing property is unknown, and so is everything
// that depends on it: "true || unknown" is true, "unknown" alone is not.
package expr

import (
	"fmt"
	"math"
	"strings"
)

// Limits of an expression.
const (
	MaxLength = 4096 // bytes
	MaxDepth  = 100  // of nesting
)

// Expr is a parsed expression. It is immutable.
type Expr struct {
	text string // as it was written
	root node
}

// Truth is the value of a condition.
type Truth uint8

// The three values of logic.
const (
	False Truth = iota
	Unknown
	True
)

// String returns "false", "unknown" or "true".
func (t Truth) String() string { return [...]string{"false", "unknown", "true"}[t] }

// Lookup returns the value of a property: a bool, int64, float64, string or a
// []any of those.
type Lookup func(name string) (value any, ok bool)

// Parse parses an expression. An error contains the column, counted in bytes
// from 1.
func Parse(text string) (*Expr, error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("expression: must be at most %d bytes, got %d", MaxLength, len(text))
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("expression: must not be empty")
	}
	p := &parser{lexer: lexer{text: text}}
	root, err := p.whole()
	if err != nil {
		return nil, err
	}
	return &Expr{text: text, root: root}, nil
}

// String returns the text of the expression.
func (e *Expr) String() string { return e.text }

// Eval returns whether the condition holds. An error means that it cannot be
// evaluated and so matches nothing: values of the wrong types, an index out of
// range, a division by zero, or a result that is not a boolean.
func (e *Expr) Eval(get Lookup) (Truth, error) {
	v, err := e.root.eval(get)
	if err != nil {
		return False, err
	}
	return truth(v)
}

// unknown is the value of what depends on a missing property.
type unknown struct{}

// truth returns the result of a whole expression; only booleans and unknown
// have one.
func truth(v any) (Truth, error) {
	switch v := v.(type) {
	case unknown:
		return Unknown, nil
	case bool:
		if v {
			return True, nil
		}
		return False, nil
	}
	return False, fmt.Errorf("%s is not a boolean", show(v))
}

// value is the inverse of truth.
func (t Truth) value() any {
	if t == Unknown {
		return unknown{}
	}
	return t == True
}

// kind returns the name of a value's type, as used in casts.
func kind(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case int64:
		return "int64"
	case float64:
		return "float64"
	case string:
		return "rstring"
	case []any:
		return "list"
	}
	return "unknown"
}

// show returns a value for an error message; of lists only the length.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case unknown:
		return "unknown"
	}
	return fmt.Sprint(v)
}

// number returns a numeric value as a floating point number.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return math.NaN(), false
}
