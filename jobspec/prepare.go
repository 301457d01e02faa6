package jobspec

import (
	"fmt"
	"slices"
	"strings"

	"berth"
	"berth/internal/decode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Expressions are prepared once, before any is evaluated. Costly nodes are
// wrapped so that they are metered, references that only agents can resolve are
// replaced by their text, and unknown names and functions are reported even if
// they are never evaluated.

// names are the names that a for expression or a dynamic block defines.
type names struct {
	outer *names    // of the enclosing for expression; nil at the outermost
	words [2]string // key and value
}

// has reports whether the word is the variable of an enclosing for expression.
// n may be nil.
func (n *names) has(word string) bool {
	for ; n != nil; n = n.outer {
		if word == n.words[0] || word == n.words[1] {
			return true
		}
	}
	return false
}

// preparer wraps the nodes of one expression before it is evaluated.
type preparer struct {
	*scope
	path string // of the attribute, for problems
	uses []use  // variables and locals found so far
}

// prepare returns the expression to evaluate instead of e, and what it uses.
func (s *scope) prepare(e hclsyntax.Expression, path string, inner *names) (hclsyntax.Expression, []use) {
	p := preparer{scope: s, path: path}
	e = p.expr(e, inner, false)
	return e, p.uses
}

// prepareBody prepares all expressions of a body. A dynamic block defines its
// iterator as a name.
func (s *scope) prepareBody(b *hclsyntax.Body, path string, inner *names) {
	for _, a := range b.Attributes {
		a.Expr, _ = s.prepare(a.Expr, decode.Join(path, a.Name), inner)
	}
	for _, block := range b.Blocks {
		here := decode.Join(path, block.Type)
		if len(block.Labels) > 0 {
			here += "[" + berth.Clip(block.Labels[0], 64) + "]"
		}
		if block.Type != "dynamic" {
			s.prepareBody(block.Body, here, inner)
			continue
		}
		with := &names{outer: inner, words: [2]string{iteratorOf(block)}}
		for name, a := range block.Body.Attributes {
			switch name {
			case "iterator": // an identifier, read by iteratorOf
			case "labels":
				a.Expr, _ = s.prepare(a.Expr, decode.Join(here, a.Name), with)
			default:
				a.Expr, _ = s.prepare(a.Expr, decode.Join(here, a.Name), inner)
			}
		}
		for _, content := range block.Body.Blocks {
			s.prepareBody(content.Body, here, with)
		}
	}
}

// expr prepares one node. inText is true for the sole content of ${…}.
func (p *preparer) expr(e hclsyntax.Expression, in *names, inText bool) hclsyntax.Expression {
	var cost func(*meter, cty.Value)
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return p.name(e, in, inText)
	case *hclsyntax.AnonSymbolExpr:
		return e
	case *hclsyntax.LiteralValueExpr:
		if e.Val.Type() == cty.Number {
			cost = costLook
		}
	case *hclsyntax.ParenthesesExpr:
		e.Expression = p.expr(e.Expression, in, false)
	case *hclsyntax.TemplateExpr:
		for i := range e.Parts {
			e.Parts[i] = p.expr(e.Parts[i], in, true)
		}
		if !e.IsStringLiteral() {
			cost = costBuild
		}
	case *hclsyntax.TemplateWrapExpr:
		e.Wrapped = p.expr(e.Wrapped, in, true)
	case *hclsyntax.TemplateJoinExpr:
		e.Tuple = p.expr(e.Tuple, in, true)
		cost = costBuild
	case *hclsyntax.TupleConsExpr:
		for i := range e.Exprs {
			e.Exprs[i] = p.expr(e.Exprs[i], in, false)
		}
		cost = costBuild
	case *hclsyntax.ObjectConsExpr:
		for i := range e.Items {
			it := &e.Items[i]
			if k, is := it.KeyExpr.(*hclsyntax.ObjectConsKeyExpr); !is {
				it.KeyExpr = p.known(it.KeyExpr, in, "a key")
			} else if k.ForceNonLiteral || hcl.ExprAsKeyword(k.Wrapped) == "" {
				k.Wrapped = p.known(k.Wrapped, in, "a key")
			}
			it.ValueExpr = p.expr(it.ValueExpr, in, false)
		}
		cost = costBuild
	case *hclsyntax.ForExpr:
		// The collection is evaluated outside the loop, the rest for
		// each element with the loop's names.
		e.CollExpr = p.paying(p.expr(e.CollExpr, in, false), costLoop)
		each := &names{outer: in, words: [2]string{e.KeyVar, e.ValVar}}
		if e.KeyExpr != nil {
			e.KeyExpr = p.known(e.KeyExpr, each, "a key")
		}
		if e.CondExpr != nil {
			e.CondExpr = p.known(e.CondExpr, each, "a condition")
		}
		e.ValExpr = p.expr(e.ValExpr, each, inText)
		cost = costBuild
	case *hclsyntax.SplatExpr:
		e.Source = p.paying(p.expr(e.Source, in, false), costLoop)
		e.Each = p.expr(e.Each, in, false)
		cost = costBuild
	case *hclsyntax.ConditionalExpr:
		e.Condition = p.known(e.Condition, in, "a condition")
		// Both results are evaluated and converted to one type.
		e.TrueResult = p.paying(p.expr(e.TrueResult, in, inText), costTypes)
		e.FalseResult = p.paying(p.expr(e.FalseResult, in, inText), costTypes)
	case *hclsyntax.BinaryOpExpr:
		e.LHS = p.known(e.LHS, in, "an operator")
		e.RHS = p.known(e.RHS, in, "an operator")
		if e.Op == hclsyntax.OpDivide || e.Op == hclsyntax.OpModulo {
			e.RHS = &divisor{e.RHS}
		}
		cost = costLook
	case *hclsyntax.UnaryOpExpr:
		e.Val = p.known(e.Val, in, "an operator")
		cost = costLook
	case *hclsyntax.IndexExpr:
		// A reference for the agent stays text, so its name cannot be
		// computed here.
		if t, is := e.Collection.(*hclsyntax.ScopeTraversalExpr); is && !in.has(t.Traversal.RootName()) && slices.Contains(runtimeRoots, t.Traversal.RootName()) {
			p.problems.add(e.SrcRange, p.path, fmt.Sprintf("%s needs a literal name, since the agent resolves it; write $${%s.${…}} to build the name here",
				t.Traversal.RootName(), t.Traversal.RootName()))
			return fixed(cty.DynamicVal, e.SrcRange)
		}
		e.Collection = p.expr(e.Collection, in, false)
		e.Key = p.known(e.Key, in, "an index")
	case *hclsyntax.RelativeTraversalExpr:
		e.Source = p.expr(e.Source, in, false)
	case *hclsyntax.FunctionCallExpr:
		return p.call(e, in)
	}
	return p.paying(e, cost)
}

// paying wraps an expression so that evaluating it costs steps. cost may be nil
// and is called with the value.
func (p *preparer) paying(e hclsyntax.Expression, cost func(*meter, cty.Value)) hclsyntax.Expression {
	return &metered{Expression: e, m: p.m, cost: cost}
}

// known prepares an expression whose value must be known during parsing.
func (p *preparer) known(e hclsyntax.Expression, in *names, what string) hclsyntax.Expression {
	return &knownNow{Expression: p.expr(e, in, false), m: p.m, what: what}
}

// call prepares a function call and its arguments. An unknown function, or one
// that reads files where none may be read, is a problem and becomes an unknown
// value, so that evaluation can go on.
func (p *preparer) call(e *hclsyntax.FunctionCallExpr, in *names) hclsyntax.Expression {
	fn, ok := functions[e.Name]
	if !ok {
		p.problems.add(e.NameRange, p.path, fmt.Sprintf("unknown function %q%s", berth.Clip(e.Name, 64), meant(e.Name, functionNames())))
		return fixed(cty.DynamicVal, e.Range())
	}
	if fn.file && p.files == nil {
		p.problems.add(e.NameRange, p.path, fmt.Sprintf("the function %s reads files, which is not allowed here", e.Name))
		return fixed(cty.DynamicVal, e.Range())
	}
	if _, ok := p.funcs[e.Name]; !ok {
		p.funcs[e.Name] = fn.build(p.scope, e.Name)
	}
	for i, arg := range e.Args {
		switch {
		case e.Name == "convert" && i == 1: // a type
			continue
		case fn.carries:
			arg = p.expr(arg, in, false)
		default:
			arg = p.known(arg, in, "the function "+e.Name)
		}
		if fn.converts(i) || e.ExpandFinal {
			arg = p.paying(arg, costType)
		}
		e.Args[i] = arg
	}
	return p.paying(e, costBuild)
}

// name resolves a name.
func (p *preparer) name(e *hclsyntax.ScopeTraversalExpr, in *names, inText bool) hclsyntax.Expression {
	root := e.Traversal.RootName()
	if in.has(root) {
		return e
	}
	if root == "var" || root == "local" {
		u := use{kind: root, at: e.SrcRange}
		if len(e.Traversal) > 1 {
			u.name = stepName(e.Traversal[1])
		}
		if text := p.missing(u); text != "" {
			p.problems.add(e.SrcRange, p.path, text)
			return fixed(cty.DynamicVal, e.SrcRange)
		}
		p.uses = append(p.uses, u)
		return e
	}
	if isRuntime(e.Traversal, inText) || inText && p.forShell(e.Traversal) {
		written := string(e.SrcRange.SliceBytes(p.sources[e.SrcRange.Filename]))
		return fixed(runtimeValue(written), e.SrcRange)
	}
	p.problems.add(e.SrcRange, p.path, p.unknown(e.Traversal))
	return fixed(cty.DynamicVal, e.SrcRange)
}

// forShell reports whether a name in a text of a driver's config is left as it
// is written, for whatever reads the config there: a shell or a driver has names
// of its own. A name that looks like a mistyped one of ours is not left.
func (p *preparer) forShell(t hcl.Traversal) bool {
	_, inConfig := strings.CutPrefix(p.path[strings.LastIndexByte(p.path, ']')+1:], ".config")
	return inConfig && decode.Nearest(t.RootName(), append([]string{"var", "local"}, runtimeRoots...)) == ""
}

// stepName returns the name in a step of a traversal, or "" if there is none.
func stepName(step hcl.Traverser) string {
	switch s := step.(type) {
	case hcl.TraverseAttr:
		return s.Name
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String {
			return s.Key.AsString()
		}
	}
	return ""
}

// missing returns the problem of an undeclared variable or local, or "" if it is
// declared.
func (p *preparer) missing(u use) string {
	if u.name == "" {
		return ""
	}
	if u.kind == "var" {
		if p.vars[u.name] != nil {
			return ""
		}
		return fmt.Sprintf("unknown variable %q%s", berth.Clip(u.name, 64), meant(u.name, keys(p.vars)))
	}
	if p.locals[u.name] != nil {
		return ""
	}
	return fmt.Sprintf("unknown local %q%s", berth.Clip(u.name, 64), meant(u.name, keys(p.locals)))
}

// unknown returns the text for a reference whose first name means nothing here.
// A single word is most likely text without quotes.
func (p *preparer) unknown(t hcl.Traversal) string {
	root := berth.Clip(t.RootName(), 64)
	if len(t) == 1 {
		return fmt.Sprintf("unknown name %s; write text in quotes: %q", root, root)
	}
	known := append([]string{"var", "local"}, runtimeRoots...)
	if n := decode.Nearest(root, known); n != "" {
		return fmt.Sprintf("unknown name %q; did you mean %q?", root, n)
	}
	return fmt.Sprintf("unknown name %q: want var, local, or for the agent %s or NOMAD_…; write $${…} for a literal ${…}",
		root, strings.Join(runtimeRoots, ", "))
}
