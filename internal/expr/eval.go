package expr

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
)

// node is a part of a parsed expression.
type node interface {
	eval(get Lookup) (any, error)
}

type (
	constant struct{ value any }
	property struct{ name string }
	list     struct{ of []node }
	index    struct{ list, at node }
	unary    struct {
		op string
		of node
	}
	binary struct {
		op          string
		left, right node
	}
	cast struct {
		to string
		of node
	}
	hash struct{ of node }
)

// eval returns the literal.
func (n *constant) eval(Lookup) (any, error) { return n.value, nil }

// eval returns the property's value, unknown if it is not set.
func (n *property) eval(get Lookup) (any, error) {
	if v, ok := get(n.name); ok {
		return v, nil
	}
	return unknown{}, nil
}

// eval returns the list, unknown as a whole if one element is.
func (n *list) eval(get Lookup) (any, error) {
	out := make([]any, len(n.of))
	for i, of := range n.of {
		v, err := of.eval(get)
		if err != nil {
			return nil, err
		}
		if _, ok := v.(unknown); ok {
			return v, nil
		}
		out[i] = v
	}
	return out, nil
}

// eval returns the element; an index out of range is an error, as is anything
// but a list.
func (n *index) eval(get Lookup) (any, error) {
	l, err := n.list.eval(get)
	if err != nil {
		return nil, err
	}
	at, err := n.at.eval(get)
	if err != nil || either(l, at) {
		return unknown{}, err
	}
	values, ok := l.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", show(l))
	}
	i, ok := at.(int64)
	if !ok || i < 0 || i >= int64(len(values)) {
		return nil, fmt.Errorf("index %s is out of range of a list of %d", show(at), len(values))
	}
	return values[i], nil
}

// either reports whether one of two values is unknown.
func either(a, b any) bool {
	_, first := a.(unknown)
	_, second := b.(unknown)
	return first || second
}

// eval negates a boolean or a number.
func (n *unary) eval(get Lookup) (any, error) {
	v, err := n.of.eval(get)
	if _, ok := v.(unknown); ok || err != nil {
		return v, err
	}
	switch v := v.(type) {
	case bool:
		if n.op == "!" {
			return !v, nil
		}
	case int64:
		if n.op == "-" {
			return -v, nil
		}
	case float64:
		if n.op == "-" {
			return -v, nil
		}
	}
	return nil, fmt.Errorf("operator %s cannot be applied to %s", n.op, show(v))
}

// eval applies the operator. && and || need not evaluate the right side; all
// others are unknown if one side is.
func (n *binary) eval(get Lookup) (any, error) {
	left, err := n.left.eval(get)
	if err != nil {
		return nil, err
	}
	if n.op == "&&" || n.op == "||" {
		return n.logic(left, get)
	}
	right, err := n.right.eval(get)
	if err != nil {
		return nil, err
	}
	if either(left, right) {
		return unknown{}, nil
	}
	switch n.op {
	case "in":
		return contains(left, right)
	case "==", "!=":
		same, err := equal(left, right)
		return same == (n.op == "=="), err
	case "<", "<=", ">", ">=":
		return n.order(left, right)
	}
	return n.arithmetic(left, right)
}

// logic evaluates the right side only if the left one does not decide.
func (n *binary) logic(left any, get Lookup) (any, error) {
	decides := True
	if n.op == "&&" {
		decides = False
	}
	l, err := truth(left)
	if err != nil || l == decides {
		return l.value(), err
	}
	right, err := n.right.eval(get)
	if err != nil {
		return nil, err
	}
	r, err := truth(right)
	if r == decides || l != Unknown {
		return r.value(), err
	}
	return unknown{}, err
}

// contains reports whether a list has an element that equals v. Elements that
// cannot be compared with v are an error.
func contains(v, in any) (any, error) {
	values, ok := in.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", show(in))
	}
	for _, e := range values {
		same, err := equal(v, e)
		if err != nil {
			return nil, err
		}
		if same {
			return true, nil
		}
	}
	return false, nil
}

// equal reports whether two values are equal. Integers and floats compare as
// numbers; any other two types are an error, not false.
func equal(a, b any) (bool, error) {
	switch x := a.(type) {
	case bool:
		if y, ok := b.(bool); ok {
			return x == y, nil
		}
	case string:
		if y, ok := b.(string); ok {
			return x == y, nil
		}
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		if len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if same, err := equal(x[i], y[i]); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	case int64, float64:
		if c, ok := compare(a, b); ok {
			return c == 0, nil
		}
	}
	return false, fmt.Errorf("%s and %s cannot be compared", kind(a), kind(b))
}

// compare orders two numbers or two strings.
func compare(a, b any) (order int, ok bool) {
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y), true
		}
	}
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		return cmp.Compare(x, y), ok
	}
	x, first := number(a)
	y, second := number(b)
	return cmp.Compare(x, y), first && second
}

// order compares numbers with numbers and strings with strings.
func (n *binary) order(left, right any) (any, error) {
	c, ok := compare(left, right)
	if !ok {
		return nil, fmt.Errorf("%s and %s cannot be ordered", kind(left), kind(right))
	}
	switch n.op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// arithmetic computes with numbers, and joins strings with +. Two integers give
// an integer; with a float both count as floats.
func (n *binary) arithmetic(left, right any) (any, error) {
	if a, ok := left.(string); ok && n.op == "+" {
		if b, ok := right.(string); ok {
			if len(a)+len(b) > MaxLength {
				return nil, fmt.Errorf("string: must be at most %d bytes, got %d", MaxLength, len(a)+len(b))
			}
			return a + b, nil
		}
	}
	if a, ok := left.(int64); ok {
		if b, ok := right.(int64); ok {
			return calculate(n.op, a, b, func(a, b int64) int64 { return a % b })
		}
	}
	a, first := number(left)
	b, second := number(right)
	if !first || !second {
		return nil, fmt.Errorf("operator %s cannot be applied to %s and %s", n.op, kind(left), kind(right))
	}
	return calculate(n.op, a, b, math.Mod)
}

// errZero is the error of a division by zero, of integers or of floats.
var errZero = errors.New("division by zero")

// calculate applies an arithmetic operator. rest is the remainder, which Go's %
// has for integers only. Division by zero is an error for floats too.
func calculate[T int64 | float64](op string, a, b T, rest func(a, b T) T) (any, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	}
	if b == 0 {
		return nil, errZero
	}
	if op == "/" {
		return a / b, nil
	}
	return rest(a, b), nil
}

// eval converts to the type n.to. A string that is not a number, or a float
// that no int64 holds, is an error.
func (n *cast) eval(get Lookup) (any, error) {
	v, err := n.of.eval(get)
	if _, ok := v.(unknown); ok || err != nil || kind(v) == n.to {
		return v, err
	}
	switch n.to {
	case "rstring":
		switch v := v.(type) {
		case bool, int64:
			return fmt.Sprint(v), nil
		case float64:
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	case "int64":
		switch v := v.(type) {
		case float64:
			if v >= math.MinInt64 && v < math.MaxInt64 {
				return int64(v), nil
			}
		case string:
			if i, err := strconv.ParseInt(v, 10, 64); err == nil {
				return i, nil
			}
		case bool:
			if v {
				return int64(1), nil
			}
			return int64(0), nil
		}
	case "float64":
		switch v := v.(type) {
		case int64:
			return float64(v), nil
		case string:
			if f, err := strconv.ParseFloat(v, 64); err == nil {
				return f, nil
			}
		}
	case "boolean":
		switch v := v.(type) {
		case int64:
			return v != 0, nil
		case string:
			if v == "true" || v == "false" {
				return v == "true", nil
			}
		}
	}
	return nil, fmt.Errorf("%s cannot be cast to %s", show(v), n.to)
}

// eval of a hash is FNV-1a of the value's text, without the sign.
func (n *hash) eval(get Lookup) (any, error) {
	v, err := n.of.eval(get)
	if _, ok := v.(unknown); ok || err != nil {
		return v, err
	}
	if _, ok := v.([]any); ok {
		return nil, fmt.Errorf("%s cannot be hashed", show(v))
	}
	h := fnv.New64a()
	fmt.Fprint(h, v)
	return int64(h.Sum64() & math.MaxInt64), nil
}
