package jobspec

import (
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// scope has the variables, locals and functions that expressions can use.
type scope struct {
	m        *meter
	problems *problems
	files    fs.FS             // nil: no function may read files
	sources  map[string][]byte // by file name, for references that are kept as written
	vars     map[string]*variable
	locals   map[string]*local
	funcs    map[string]function.Function // that the file calls
}

// local is one entry of a locals block.
type local struct {
	name  string
	attr  *hclsyntax.Attribute
	uses  []use // what must be settled first
	state state
	value cty.Value
}

// state is the progress of a local's evaluation.
type state int

const (
	untouched state = iota // not needed so far
	underway               // being evaluated: reaching it again is a cycle
	settled                // value is final, or unknown after a problem
)

// use is a reference to a variable or local in an expression. An empty name
// means all of them.
type use struct {
	kind, name string // "var" or "local"
	at         hcl.Range
}

// String returns the use as the file writes it: "var.count", or the kind alone.
func (u use) String() string {
	if u.name == "" {
		return u.kind
	}
	return u.kind + "." + u.name
}

// newScope returns a scope without variables. files may be nil: then functions
// that read files are a problem.
func newScope(m *meter, ps *problems, files fs.FS) *scope {
	return &scope{
		m: m, problems: ps, files: files,
		sources: map[string][]byte{},
		vars:    map[string]*variable{},
		locals:  map[string]*local{},
		funcs:   map[string]function.Function{},
	}
}

// top is the outermost level of a job file.
type top struct {
	file      File
	job       *hclsyntax.Block
	variables []*hclsyntax.Block // variable "x" {}
	defaults  []*hclsyntax.Block // variables {}
	locals    []*hclsyntax.Block // locals {}
}

// topNames are the blocks that a job file can have at the top, in order.
var topNames = []string{"job", "locals", "variable", "variables"}

// sortTop sorts the blocks at the top of a job file by kind and notes what must
// not be there. The job of the result is nil if the file has none, which is a
// problem too. Of two jobs it keeps the first.
func sortTop(body *hclsyntax.Body, f File, ps *problems) top {
	t := top{file: f}
	for _, a := range inOrder(body.Attributes) {
		ps.add(a.NameRange, a.Name, "must be inside the job; at the top of a job file only these blocks are allowed: "+strings.Join(topNames, ", "))
	}
	for _, b := range body.Blocks {
		labels := 0
		switch b.Type {
		case "job":
			if t.job != nil {
				ps.add(b.DefRange(), "job", "only one job is allowed per file; the first is at "+rangeText(t.job.DefRange()))
				continue
			}
			t.job = b
			labels = 1
		// Labels are counted here and checked below, alike for all
		// kinds.
		case "variable":
			t.variables = append(t.variables, b)
			labels = 1
		case "variables":
			t.defaults = append(t.defaults, b)
		case "locals":
			t.locals = append(t.locals, b)
		default:
			ps.add(b.DefRange(), b.Type, "unknown block: want "+strings.Join(topNames, ", ")+meant(b.Type, topNames))
			continue
		}
		if len(b.Labels) != labels {
			ps.add(b.DefRange(), b.Type, labelProblem(b.Type, labels, len(b.Labels)))
		}
	}
	if t.job == nil {
		at := body.EndRange
		ps.add(at, "job", `the file has no job "name" { … } block`)
	}
	return t
}

// inOrder returns attributes in text order.
func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(attrs), func(a, b *hclsyntax.Attribute) int {
		return a.NameRange.Start.Byte - b.NameRange.Start.Byte
	})
}

// declare registers variables and locals, so that every name is known before
// the first expression is prepared.
func (s *scope) declare(t top) {
	s.sources[t.file.Name] = t.file.Text
	for _, b := range t.variables {
		s.declareVariable(b)
	}
	for _, b := range t.defaults {
		s.declareDefaults(b)
	}
	for _, b := range t.locals {
		for _, inner := range b.Body.Blocks {
			s.problems.add(inner.DefRange(), "locals."+inner.Type, "must be name = value")
		}
		for _, a := range inOrder(b.Body.Attributes) {
			if first := s.locals[a.Name]; first != nil {
				s.problems.add(a.NameRange, "local."+a.Name, "is defined twice; the first is at "+rangeText(first.attr.NameRange))
				continue
			}
			s.locals[a.Name] = &local{name: a.Name, attr: a, value: cty.DynamicVal}
		}
	}
	for _, v := range s.vars {
		s.prepareVariable(v)
	}
	for _, l := range s.locals {
		l.attr.Expr, l.uses = s.prepare(l.attr.Expr, "local."+l.name, nil)
	}
}

// resolve evaluates all variables and locals and returns the context for the
// job's expressions. A value with a problem is unknown there and not reported
// again.
func (s *scope) resolve() *hcl.EvalContext {
	for _, name := range slices.Sorted(maps.Keys(s.vars)) {
		s.settleVariable(s.vars[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.locals)) {
		s.settle(s.locals[name], nil)
	}
	return s.context([]use{{kind: "var"}, {kind: "local"}})
}

// settle evaluates a local after those that it uses. trail has the locals that
// led to it.
func (s *scope) settle(l *local, trail []*local) {
	switch l.state {
	case settled:
		return
	case underway:
		s.cycle(l, trail)
		return
	}
	l.state = underway
	trail = append(trail, l)
	for _, u := range l.uses {
		if u.kind != "local" {
			continue
		}
		if u.name != "" {
			s.settle(s.locals[u.name], trail)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(s.locals)) {
			s.settle(s.locals[name], trail)
		}
	}
	if l.state == underway { // else it is part of a cycle
		l.value = s.eval(l.attr.Expr, s.context(l.uses), "local."+l.name)
	}
	l.state = settled
}

// cycle notes that the locals from l to the end of the trail refer to each other.
func (s *scope) cycle(l *local, trail []*local) {
	names := []string{}
	for _, t := range trail[slices.Index(trail, l):] {
		t.state = settled
		names = append(names, "local."+t.name)
	}
	text := "refers to itself"
	if len(names) > 1 {
		const most = 10
		if len(names) > most {
			names = append(names[:most], "…")
		}
		text = "the locals refer to each other in a cycle: " + strings.Join(append(names, "local."+l.name), " → ")
	}
	s.problems.add(l.attr.NameRange, "local."+l.name, text)
}

// context returns an evaluation context with the values that an expression uses.
func (s *scope) context(uses []use) *hcl.EvalContext {
	vars, locals := map[string]cty.Value{}, map[string]cty.Value{}
	for _, u := range uses {
		switch {
		case u.kind == "var" && u.name != "":
			vars[u.name] = s.vars[u.name].value
		case u.kind == "var":
			for name, v := range s.vars {
				vars[name] = v.value
			}
		case u.name != "":
			locals[u.name] = s.locals[u.name].value
		default:
			for name, l := range s.locals {
				locals[name] = l.value
			}
		}
	}
	return &hcl.EvalContext{
		Variables: map[string]cty.Value{"var": cty.ObjectVal(vars), "local": cty.ObjectVal(locals)},
		Functions: s.funcs,
	}
}

// eval returns the value of a prepared expression, or an unknown value if it
// has a problem.
func (s *scope) eval(e hclsyntax.Expression, ctx *hcl.EvalContext, path string) cty.Value {
	outer := s.m.path
	s.m.path = path
	v, diags := e.Value(ctx)
	s.m.path = outer
	if diags.HasErrors() {
		s.problems.diags(diags, path)
		return cty.DynamicVal
	}
	return v
}
