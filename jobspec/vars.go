package jobspec

import (
	"fmt"

	"berth"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// variable is a declared input of a job file.
type variable struct {
	name     string
	at       hcl.Range            // its declaration
	typ      cty.Type             // DynamicPseudoType accepts any
	typed    bool                 // a type is declared
	optional *typeexpr.Defaults   // defaults of optional attributes in typ
	def      *hclsyntax.Attribute // nil: a value must be given
	nullable bool
	rules    []rule
	broken   bool      // its declaration has a problem, so its value is not checked
	given    *given    // from outside; nil: the default counts
	value    cty.Value // set once it is settled
}

// path returns the variable's name for problems.
func (v *variable) path() string { return "variable[" + berth.Clip(v.name, 64) + "]" }

// rule is a validation block.
type rule struct {
	condition, message hclsyntax.Expression
	at                 hcl.Range
}

var (
	variableAttrs = []string{"default", "description", "nullable", "type"}
	ruleAttrs     = []string{"condition", "error_message"}
)

// newVariable declares a variable, or notes a problem if the name is invalid or
// taken.
func (s *scope) newVariable(name string, at hcl.Range) *variable {
	if !hclsyntax.ValidIdentifier(name) {
		s.problems.add(at, "variable", fmt.Sprintf("must be a letter followed by letters, digits, _ or -, got %q", berth.Clip(name, 64)))
		return nil
	}
	if first := s.vars[name]; first != nil {
		s.problems.add(at, first.path(), "is defined twice; the first is at "+rangeText(first.at))
		return nil
	}
	v := &variable{name: name, at: at, typ: cty.DynamicPseudoType, nullable: true, value: cty.DynamicVal}
	s.vars[name] = v
	return v
}

// declareVariable reads a variable block. The default is evaluated later, once
// the type is known; type, description and nullable must be literals.
func (s *scope) declareVariable(b *hclsyntax.Block) {
	if len(b.Labels) != 1 {
		return // reported by sortTop
	}
	v := s.newVariable(b.Labels[0], b.DefRange())
	if v == nil {
		return
	}
	for _, a := range inOrder(b.Body.Attributes) {
		switch a.Name {
		case "type":
			s.declareType(v, a)
		case "default":
			v.def = a
		case "description":
			e, uses := s.prepare(a.Expr, v.path()+".description", nil)
			s.literal(v, "description", uses)
			s.eval(e, s.context(nil), v.path()+".description")
		case "nullable":
			e, uses := s.prepare(a.Expr, v.path()+".nullable", nil)
			s.literal(v, "nullable", uses)
			if val := s.eval(e, s.context(nil), v.path()+".nullable"); val.Type() == cty.Bool && val.IsKnown() && !val.IsNull() {
				v.nullable = val.True()
			} else if val.IsKnown() {
				s.problems.add(a.Expr.Range(), v.path()+".nullable", "must be true or false")
			}
		default:
			s.problems.add(a.NameRange, v.path()+"."+a.Name, "unknown attribute of a variable"+meant(a.Name, variableAttrs))
		}
	}
	for _, inner := range b.Body.Blocks {
		if inner.Type != "validation" || len(inner.Labels) > 0 {
			s.problems.add(inner.DefRange(), v.path()+"."+inner.Type, "unknown block: a variable can only have validation { … }")
			continue
		}
		s.declareRule(v, inner)
	}
}

// declareType reads the type with its optional attributes. A variable whose
// type is invalid is broken: its value is unknown and causes no further
// problems.
func (s *scope) declareType(v *variable, a *hclsyntax.Attribute) {
	typ, optional, diags := typeexpr.TypeConstraintWithDefaults(a.Expr)
	if diags.HasErrors() {
		s.problems.diags(diags, v.path()+".type")
		v.broken = true
		return
	}
	v.typ, v.optional, v.typed = typ, optional, true
}

// declareRule reads a validation block. Its expressions are evaluated by
// validate, when the variable has a value.
func (s *scope) declareRule(v *variable, b *hclsyntax.Block) {
	at := v.path() + ".validation"
	r := rule{at: b.DefRange()}
	for _, a := range inOrder(b.Body.Attributes) {
		switch a.Name {
		case "condition":
			r.condition = a.Expr
		case "error_message":
			r.message = a.Expr
		default:
			s.problems.add(a.NameRange, at+"."+a.Name, "unknown attribute of a validation"+meant(a.Name, ruleAttrs))
		}
	}
	for _, inner := range b.Body.Blocks {
		s.problems.add(inner.DefRange(), at+"."+inner.Type, "unknown block: a validation has no blocks")
	}
	if r.condition == nil || r.message == nil {
		s.problems.add(b.DefRange(), at, "needs both condition and error_message")
		return
	}
	v.rules = append(v.rules, r)
}

// declareDefaults reads a variables block, which has names and defaults.
func (s *scope) declareDefaults(b *hclsyntax.Block) {
	for _, inner := range b.Body.Blocks {
		s.problems.add(inner.DefRange(), "variables."+inner.Type, "must be name = default")
	}
	for _, a := range inOrder(b.Body.Attributes) {
		if v := s.newVariable(a.Name, a.NameRange); v != nil {
			v.def = a
		}
	}
}

// prepareVariable prepares the expressions of a variable once all names are
// known.
func (s *scope) prepareVariable(v *variable) {
	if v.def != nil {
		var uses []use
		v.def.Expr, uses = s.prepare(v.def.Expr, v.path()+".default", nil)
		s.literal(v, "default", uses)
	}
	for i := range v.rules {
		r := &v.rules[i]
		for _, e := range []*hclsyntax.Expression{&r.condition, &r.message} {
			var uses []use
			*e, uses = s.prepare(*e, v.path()+".validation", nil)
			for _, u := range uses {
				if u.kind != "var" || u.name != v.name {
					s.problems.add(u.at, v.path()+".validation", fmt.Sprintf("can only refer to var.%s, not to %s", v.name, u))
					v.broken = true
				}
			}
		}
	}
}

// literal refuses references in a value that must be a literal, and names the
// cycle if they lead back to the variable.
func (s *scope) literal(v *variable, attr string, uses []use) {
	for _, u := range uses {
		v.broken = true
		text := fmt.Sprintf("cannot refer to %s; use locals for computed values", u)
		if trail := s.backTo(v, u, map[use]bool{}); trail != "" {
			text = "refers to itself: " + trail
		}
		s.problems.add(u.at, v.path()+"."+attr, text)
	}
}

// backTo returns the path from a use to the variable, or "" if there is none.
func (s *scope) backTo(v *variable, u use, seen map[use]bool) string {
	u.at = hcl.Range{}
	if u.kind == "var" {
		if u.name == v.name {
			return u.String()
		}
		return "" // reported for its own default
	}
	l := s.locals[u.name]
	if l == nil || seen[u] {
		return ""
	}
	seen[u] = true
	uses := l.uses
	if uses == nil { // not prepared yet
		for _, t := range l.attr.Expr.Variables() {
			if len(t) > 1 && (t.RootName() == "var" || t.RootName() == "local") {
				uses = append(uses, use{kind: t.RootName(), name: stepName(t[1])})
			}
		}
	}
	for _, next := range uses {
		if rest := s.backTo(v, next, seen); rest != "" {
			return u.String() + " → " + rest
		}
	}
	return ""
}

// settleVariable determines the value of a variable.
func (s *scope) settleVariable(v *variable) {
	if v.broken {
		return
	}
	// The default is checked even if another value is given, so that a
	// wrong one shows at once.
	var def cty.Value
	if v.def != nil {
		def = s.eval(v.def.Expr, s.context(nil), v.path()+".default")
		if !def.IsWhollyKnown() {
			return
		}
		var text string
		if def, text = s.typedValue(v, def); text != "" {
			s.problems.add(v.def.Expr.Range(), v.path()+".default", text)
			return
		}
	}
	switch {
	case v.given != nil:
		val, ok := s.givenValue(v, def)
		if !ok {
			return
		}
		v.value = val
	case v.def != nil:
		v.value = def
	default:
		s.problems.add(v.at, v.path(), fmt.Sprintf("has no value; set it with -var %s=…, a variable file, NOMAD_VAR_%s or a default", v.name, v.name))
		return
	}
	// For a variable that must not be null, null means the default.
	if v.value.IsNull() && !v.nullable {
		if v.def == nil || def.IsNull() {
			s.problems.add(v.at, v.path(), "must not be null, since nullable is false")
			v.value = cty.DynamicVal
			return
		}
		v.value = def
	}
	s.validate(v)
}

// typedValue converts a value to the variable's type, or returns why it cannot.
func (s *scope) typedValue(v *variable, val cty.Value) (cty.Value, string) {
	if v.optional != nil && !val.IsNull() {
		val = v.optional.Apply(val)
	}
	costType(s.m, val) // conversion copies what Apply shares
	out, err := convert.Convert(val, v.typ)
	if err != nil {
		return cty.DynamicVal, fmt.Sprintf("must be of type %s: %v", typeexpr.TypeString(v.typ), err)
	}
	return out, ""
}

// validate applies the rules to the value of v. A rule that fails is a problem
// at the variable, with the text of error_message if that can be evaluated. An
// unknown condition passes.
func (s *scope) validate(v *variable) {
	ctx := s.context([]use{{kind: "var", name: v.name}})
	for _, r := range v.rules {
		// The condition decides now, so it cannot depend on values of
		// the node.
		condition := &knownNow{Expression: r.condition, m: s.m, what: "a condition"}
		ok := s.eval(condition, ctx, v.path()+".validation")
		if !ok.IsKnown() {
			continue
		}
		ok, err := convert.Convert(ok, cty.Bool)
		if err != nil || ok.IsNull() {
			s.problems.add(r.condition.Range(), v.path()+".validation", "the condition must be true or false")
			continue
		}
		if ok.True() {
			continue
		}
		// The message of the rule replaces this text if it can be
		// evaluated.
		text := "does not pass the validation at " + rangeText(r.at)
		message := s.eval(r.message, ctx, v.path()+".validation")
		message, _ = message.UnmarkDeep()
		if message, err := convert.Convert(message, cty.String); err == nil && message.IsKnown() && !message.IsNull() {
			text = message.AsString()
		}
		s.problems.add(v.at, v.path(), text)
	}
}
