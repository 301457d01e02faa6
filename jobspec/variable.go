package jobspec

import (
	"strings"

	"berth/internal/decode"

	"berth"
)

// VariableSpec is a variable in a file: what "var put" writes.
type VariableSpec struct {
	Namespace   string
	Path        string
	Items       map[string]string
	ModifyIndex uint64 // that the file was read at; 0: it does not say
}

// ParseVariable parses the specification of a variable. It is JSON, as in the
// API, if it begins with a brace, else HCL with path, namespace and a block of
// items. It has no variables and no functions. Errors are those of [Parse].
func ParseVariable(file File) (*VariableSpec, error) {
	// An answer of the API holds more than what can be written.
	tidy := func(tree decode.Tree) {
		for name := range tree {
			switch strings.ToLower(name) {
			case "createindex", "createtime", "modifytime", "lock":
				delete(tree, name)
			}
		}
	}
	return parseObject[VariableSpec](file, "variable", func(ps *problems) (decode.Tree, error) { return variableHCL(file, ps) }, tidy)
}

// variableNames maps the names in a specification to those of the API.
var variableNames = map[string]string{
	"namespace": "Namespace", "path": "Path", "items": "Items", "modify_index": "ModifyIndex",
	"create_index": "CreateIndex", "create_time": "CreateTime", "modify_time": "ModifyTime",
}

// variableHCL reads the HCL form. The error carries all problems of the file.
func variableHCL(file File, ps *problems) (decode.Tree, error) {
	body, ok := parseBody(file, ps)
	if !ok {
		return nil, ps.err()
	}
	tree, known := decode.Tree{}, keys(variableNames)
	for _, a := range inOrder(body.Attributes) {
		field, ok := variableNames[a.Name]
		if !ok {
			ps.add(a.NameRange, a.Name, "unknown attribute"+meant(a.Name, known))
			continue
		}
		tree[field] = plainValue(ps, a.Expr, a.Name, a.Name == "items")
	}
	for _, b := range body.Blocks {
		switch {
		case b.Type != "items":
			ps.add(b.TypeRange, berth.Clip(b.Type, 64), "unknown block"+meant(b.Type, known))
		case len(b.Labels) > 0:
			ps.add(b.TypeRange, "items", "takes no label; write items { … }")
		case tree["Items"] != nil:
			ps.add(b.TypeRange, "items", "is defined twice")
		default:
			items := decode.Tree{}
			for _, a := range inOrder(b.Body.Attributes) {
				items[a.Name] = plainValue(ps, a.Expr, decode.Join("items", a.Name), true)
			}
			for _, inner := range b.Body.Blocks {
				ps.add(inner.TypeRange, decode.Join("items", inner.Type), "is a block; items holds only strings")
			}
			tree["Items"] = items
		}
	}
	return tree, ps.err()
}
