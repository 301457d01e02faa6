package jobspec

import (
	"strconv"

	"berth/internal/decode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth"
)

// ParsePool parses the specification of a node pool. It is JSON, as in the API,
// if it begins with a brace, else HCL with one node_pool block. It has no
// variables and no functions. Errors are those of [Parse].
func ParsePool(file File) (*berth.NodePool, error) {
	return parseObject[berth.NodePool](file, "node_pool", func(ps *problems) (decode.Tree, error) { return poolHCL(file, ps) }, nil)
}

// poolNames maps the names in a specification to fields of the API.
var poolNames = map[string]string{
	"description": "Description", "meta": "Meta", "node_identity_ttl": "NodeIdentityTTL", "scheduler_config": "SchedulerConfiguration",
}

// configNames maps the attributes of scheduler_config to the names of the API.
var configNames = map[string]string{
	"scheduler_algorithm": "SchedulerAlgorithm", "memory_oversubscription_enabled": "MemoryOversubscriptionEnabled",
}

// poolHCL reads a file with one node_pool block. The tree has the names of the
// API. The error carries all problems of the file.
func poolHCL(file File, ps *problems) (decode.Tree, error) {
	body, ok := parseBody(file, ps)
	if !ok {
		return nil, ps.err()
	}
	var pool *hclsyntax.Block
	for _, a := range body.Attributes {
		ps.add(a.NameRange, a.Name, "must be inside the node_pool block")
	}
	for _, b := range body.Blocks {
		switch {
		case b.Type != "node_pool":
			ps.add(b.TypeRange, berth.Clip(b.Type, 64), "want one node_pool block")
		case pool != nil:
			ps.add(b.TypeRange, "node_pool", "at most one node_pool block is allowed")
		case len(b.Labels) != 1:
			ps.add(b.TypeRange, "node_pool", `needs one label: node_pool "name" { … }`)
		default:
			pool = b
		}
	}
	// Report a missing block only if nothing explains it.
	if pool == nil {
		if len(ps.list) == 0 {
			ps.addf(file.Name, "node_pool", "want one node_pool block")
		}
		return nil, ps.err()
	}
	tree := poolBlock(ps, pool.Body, "node_pool", poolNames)
	tree["Name"] = pool.Labels[0]
	return tree, ps.err()
}

// poolBlock reads a block with the given names. Meta is a map, written as a
// block or an attribute; the only other block is scheduler_config.
func poolBlock(ps *problems, body *hclsyntax.Body, path string, names map[string]string) decode.Tree {
	tree := decode.Tree{}
	known := keys(names)
	for _, a := range inOrder(body.Attributes) {
		here := decode.Join(path, a.Name)
		field, ok := names[a.Name]
		switch {
		case !ok:
			ps.add(a.NameRange, here, "unknown attribute"+meant(a.Name, known))
		case a.Name == "scheduler_config":
			ps.add(a.NameRange, here, "is a block; write scheduler_config { … } without =")
		default:
			tree[field] = plainValue(ps, a.Expr, here, a.Name == "meta")
		}
	}
	for _, b := range body.Blocks {
		here := decode.Join(path, b.Type)
		field, ok := names[b.Type]
		switch {
		case !ok || b.Type != "meta" && b.Type != "scheduler_config":
			ps.add(b.TypeRange, here, "unknown block"+meant(b.Type, known))
		case len(b.Labels) > 0:
			ps.add(b.TypeRange, here, "takes no label; write "+b.Type+" { … }")
		// meta can be an attribute or a block, but not both.
		case tree[field] != nil:
			ps.add(b.TypeRange, here, "is defined twice")
		case b.Type == "meta":
			meta := decode.Tree{}
			for _, a := range inOrder(b.Body.Attributes) {
				meta[a.Name] = plainValue(ps, a.Expr, decode.Join(here, a.Name), true)
			}
			for _, inner := range b.Body.Blocks {
				ps.add(inner.TypeRange, decode.Join(here, inner.Type), "is a block; meta holds only strings")
			}
			tree[field] = meta
		default:
			tree[field] = poolBlock(ps, b.Body, here, configNames)
		}
	}
	return tree
}

// plainValue returns the value of a literal expression. With texts, numbers and
// bools become strings.
func plainValue(ps *problems, e hclsyntax.Expression, path string, texts bool) any {
	v, diags := e.Value(nil)
	if diags.HasErrors() {
		ps.diags(diags, path)
		return nil
	}
	return plainTree(ps, v, e.Range(), path, texts)
}

// plainTree returns a value as a tree for decode: strings, numbers, booleans
// and objects of them. With texts, numbers and booleans become strings, as in
// meta. Anything else is a problem and gives nil.
func plainTree(ps *problems, v cty.Value, rng hcl.Range, path string, texts bool) any {
	if v.IsNull() {
		return nil
	}
	switch t := v.Type(); {
	case t == cty.String:
		return v.AsString()
	case t == cty.Bool && texts:
		return strconv.FormatBool(v.True())
	case t == cty.Bool:
		return v.True()
	case t == cty.Number:
		if exp := v.AsBigFloat().MantExp(nil); exp > maxExp || exp < -maxExp {
			break
		}
		if text := v.AsBigFloat().Text('f', -1); texts {
			return text
		} else {
			return decode.Number(text)
		}
	case t.IsObjectType():
		tree := decode.Tree{}
		for k, x := range v.AsValueMap() {
			tree[k] = plainTree(ps, x, rng, decode.Join(path, k), texts)
		}
		return tree
	}
	ps.add(rng, path, "must be a string, a number, true or false")
	return nil
}
