package acl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/parser"
	"github.com/hashicorp/hcl/hcl/token"
	jsonparser "github.com/hashicorp/hcl/json/parser"

	"berth"
)

// Policy is what the text of a policy says.
type Policy struct {
	Namespaces  []Rule
	NodePools   []Rule
	HostVolumes []Rule
	Areas       map[string][]Capability // of node, agent, operator, quota and plugin
}

// Rule grants capabilities for what matches its label.
type Rule struct {
	Label        string // a name, or a pattern in which each * stands for any text
	Capabilities []Capability
	Variables    []Rule // of a namespace: by path
}

// Bounds of a policy's text.
const (
	MaxRules    = 64 << 10 // bytes
	maxLabel    = 256      // bytes
	maxNesting  = 32       // braces and brackets inside each other
	maxProblems = 20
)

// Parse reads the text of a policy, HCL or JSON. The error lists the problems
// with the lines of the text.
func Parse(text string) (p *Policy, err error) {
	switch {
	case len(text) > MaxRules:
		return nil, berth.Errorf(berth.Invalid, "the policy has %d bytes: at most %d are allowed", len(text), MaxRules)
	case deep(text):
		return nil, berth.Errorf(berth.Invalid, "the policy nests braces and brackets deeper than %d", maxNesting)
	}
	// The parser is not ours, and the text comes from anywhere.
	defer func() {
		if x := recover(); x != nil {
			p, err = nil, berth.Errorf(berth.Invalid, "the policy is neither HCL nor JSON")
		}
	}()
	read := parser.ParseDontErrorOnDuplicateKeys
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		if read = jsonparser.Parse; !json.Valid([]byte(text)) { // it accepts what is cut off
			return nil, berth.Errorf(berth.Invalid, "the policy is neither HCL nor JSON")
		}
	}
	file, err := read([]byte(text))
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "the policy is neither HCL nor JSON: %v", err)
	}
	list, ok := file.Node.(*ast.ObjectList)
	if !ok {
		return nil, berth.Errorf(berth.Invalid, "the policy must have blocks, such as namespace")
	}
	r := &reader{policy: &Policy{Areas: map[string][]Capability{}}}
	for _, item := range list.Items {
		r.block(item)
	}
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	return r.policy, nil
}

// deep reports whether braces and brackets are nested too deep. Those in strings
// count as well: a policy has no use for them.
func deep(text string) bool {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{', '[':
			if depth++; depth > maxNesting {
				return true
			}
		case '}', ']':
			depth = max(0, depth-1)
		}
	}
	return false
}

// reader reads the tree of a policy. It collects problems and goes on.
type reader struct {
	policy   *Policy
	problems berth.Problems
}

// addf notes a problem at an item.
func (r *reader) addf(at ast.Node, path, format string, args ...any) {
	if len(r.problems) < maxProblems {
		line := at.Pos().Line
		r.problems = append(r.problems, berth.Problem{Pos: fmt.Sprintf("line %d", max(1, line)), Path: path, Text: fmt.Sprintf(format, args...)})
	}
}

// keyOf returns a key as text.
func keyOf(k *ast.ObjectKey) string {
	s, _ := k.Token.Value().(string)
	return s
}

// labeledRules are the blocks with a label, and what they are labeled by.
var labeledRules = map[string]string{"namespace": "name", "node_pool": "name", "host_volume": "name", "path": "path"}

// block reads one block of a policy.
func (r *reader) block(item *ast.ObjectItem) {
	kind := keyOf(item.Keys[0])
	if _, ok := areas[kind]; !ok || kind == "variables" {
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(areas)), func(s string) bool { return s == "variables" })
		r.addf(item, berth.Clip(kind, 64), "unknown block: want %s", strings.Join(known, ", "))
		return
	}
	if labeledRules[kind] == "" {
		if len(item.Keys) > 1 {
			r.addf(item, kind, "has no label")
			return
		}
		for _, body := range r.bodies(item, item.Val, kind) {
			rule := r.rule(item, body, kind, "")
			r.policy.Areas[kind] = append(r.policy.Areas[kind], rule.Capabilities...)
		}
		return
	}
	for _, rule := range r.labeled(item, kind) {
		switch kind {
		case "namespace":
			r.policy.Namespaces = append(r.policy.Namespaces, rule)
		case "node_pool":
			r.policy.NodePools = append(r.policy.NodePools, rule)
		case "host_volume":
			r.policy.HostVolumes = append(r.policy.HostVolumes, rule)
		}
	}
}

// bodies returns the objects that a value is: one, or in JSON a list of them.
func (r *reader) bodies(at ast.Node, v ast.Node, path string) (out []*ast.ObjectList) {
	switch v := v.(type) {
	case *ast.ObjectType:
		return []*ast.ObjectList{v.List}
	case *ast.ListType:
		for _, x := range v.List {
			o, ok := x.(*ast.ObjectType)
			if !ok {
				r.addf(at, path, "must be a block")
				return nil
			}
			out = append(out, o.List)
		}
		return out
	}
	r.addf(at, path, "must be a block")
	return nil
}

// labeled returns the rules of a block with a label. In JSON the label may be a
// key inside.
func (r *reader) labeled(item *ast.ObjectItem, kind string) (out []Rule) {
	path := kind
	switch len(item.Keys) {
	case 1:
		if _, ok := item.Val.(*ast.ObjectType); ok && item.Assign == (token.Pos{}) {
			r.addf(item, path, `needs a label: %s "%s" { … }`, kind, labeledRules[kind])
			return nil
		}
		for _, body := range r.bodies(item, item.Val, path) {
			for _, in := range body.Items {
				if len(in.Keys) != 1 {
					r.addf(in, path, `needs one label: %s "%s" { … }`, kind, labeledRules[kind])
					continue
				}
				out = append(out, r.ofLabel(in, kind, keyOf(in.Keys[0]))...)
			}
		}
	case 2:
		out = r.ofLabel(item, kind, keyOf(item.Keys[1]))
	default:
		r.addf(item, path, `needs one label: %s "%s" { … }`, kind, labeledRules[kind])
	}
	return out
}

// ofLabel returns the rules of one label.
func (r *reader) ofLabel(item *ast.ObjectItem, kind, label string) (out []Rule) {
	path := fmt.Sprintf("%s[%s]", kind, berth.Clip(label, 64))
	if label == "" || len(label) > maxLabel {
		r.addf(item, path, "the label must have 1 to %d bytes, got %d", maxLabel, len(label))
		return nil
	}
	for _, body := range r.bodies(item, item.Val, path) {
		out = append(out, r.rule(item, body, kind, label))
	}
	return out
}

// rule reads the inside of a block.
func (r *reader) rule(of *ast.ObjectItem, body *ast.ObjectList, kind, label string) Rule {
	rule := Rule{Label: label}
	path := kind
	if label != "" {
		path = fmt.Sprintf("%s[%s]", kind, berth.Clip(label, 64))
	}
	allowed := areas[kind]
	if kind == "path" {
		allowed = areas["variables"]
	}
	seen := map[string]bool{}
	for _, item := range body.Items {
		key := keyOf(item.Keys[0])
		at := path + "." + berth.Clip(key, 64)
		switch {
		case key == "variables" && kind == "namespace" && len(item.Keys) == 1:
			for _, inside := range r.bodies(item, item.Val, at) {
				rule.Variables = append(rule.Variables, r.paths(inside, at)...)
			}
			continue
		case len(item.Keys) != 1 || key != "policy" && key != "capabilities":
			r.addf(item, at, "unknown: want %s", wanted(kind, allowed))
			continue
		case seen[key]:
			r.addf(item, at, "is set twice")
			continue
		}
		seen[key] = true
		if key == "policy" {
			rule.Capabilities = append(rule.Capabilities, r.coarse(item, at, allowed)...)
		} else {
			rule.Capabilities = append(rule.Capabilities, r.fine(item, at, kind, allowed)...)
		}
	}
	if len(seen) == 0 && len(rule.Variables) == 0 {
		r.addf(of, path, "grants and denies nothing: want %s", wanted(kind, allowed))
	}
	return rule
}

// wanted names what a block may have.
func wanted(kind string, allowed areaRules) string {
	var keys []string
	if len(allowed.policies) > 0 {
		keys = append(keys, "policy")
	}
	if len(allowed.finer) > 0 {
		keys = append(keys, "capabilities")
	}
	if kind == "namespace" {
		keys = append(keys, "variables")
	}
	return strings.Join(keys, " or ")
}

// paths reads the inside of a variables block.
func (r *reader) paths(body *ast.ObjectList, path string) (out []Rule) {
	for _, item := range body.Items {
		if keyOf(item.Keys[0]) != "path" {
			r.addf(item, path, `unknown block %q: want path "name" { … }`, berth.Clip(keyOf(item.Keys[0]), 64))
			continue
		}
		out = append(out, r.labeled(item, "path")...)
	}
	return out
}

// coarse reads the value of policy, such as "read".
func (r *reader) coarse(item *ast.ObjectItem, path string, allowed areaRules) []Capability {
	v, ok := text(item.Val)
	cs, known := allowed.policies[v]
	if !ok || !known {
		r.addf(item, path, "%s is not one of %s", quoted(v, ok), strings.Join(slices.Sorted(maps.Keys(allowed.policies)), ", "))
	}
	return cs
}

// fine reads the value of capabilities, a list of names.
func (r *reader) fine(item *ast.ObjectItem, path, kind string, allowed areaRules) (out []Capability) {
	list, ok := item.Val.(*ast.ListType)
	if !ok {
		r.addf(item, path, "must be a list of names")
		return nil
	}
	for _, x := range list.List {
		v, ok := text(x)
		c := Capability(v)
		if kind != "namespace" && c != Deny {
			c = Capability(areaOf(kind) + ":" + v)
		}
		if !ok || c != Deny && !slices.Contains(allowed.finer, c) {
			r.addf(x, path, "%s is not one of deny, %s", quoted(v, ok), names(allowed.finer))
			continue
		}
		out = append(out, c)
	}
	return out
}

// areaOf is the first part of the capabilities that a kind of block grants.
func areaOf(kind string) string {
	if kind == "path" {
		return "variables"
	}
	return kind
}

// names lists capabilities as policies write them.
func names(cs []Capability) string {
	var out []string
	for _, c := range cs {
		_, name, ok := strings.Cut(string(c), ":")
		if !ok {
			name = string(c)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// text returns the value of a string.
func text(n ast.Node) (string, bool) {
	l, ok := n.(*ast.LiteralType)
	if !ok {
		return "", false
	}
	s, ok := l.Token.Value().(string)
	return s, ok
}

// quoted shows a value that is refused.
func quoted(v string, ok bool) string {
	if !ok {
		return "a value that is not text"
	}
	return fmt.Sprintf("%q", berth.Clip(v, 64))
}
