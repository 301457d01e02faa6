package jobspec

import (
	"fmt"
	"strings"

	"berth"

	"berth/internal/decode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// given is the value that a variable was given from outside the job file.
type given struct {
	from string // "-var", a variable's name in the environment, a file
	text string
	expr hclsyntax.Expression // from an HCL file
	tree any                  // from a JSON file
	kind givenKind
}

// givenKind is where a value comes from, and so how it is read.
type givenKind int

const (
	givenText givenKind = iota // from -var or the environment
	givenExpr                  // from a variable file in HCL
	givenTree                  // from a variable file in JSON
)

// give reads values from outside, in rising precedence.
func (s *scope) give(o Options) {
	for _, prefix := range []string{"NOMAD_VAR_", "BERTH_VAR_"} {
		for _, kv := range o.Env {
			key, text, _ := strings.Cut(kv, "=")
			name, ok := strings.CutPrefix(key, prefix)
			if v := s.vars[name]; ok && v != nil {
				v.given = &given{from: key, text: text}
			}
		}
	}
	if len(o.VarFiles)+len(o.Vars) > maxVars {
		s.problems.addf("-var", "", "at most %d values and files are allowed, got %d", maxVars, len(o.VarFiles)+len(o.Vars))
		return
	}
	for _, f := range o.VarFiles {
		s.giveFile(f, o.Strict)
	}
	size := 0
	for _, kv := range o.Vars {
		name, text, ok := strings.Cut(kv, "=")
		from := "-var " + berth.Clip(name, 64)
		if size += len(kv); size > MaxText {
			s.problems.addf("-var", "", "the values must be at most %d bytes in total", MaxText)
			return
		}
		if !ok {
			s.problems.addf(from, "", "must be name=value")
			continue
		}
		s.giveOne(name, &given{from: from, text: text}, o.Strict, hcl.Range{})
	}
}

// giveOne stores a value that was given from outside; the last one given wins.
// With strict, a name that the job does not declare is a problem, reported at
// the range if it has one, else at where the value is from.
func (s *scope) giveOne(name string, g *given, strict bool, at hcl.Range) {
	v := s.vars[name]
	if v != nil {
		v.given = g
		return
	}
	if !strict {
		return
	}
	text := fmt.Sprintf("the job declares no variable %q%s", berth.Clip(name, 64), meant(name, keys(s.vars)))
	if at.Filename != "" {
		s.problems.add(at, "", text)
		return
	}
	s.problems.addf(g.from, "", "%s", text)
}

// giveFile reads a variable file, in HCL or JSON, and gives its values.
// Problems go to the scope.
func (s *scope) giveFile(f File, strict bool) {
	if isJSON(f.Text) {
		if err := checkSize(f); err != nil {
			s.problems.addf("", "", "%v", err)
			return
		}
		// Each token becomes a value, so their number bounds the
		// memory.
		if n := signs(f.Text); n > maxSigns {
			s.problems.addf(f.Name, "", "at most %d words and punctuation marks are allowed, got %d", maxSigns, n)
			return
		}
		tree, err := decode.ParseJSON(f.Text)
		if err != nil {
			s.problems.addf(f.Name, "", "%v", err)
			return
		}
		for _, name := range keys(tree) {
			s.giveOne(name, &given{from: f.Name, tree: tree[name], kind: givenTree}, strict, hcl.Range{})
		}
		return
	}
	body, ok := parseBody(f, s.problems)
	if !ok {
		return
	}
	s.sources[f.Name] = f.Text
	for _, b := range body.Blocks {
		s.problems.add(b.DefRange(), b.Type, "a variable file can only have name = value lines")
	}
	for _, a := range inOrder(body.Attributes) {
		s.giveOne(a.Name, &given{from: f.Name, expr: a.Expr, kind: givenExpr}, strict, a.NameRange)
	}
}

// givenValue returns the value that was given for a variable. Text is taken
// literally for strings and for variables without a type and default. It is an
// expression for lists, maps and objects, and for the type any if it parses as
// one.
func (s *scope) givenValue(v *variable, def cty.Value) (cty.Value, bool) {
	g := v.given
	typ := v.typ
	// Without a declared type, the default shows which one is meant.
	if !v.typed && v.def != nil && !def.IsNull() {
		typ = looseType(def.Type())
	}
	var val cty.Value
	switch g.kind {
	case givenTree:
		val = valueOf(g.tree)
	case givenExpr:
		if val = s.outside(v, g); !val.IsWhollyKnown() {
			return val, false
		}
	default:
		switch {
		// A text for a simple type is the value itself; for other types
		// it is an expression.
		case typ.IsPrimitiveType(), !v.typed && v.def == nil, !v.typed && def.IsNull():
			val = cty.StringVal(g.text)
		default:
			e, ok := s.parseGiven(v, typ == cty.DynamicPseudoType && v.typed)
			if !ok {
				return cty.DynamicVal, false
			}
			if e == nil {
				val = cty.StringVal(g.text)
				break
			}
			g.expr = e
			if val = s.outside(v, g); !val.IsWhollyKnown() {
				return val, false
			}
		}
	}
	// typedValue reads the type from v, so the assumed one stands in for
	// it.
	was := v.typ
	v.typ = typ
	out, text := s.typedValue(v, val)
	v.typ = was
	if text != "" {
		s.problems.addf(g.from, v.path(), "%s", text)
		return out, false
	}
	return out, true
}

// outside evaluates an expression from outside the job file. It can call
// functions but not refer to variables or locals.
func (s *scope) outside(v *variable, g *given) cty.Value {
	e, uses := s.prepare(g.expr, v.path(), nil)
	for _, u := range uses {
		s.problems.addf(g.from, v.path(), "a value from outside the job file cannot refer to %s", u)
		return cty.DynamicVal
	}
	return s.eval(e, s.context(nil), v.path())
}

// parseGiven parses text as an expression. With mayBeText it returns nil if the
// text is not an expression.
func (s *scope) parseGiven(v *variable, mayBeText bool) (hclsyntax.Expression, bool) {
	f := File{Name: v.given.from, Text: []byte(v.given.text)}
	if err := checkSize(f); err != nil {
		s.problems.addf("", v.path(), "%v", err)
		return nil, false
	}
	if rng, what := tooCostly(f); what != "" {
		s.problems.add(rng, v.path(), what)
		return nil, false
	}
	e, diags := hclsyntax.ParseExpression(f.Text, f.Name, hcl.InitialPos)
	switch {
	case mayBeText && (diags.HasErrors() || len(e.Variables()) > 0):
		return nil, true
	case diags.HasErrors():
		s.problems.diags(diags, v.path())
		return nil, false
	}
	s.sources[f.Name] = f.Text
	return e, true
}

// looseType returns the type of a variable without a declared type from that of
// its default: any list for a list, any map for a map.
func looseType(t cty.Type) cty.Type {
	if t.IsPrimitiveType() {
		return t
	}
	return cty.DynamicPseudoType
}
