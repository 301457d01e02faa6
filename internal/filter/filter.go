// Package filter selects objects by expressions in the language of Nomad's
// filters, which the module go-bexpr parses:
//
//	Status == "ready" and Attributes["kernel.name"] == "linux"
//
// Evaluation is our own: an expression is compiled once for the types of the
// objects, so that an unknown field or a value of the wrong type is an error
// before the first object is looked at, and no object is encoded. Fields have
// the names that they have in JSON; what JSON leaves out does not exist. What
// lies in an absent block, or under an absent key, is absent: it equals
// nothing, and is empty and nil.
package filter

import (
	"errors"
	"fmt"
	"reflect"

	"berth/internal/limit"

	"github.com/hashicorp/go-bexpr/grammar"
)

// Limits of expressions.
const (
	MaxLength = 2048 // bytes
	// maxParse bounds the steps of parsing, which grow fast with parentheses
	// within parentheses.
	maxParse = 500_000
	// maxSteps bounds the comparisons on one object, which grow fast with loops
	// within loops.
	maxSteps = 100_000
)

var length = limit.Declare(limit.Info{
	Name: "filter_bytes", Of: "Bytes of a filter expression", Unit: limit.Bytes, Default: MaxLength, Beyond: "400",
})

// A Part is one struct that an object consists of. An object can have several,
// for example the stored row and what is computed from it; each is only
// asked for if the expression looks at it.
type Part struct {
	Type reflect.Type // a struct or a pointer to one
	// Without are fields that the next parts provide.
	Without []string
}

// Filter is a compiled expression. It is immutable.
type Filter struct{ root node }

// Compile compiles an expression over objects of some parts. A field belongs to
// the first part that has it.
func Compile(text string, parts ...Part) (*Filter, error) {
	if len(text) > MaxLength {
		length.Refuse()
		return nil, fmt.Errorf("filter: %d bytes is too long: the limit is %d", len(text), MaxLength)
	}
	tree, err := grammar.Parse("", []byte(text), grammar.MaxExpressions(maxParse))
	if err != nil {
		return nil, fmt.Errorf("failed to read filter expression: %w", err)
	}
	c := &compiler{parts: parts}
	root, err := c.expression(tree.(grammar.Expression))
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	return &Filter{root}, nil
}

// Match reports whether an object meets the expression. part returns one of its
// parts, a struct or a pointer to one that is not nil; it is called at most once for
// each.
func (f *Filter) Match(part func(int) any) (bool, error) {
	e := env{part: part}
	ok, err := f.root.eval(&e)
	if err != nil {
		return false, fmt.Errorf("filter: %w", err)
	}
	return ok, nil
}

// env is what an expression is evaluated on.
type env struct {
	part  func(int) any
	known [4]reflect.Value // parts that were asked for
	vars  []reflect.Value  // of the loops that are running
	steps int
}

// errSteps is returned for an object that takes too many steps.
var errSteps = errors.New("the expression takes too many steps on one object")

// step counts a comparison.
func (e *env) step() error {
	if e.steps++; e.steps > maxSteps {
		return errSteps
	}
	return nil
}

// get returns a part of the object.
func (e *env) get(i int) reflect.Value {
	if i >= len(e.known) {
		return reflect.ValueOf(e.part(i))
	}
	if !e.known[i].IsValid() {
		e.known[i] = reflect.ValueOf(e.part(i))
	}
	return e.known[i]
}

// node is a compiled expression.
type node interface {
	eval(*env) (bool, error)
}

// The nodes that combine others.
type (
	not struct{ of node }
	and struct{ left, right node }
	or  struct{ left, right node }
)

// eval implements node.
func (n not) eval(e *env) (bool, error) {
	ok, err := n.of.eval(e)
	return !ok && err == nil, err
}

// eval implements node.
func (n and) eval(e *env) (bool, error) {
	if ok, err := n.left.eval(e); err != nil || !ok {
		return false, err
	}
	return n.right.eval(e)
}

// eval implements node.
func (n or) eval(e *env) (bool, error) {
	if ok, err := n.left.eval(e); err != nil || ok {
		return ok, err
	}
	return n.right.eval(e)
}

// compiler compiles an expression.
type compiler struct {
	parts []Part
	vars  []variable // of the loops around, the innermost last
}

// variable is a name that a loop gives to a key, an index or an element.
type variable struct {
	name string
	typ  reflect.Type
}

// expression compiles any expression.
func (c *compiler) expression(x grammar.Expression) (node, error) {
	switch x := x.(type) {
	case *grammar.UnaryExpression:
		of, err := c.expression(x.Operand)
		return not{of}, err
	case *grammar.BinaryExpression:
		left, err := c.expression(x.Left)
		if err != nil {
			return nil, err
		}
		right, err := c.expression(x.Right)
		if x.Operator == grammar.BinaryOpAnd {
			return and{left, right}, err
		}
		return or{left, right}, err
	case *grammar.MatchExpression:
		return c.match(x)
	case *grammar.CollectionExpression:
		return c.loop(x)
	}
	return nil, fmt.Errorf("%T is not supported", x)
}
