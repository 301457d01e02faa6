package jobspec

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"berth"
)

// meter counts the cost of the expressions of one parse. The evaluator is a
// library without limits, so every node that can loop or build values is
// wrapped (see prepare.go) and charged here when it is evaluated.
type meter struct {
	ctx    context.Context // ends the parse early
	steps  int             // of maxSteps
	built  int             // of maxBuilt
	bytes  int             // of maxBytes
	blocks int             // of MaxBlocks
	blame  hcl.Range       // the innermost expression being evaluated
	path   string          // of the field whose expression that is; "" if it is in no field
	spent  *exhausted      // stays set, since the function library turns panics into errors
}

// exhausted is the panic that ends a parse over its limits, since only a panic
// leaves the loops of the evaluator. It never leaves this package.
type exhausted struct {
	rng   hcl.Range
	path  string // of the field
	what  string
	cause error // of the context, if it ended
}

// err returns the limit that was reached as an Invalid error, at the expression
// that reached it.
func (e exhausted) err() error {
	ps := berth.Problems{problemAt(e.rng, e.path, e.what)}
	if e.cause != nil {
		return berth.Errorf(berth.Invalid, "%w: %w", ps, e.cause)
	}
	return ps.Err()
}

// fail ends the evaluation with a problem at the expression to blame. It does
// not return.
func (m *meter) fail(format string, args ...any) {
	m.end(exhausted{rng: m.blame, path: m.path, what: fmt.Sprintf(format, args...)})
}

// end remembers why and panics. The panic is recovered at the entry points of
// the package; HCL's own recovery in between must not hide it.
func (m *meter) end(e exhausted) {
	m.spent = &e
	panic(e)
}

// step charges n steps of work.
func (m *meter) step(n int) {
	if m.spent != nil {
		panic(*m.spent)
	}
	before := m.steps
	m.steps += n
	if m.steps > maxSteps {
		m.fail("the expressions of the file take more than %d steps", maxSteps)
	}
	if before>>12 != m.steps>>12 {
		m.check()
	}
}

const cancelled = "parsing was cancelled"

// check ends the parse if its context has ended.
func (m *meter) check() {
	if m.ctx.Err() != nil {
		m.end(exhausted{rng: m.blame, what: cancelled, cause: context.Cause(m.ctx)})
	}
}

// text charges n bytes of text, produced or read.
func (m *meter) text(n int) {
	m.step(n >> 8)
	if n > maxValue {
		m.fail("a string can have at most %d bytes, got %d", maxValue, n)
	}
	if m.bytes += n; m.bytes > maxBytes {
		m.fail("the expressions of the file produce or read more than %d bytes of text", maxBytes)
	}
}

// block charges one block.
func (m *meter) block(at hcl.Range) {
	if m.blocks++; m.blocks > MaxBlocks {
		m.blame, m.path = at, ""
		m.fail("the job has more than %d blocks, including generated ones", MaxBlocks)
	}
	m.step(8)
}

// look charges for walking a value, a step for each element and its text in
// bytes. It returns the number of elements.
func (m *meter) look(v cty.Value) int { return m.compare(v, 0) }

// compare is look for a value whose elements will be converted to one type: the
// library compares all their types pairwise. weight is the cost of 1000
// comparisons in steps.
func (m *meter) compare(v cty.Value, weight int) int {
	t := tally{m: m}
	t.add(v)
	m.step(t.elems + t.pairs/1000*weight)
	m.text(t.bytes)
	return t.elems
}

// build charges for a value that an expression produced.
func (m *meter) build(v cty.Value) {
	if m.built += m.look(v); m.built > maxBuilt {
		m.fail("the expressions of the file produce more than %d elements", maxBuilt)
	}
}

// The measured cost of 1000 type comparisons in steps, for one value and for
// two that are converted to one type.
const (
	pairsOne = 15 // steps for 1000 comparisons with one type
	pairsTwo = 50 // steps for 1000 comparisons between two values
)

// tally measures a value and stops when it is too large: values can share
// parts, so one that is small in memory may take forever to walk.
type tally struct {
	m            *meter
	elems, bytes int
	pairs        int // of elements with possibly different types
}

// add counts a value with all it contains and fails the meter as soon as one
// total is too large. Unknown values and null count nothing.
func (t *tally) add(v cty.Value) {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() {
		return
	}
	ty := v.Type()
	switch {
	case ty == cty.String:
		if t.bytes += len(v.AsString()); t.bytes > maxValue {
			t.m.fail("a value can have at most %d bytes", maxValue)
		}
	case ty == cty.Number:
		// A number with a large exponent is small in memory and long as
		// text.
		if f := v.AsBigFloat(); f.IsInf() || f.MantExp(nil) > maxExp || f.MantExp(nil) < -maxExp {
			t.m.fail("the number is out of range: it must be finite, with at most %d binary digits before and after the point", maxExp)
		}
	case ty.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType():
		n := v.LengthInt()
		if t.elems += 1 + n; t.elems > maxElems {
			t.m.fail("a value can have at most %d elements", maxElems)
		}
		// The elements of tuples and objects can differ in type; see
		// compare.
		if !ty.IsCollectionType() {
			t.pairs += n * n
		}
		for it := v.ElementIterator(); it.Next(); {
			k, x := it.Element()
			if ty.IsMapType() || ty.IsObjectType() {
				t.bytes += len(k.AsString())
			}
			t.add(x)
		}
	}
}

// metered is an expression whose evaluation is charged. It embeds the library's
// node, since other packages cannot implement the interface.
type metered struct {
	hclsyntax.Expression
	m *meter
	// cost charges for the value, beyond one step.
	cost func(*meter, cty.Value)
}

// UnwrapExpression lets HCL find the expression below, for static analysis.
func (e *metered) UnwrapExpression() hcl.Expression { return e.Expression }

// Value implements hcl.Expression. It charges one step before the evaluation
// and the cost of the value after it.
func (e *metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	outer := e.m.blame
	e.m.blame = e.Expression.Range()
	e.m.step(1)
	v, diags := e.Expression.Value(ctx)
	if len(diags) > 0 {
		e.m.step(100 * len(diags)) // in a loop a fault occurs many times
	}
	e.m.blame = e.Expression.Range()
	if e.cost != nil {
		e.cost(e.m, v)
	}
	e.m.blame = outer
	return v, diags
}

// The costs of values.
var (
	costBuild = (*meter).build
	costLook  = func(m *meter, v cty.Value) { m.look(v) }
	costType  = func(m *meter, v cty.Value) { m.compare(v, pairsOne) } // it will be converted to another type
	costTypes = func(m *meter, v cty.Value) { m.compare(v, pairsTwo) } // it and another value will be converted to one type
	costLoop  = func(m *meter, v cty.Value) {                          // a loop visits each element
		v, _ = v.Unmark()
		if v.IsKnown() && !v.IsNull() && v.CanIterateElements() {
			m.step(v.LengthInt())
		}
	}
)

// knownNow is an expression whose value is needed during parsing, so it must
// not contain references that only an agent can resolve.
type knownNow struct {
	hclsyntax.Expression
	m    *meter
	what string // that needs the value: "the function upper"
}

// UnwrapExpression lets HCL find the expression below, for static analysis.
func (e *knownNow) UnwrapExpression() hcl.Expression { return e.Expression }

// Value implements hcl.Expression. A value that contains a reference for the
// agent, such as ${attr.…}, is an error: nothing can be decided by it here.
func (e *knownNow) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := e.Expression.Value(ctx)
	e.m.blame = e.Expression.Range()
	e.m.look(v)
	ref := runtimeIn(v)
	if ref == "" {
		return v, diags
	}
	return cty.DynamicVal, append(diags, &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  fmt.Sprintf("%s cannot work with %s", e.what, ref),
		Detail:   "its value is only known where the task runs",
		Subject:  e.Expression.Range().Ptr(),
	})
}

// divisor is the right side of a division, which must not be 0: the evaluator
// would go on with an infinite number.
type divisor struct{ hclsyntax.Expression }

// UnwrapExpression lets HCL find the expression below, for static analysis.
func (e *divisor) UnwrapExpression() hcl.Expression { return e.Expression }

// Value implements hcl.Expression. The value 0 is an error at the divisor.
func (e *divisor) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := e.Expression.Value(ctx)
	plain, _ := v.Unmark()
	n, err := convert.Convert(plain, cty.Number) // a text can stand for a number
	if err != nil || n.IsNull() || !n.IsKnown() || n.AsBigFloat().Sign() != 0 {
		return v, diags
	}
	return cty.DynamicVal, append(diags, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "division by zero: the divisor must not be 0", Subject: e.Expression.Range().Ptr(),
	})
}
