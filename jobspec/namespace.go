package jobspec

import (
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/decode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// ParseNamespace parses the specification of a namespace. It is JSON, as in the
// API, if it begins with a brace, else HCL with the settings at the top. It has
// no variables and no functions. Errors are those of [Parse].
func ParseNamespace(file File) (*berth.Namespace, error) {
	return parseSettings[berth.Namespace](file, "namespace", namespaceSettings)
}

// parseSettings parses a specification that has settings alone.
func parseSettings[T any](file File, what string, s settings) (*T, error) {
	return parseObject[T](file, what, func(ps *problems) (tree decode.Tree, err error) {
		if body, ok := parseBody(file, ps); ok {
			tree = settingsBlock(ps, body, what, s)
		}
		return tree, ps.err()
	}, func(tree decode.Tree) {
		if s.spells {
			spelled := respell(tree, s)
			clear(tree)
			maps.Copy(tree, spelled)
		}
	})
}

// settings are what a block may have: names in the API of its attributes, of its
// lists of text, and of its blocks. meta is a map of text, and may be either.
type settings struct {
	texts, lists map[string]string
	blocks       map[string]settings
	name         string // of the block in the API
	label        string // of a block that has one: its name in the API
	many         bool   // the block may be repeated, and is a list in the API

	sizes  map[string]string // names in the API of sizes in bytes, which may have units
	free   bool              // the block has any names, with text
	refers bool              // as free; the text may have references like ${job.id}, which stay as they are
	spells bool              // JSON may have the names of HCL
}

// namespaceSettings are those of a namespace.
var namespaceSettings = settings{
	texts: map[string]string{"name": "Name", "description": "Description", "quota": "Quota", "meta": "Meta"},
	blocks: map[string]settings{
		"meta": {name: "Meta"},
		"capabilities": {name: "Capabilities", lists: map[string]string{
			"enabled_task_drivers": "EnabledTaskDrivers", "disabled_task_drivers": "DisabledTaskDrivers",
			"enabled_network_modes": "EnabledNetworkModes", "disabled_network_modes": "DisabledNetworkModes",
		}},
		"node_pool_config":      {name: "NodePoolConfiguration", texts: map[string]string{"default": "Default"}, lists: map[string]string{"allowed": "Allowed", "denied": "Denied"}},
		"required_extra_claims": {name: "RequiredExtraClaims", refers: true},
		"optional_extra_claims": {name: "OptionalExtraClaims", refers: true},
	},
}

// known are the names that may stand in the block.
func (s settings) known() []string {
	return slices.Concat(keys(s.texts), keys(s.sizes), keys(s.lists), keys(s.blocks))
}

// settingsBlock reads a block. The tree has the names of the API.
func settingsBlock(ps *problems, body *hclsyntax.Body, path string, s settings) decode.Tree {
	tree := decode.Tree{}
	for _, a := range inOrder(body.Attributes) {
		here := decode.Join(path, a.Name)
		switch {
		case s.refers:
			tree[a.Name] = referringText(ps, a.Expr, here)
		case s.name == "Meta" || s.free:
			tree[a.Name] = plainValue(ps, a.Expr, here, true)
		case s.texts[a.Name] != "":
			tree[s.texts[a.Name]] = plainValue(ps, a.Expr, here, a.Name == "meta")
		case s.sizes[a.Name] != "":
			tree[s.sizes[a.Name]] = sizeOf(plainValue(ps, a.Expr, here, false))
		case s.lists[a.Name] != "":
			tree[s.lists[a.Name]] = textList(ps, a, here)
		case s.blocks[a.Name].name != "":
			ps.add(a.NameRange, here, "is a block; write "+a.Name+" { … } without =")
		default:
			ps.add(a.NameRange, here, "unknown attribute"+meant(a.Name, s.known()))
		}
	}
	for _, b := range body.Blocks {
		here := decode.Join(path, b.Type)
		in, ok := s.blocks[b.Type]
		switch {
		case !ok:
			ps.add(b.TypeRange, here, "unknown block"+meant(b.Type, s.known()))
		case in.label == "" && len(b.Labels) > 0:
			ps.add(b.TypeRange, here, "takes no label; write "+b.Type+" { … }")
		case in.label != "" && len(b.Labels) != 1:
			ps.add(b.TypeRange, here, "takes one label; write "+b.Type+" \"…\" { … }")
		case in.many:
			one := settingsBlock(ps, b.Body, here, in)
			if in.label != "" {
				one[in.label] = b.Labels[0]
			}
			list, _ := tree[in.name].([]any)
			tree[in.name] = append(list, one)
		case tree[in.name] != nil:
			ps.add(b.TypeRange, here, "is defined twice")
		default:
			tree[in.name] = settingsBlock(ps, b.Body, here, in)
		}
	}
	return tree
}

// referringText returns text whose references, such as ${job.id}, stay as they
// are written.
func referringText(ps *problems, e hclsyntax.Expression, path string) any {
	var parts []hclsyntax.Expression
	switch x := e.(type) {
	case *hclsyntax.TemplateExpr:
		parts = x.Parts
	case *hclsyntax.TemplateWrapExpr: // a reference and nothing else
		parts = []hclsyntax.Expression{x.Wrapped}
	default:
		return plainValue(ps, e, path, true)
	}
	var text strings.Builder
	for _, p := range parts {
		if r, ok := p.(*hclsyntax.ScopeTraversalExpr); ok {
			name := r.Traversal.RootName()
			for _, step := range r.Traversal[1:] {
				a, ok := step.(hcl.TraverseAttr)
				if !ok {
					ps.add(p.Range(), path, "must refer to values by names with dots between them, such as ${job.meta.team}")
					return nil
				}
				name += "." + a.Name
			}
			text.WriteString("${" + name + "}")
			continue
		}
		s, ok := plainValue(ps, p, path, true).(string)
		if !ok {
			return nil
		}
		text.WriteString(s)
	}
	return text.String()
}

// textList returns the value of a list of text.
func textList(ps *problems, a *hclsyntax.Attribute, path string) any {
	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() {
		ps.diags(diags, path)
		return nil
	}
	list := []any{}
	if v.IsNull() {
		return nil
	}
	if v.Type().IsTupleType() {
		for _, x := range v.AsValueSlice() {
			if x.IsNull() || x.Type() != cty.String {
				ps.add(a.Expr.Range(), path, "must be a list of text")
				return nil
			}
			list = append(list, x.AsString())
		}
		return list
	}
	ps.add(a.Expr.Range(), path, "must be a list of text")
	return nil
}
