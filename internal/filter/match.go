package filter

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-bexpr/grammar"
)

// match compares a value of the object with a constant.
type match struct {
	what   *selector
	absent bool // the result if there is no such value
	negate bool
	test   test
}

// test reports whether a value that exists passes.
type test func(reflect.Value) (bool, error)

// eval implements node.
func (m *match) eval(e *env) (bool, error) {
	if err := e.step(); err != nil {
		return false, err
	}
	v, ok := m.what.find(e)
	if !ok {
		return m.absent, nil
	}
	ok, err := m.test(v)
	return ok != m.negate && err == nil, err
}

// match compiles a comparison.
func (c *compiler) match(x *grammar.MatchExpression) (node, error) {
	what, err := c.selector(x.Selector)
	if err != nil {
		return nil, err
	}
	m := &match{what: what, absent: x.Operator.NotPresentDisposition()}
	raw := ""
	if x.Value != nil {
		raw = x.Value.Raw
	}
	var make func(reflect.Type, string) (test, error)
	switch x.Operator {
	case grammar.MatchEqual, grammar.MatchNotEqual:
		make, m.negate = equal, x.Operator == grammar.MatchNotEqual
	case grammar.MatchIn, grammar.MatchContains, grammar.MatchNotIn, grammar.MatchNotContains:
		make, m.negate = holds, x.Operator == grammar.MatchNotIn || x.Operator == grammar.MatchNotContains
	case grammar.MatchIsEmpty, grammar.MatchIsNotEmpty:
		make, m.negate = empty, x.Operator == grammar.MatchIsNotEmpty
	case grammar.MatchIsNil, grammar.MatchIsNotNil:
		make, m.negate = isNil, x.Operator == grammar.MatchIsNotNil
	case grammar.MatchMatches, grammar.MatchNotMatches:
		make, m.negate = matches, x.Operator == grammar.MatchNotMatches
	default:
		return nil, fmt.Errorf("operator %s is not supported", x.Operator)
	}
	if what.typ.Kind() == reflect.Interface || m.nilable(x.Operator) {
		m.test = later(make, raw)
	} else if m.test, err = make(what.typ, raw); err != nil {
		return nil, fmt.Errorf("%s: %w", x.Selector, err)
	}
	return m, nil
}

// nilable reports whether a test for nil is about a key of a map or an index of a
// list: those can be missing, whatever the type of the elements.
func (m *match) nilable(op grammar.MatchOperator) bool {
	n := len(m.what.steps)
	return (op == grammar.MatchIsNil || op == grammar.MatchIsNotNil) && n > 0 && m.what.steps[n-1].by != byField
}

// later tests values whose types differ from object to object. A value that the
// test does not apply to fails it.
func later(make func(reflect.Type, string) (test, error), raw string) test {
	return func(v reflect.Value) (bool, error) {
		t, err := make(v.Type(), raw)
		if err != nil {
			return false, nil
		}
		return t(v)
	}
}

// equal tests for the value that a text stands for.
func equal(t reflect.Type, raw string) (test, error) {
	t = deref(t)
	if textual(t) {
		return func(v reflect.Value) (bool, error) {
			s, err := textOf(v)
			return s == raw, err
		}, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		want, err := strconv.ParseBool(raw)
		return func(v reflect.Value) (bool, error) { return v.Bool() == want, nil }, wrong(raw, "true or false", err)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		want, err := strconv.ParseInt(raw, 0, 64)
		return func(v reflect.Value) (bool, error) { return v.Int() == want, nil }, wrong(raw, "an integer", err)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		want, err := strconv.ParseUint(raw, 0, 64)
		return func(v reflect.Value) (bool, error) { return v.Uint() == want, nil }, wrong(raw, "a positive integer", err)
	case reflect.Float32, reflect.Float64:
		want, err := strconv.ParseFloat(raw, 64)
		return func(v reflect.Value) (bool, error) { return v.Float() == want, nil }, wrong(raw, "a number", err)
	case reflect.Interface:
		return later(equal, raw), nil
	}
	return nil, fmt.Errorf("is %s and cannot be compared with %q", name(t), raw)
}

// wrong returns the error of a constant that does not have the type of its
// field; nil if err is.
func wrong(raw, want string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("must be compared with %s, got %q", want, raw)
}

// holds tests for a key of a map, an element of a list, or a part of a text.
func holds(t reflect.Type, raw string) (test, error) {
	if textual(t) {
		return func(v reflect.Value) (bool, error) {
			s, err := textOf(v)
			return strings.Contains(s, raw), err
		}, nil
	}
	switch t.Kind() {
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			key := reflect.ValueOf(raw).Convert(t.Key())
			return func(v reflect.Value) (bool, error) { return v.MapIndex(key).IsValid(), nil }, nil
		}
	case reflect.Slice, reflect.Array:
		one, err := equal(t.Elem(), raw)
		if err != nil {
			return nil, err
		}
		return func(v reflect.Value) (bool, error) {
			for i := range v.Len() {
				x, ok := behind(v.Index(i))
				if !ok {
					continue
				}
				if ok, err := one(x); err != nil || ok {
					return ok, err
				}
			}
			return false, nil
		}, nil
	}
	return nil, fmt.Errorf("is %s and contains nothing", name(t))
}

// empty tests for a text, a list or a map without content. A block that exists
// is not empty.
func empty(t reflect.Type, _ string) (test, error) {
	switch {
	case textual(t):
		return func(v reflect.Value) (bool, error) {
			s, err := textOf(v)
			return s == "", err
		}, nil
	case t.Kind() == reflect.Struct:
		return func(reflect.Value) (bool, error) { return false, nil }, nil
	case slices.Contains([]reflect.Kind{reflect.Map, reflect.Slice, reflect.Array}, t.Kind()):
		return func(v reflect.Value) (bool, error) { return v.Len() == 0, nil }, nil
	}
	return nil, fmt.Errorf("is %s, which is never empty", name(t))
}

// isNil tests for a list or a map that is null. A block that exists is not.
func isNil(t reflect.Type, _ string) (test, error) {
	switch t.Kind() {
	case reflect.Struct:
		return func(reflect.Value) (bool, error) { return false, nil }, nil
	case reflect.Map, reflect.Slice:
		return func(v reflect.Value) (bool, error) { return v.IsNil(), nil }, nil
	}
	return nil, fmt.Errorf("is %s, which is never nil", name(t))
}

// matches tests for a regular expression.
func matches(t reflect.Type, raw string) (test, error) {
	re, err := regexp.Compile(raw)
	if err != nil {
		return nil, fmt.Errorf("%q is not a regular expression: %w", raw, err)
	}
	if !textual(t) {
		return nil, fmt.Errorf("is %s and not text", name(t))
	}
	return func(v reflect.Value) (bool, error) {
		s, err := textOf(v)
		return err == nil && re.MatchString(s), err
	}, nil
}

// textOf returns the text of a textual value.
func textOf(v reflect.Value) (string, error) {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, err := m.MarshalText()
		return string(b), err
	}
	return v.String(), nil
}

// name is what a user calls a type.
func name(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return "a block"
	case reflect.Map:
		return "a map"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Bool:
		return "a boolean"
	}
	if textual(t) {
		return "a text"
	}
	return "a number"
}

// loop tests the elements of a list, or the keys or values of a map.
type loop struct {
	over  *selector
	all   bool // every element must pass; otherwise any
	inner node
	key   bool // the first variable is a key or an index, and comes first
	value bool
}

// loop compiles "any LIST as x { … }" and "all …". One name stands for the
// element of a list or for the key of a map; two stand for index or key, and
// value.
func (c *compiler) loop(x *grammar.CollectionExpression) (node, error) {
	over, err := c.selector(x.Selector)
	if err != nil {
		return nil, err
	}
	n := &loop{over: over, all: x.Op == grammar.CollectionOpAll}
	keyType, valueType := reflect.TypeFor[int](), anyType
	switch t := over.typ; t.Kind() {
	case reflect.Map:
		keyType, valueType = t.Key(), t.Elem()
	case reflect.Slice, reflect.Array:
		valueType = t.Elem()
	case reflect.Interface:
		keyType = anyType
	default:
		return nil, fmt.Errorf("%s is %s, not a list or a map", x.Selector, name(t))
	}
	names := x.NameBinding
	before := len(c.vars)
	bind := func(name string, t reflect.Type, has *bool) {
		if name != "" {
			c.vars, *has = append(c.vars, variable{name, t}), true
		}
	}
	switch {
	case names.Index != "" && names.Index == names.Value:
		return nil, fmt.Errorf("%q cannot name both the index and the value", names.Index)
	case names.Default == "":
		bind(names.Index, keyType, &n.key)
		bind(names.Value, valueType, &n.value)
	case over.typ.Kind() == reflect.Map:
		bind(names.Default, keyType, &n.key)
	default:
		bind(names.Default, valueType, &n.value)
	}
	n.inner, err = c.expression(x.Inner)
	c.vars = c.vars[:before]
	return n, err
}

// errLoop ends a loop over something that cannot be looped over.
var errLoop = errors.New("not a list or a map")

// eval implements node.
func (n *loop) eval(e *env) (bool, error) {
	v, ok := n.over.find(e)
	if !ok {
		return n.all, nil
	}
	once := func(key, value reflect.Value) (over bool, err error) {
		if err := e.step(); err != nil {
			return true, err
		}
		before := len(e.vars)
		if n.key {
			e.vars = append(e.vars, key)
		}
		if n.value {
			e.vars = append(e.vars, value)
		}
		ok, err := n.inner.eval(e)
		e.vars = e.vars[:before]
		return ok != n.all || err != nil, err
	}
	switch v.Kind() {
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if over, err := once(it.Key(), it.Value()); over {
				return !n.all && err == nil, err
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if over, err := once(reflect.ValueOf(i), v.Index(i)); over {
				return !n.all && err == nil, err
			}
		}
	default:
		return false, errLoop
	}
	return n.all, nil
}
