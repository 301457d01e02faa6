// Package expr reads and evaluates the expressions by which streams are chosen:
// a condition over named properties, such as
//
//	kind == "raw" && priority >= 3 && "eu" in regions
//
// Values are booleans, 64-bit integers, floating point numbers, strings, and
// lists of values. Operators, weakest first:
//
//	||   &&   in   == !=   < <= > >=   + -   * / %   ! -   [index]
//
// (type)x casts x to boolean, int64, float64 or rstring (a string), and
// hash(x) is an integer that is the same everywhere and always.
//
// Logic has three values. A property that is not there is unknown, and so is
// whatever depends on it: "true || unknown" is true, "unknown" alone is not.
package expr

import (
	"fmt"
	"math"
	"strings"
)

// Limits of an expression.
const (
	MaxLength = 4096 // bytes
	MaxDepth  = 100  // of what is nested
)

// Expr is an expression that was read. It never changes.
type Expr struct {
	text string
	root node
}

// Truth is what a condition can be.
type Truth uint8

// The three values of logic.
const (
	False Truth = iota
	Unknown
	True
)

func (t Truth) String() string { return [...]string{"false", "unknown", "true"}[t] }

// Lookup finds a property. Its value is a bool, int64, float64, string or a
// []any of those.
type Lookup func(name string) (value any, ok bool)

// Parse reads an expression. An error says what is wrong and in which column,
// counted in bytes from 1.
func Parse(text string) (*Expr, error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("the expression has %d bytes; allowed are %d", len(text), MaxLength)
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("the expression is empty")
	}
	p := &parser{lexer: lexer{text: text}}
	root, err := p.whole()
	if err != nil {
		return nil, err
	}
	return &Expr{text: text, root: root}, nil
}

// String returns the text that was read.
func (e *Expr) String() string { return e.text }

// Eval says whether the condition holds. The error says why it cannot be
// evaluated: values of the wrong types, an index beyond a list, a division by
// zero, or a result that is no boolean. It matches nothing then.
func (e *Expr) Eval(get Lookup) (Truth, error) {
	v, err := e.root.eval(get)
	if err != nil {
		return False, err
	}
	return truth(v)
}

// unknown is the value of what depends on a property that is not there.
type unknown struct{}

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
	return False, fmt.Errorf("%s is no boolean", show(v))
}

// value is the opposite of truth.
func (t Truth) value() any {
	if t == Unknown {
		return unknown{}
	}
	return t == True
}

// kind names the type of a value, as casts do.
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

// number returns a value as a floating point number, if it is one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return math.NaN(), false
}
