package plugin

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"

	"berth"
	wire "berth/internal/agent/plugin/pluginwire"
)

// schemaDepth is how deep a schema may be.
const schemaDepth = 32

// Encode reads a config by a plugin's schema and returns it as the plugin wants it,
// in msgpack. Its errors name the place below path. A nil schema takes nothing.
func Encode(path string, schema *wire.Spec, config map[string]any) ([]byte, error) {
	if schema == nil {
		schema = &wire.Spec{Object: &wire.Object{}}
	}
	spec, err := decoder("", schema, 0)
	if err != nil {
		return nil, fmt.Errorf("the plugin's schema: %w", err)
	}
	if config == nil {
		config = map[string]any{}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: %w", path, err)
	}
	f, diags := hcljson.Parse(text, path)
	if diags.HasErrors() {
		return nil, berth.Errorf(berth.Invalid, "%s: %s", path, words(diags))
	}
	// Without a context texts are taken as they are: they were interpolated before.
	v, diags := hcldec.Decode(f.Body, spec, nil)
	if diags.HasErrors() {
		return nil, berth.Errorf(berth.Invalid, "%s: %s", path, words(diags))
	}
	return ctymsgpack.Marshal(v, v.Type())
}

// words returns what is wrong, without places in a text that nobody wrote.
func words(diags hcl.Diagnostics) string {
	var all []string
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			all = append(all, strings.TrimSuffix(d.Detail, "."))
		}
	}
	return strings.Join(all, "; ")
}

// functions are those that literals of schemas may use.
var functions = map[string]function.Function{
	"abs": stdlib.AbsoluteFunc, "coalesce": stdlib.CoalesceFunc, "concat": stdlib.ConcatFunc, "hasindex": stdlib.HasIndexFunc, "int": stdlib.IntFunc,
	"jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "length": stdlib.LengthFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc,
	"min": stdlib.MinFunc, "reverse": stdlib.ReverseFunc, "strlen": stdlib.StrlenFunc, "substr": stdlib.SubstrFunc, "upper": stdlib.UpperFunc,
}

// decoder turns a schema into one of hcldec. name is that of the attribute of the
// object around it, which stands for a name that is left out.
func decoder(name string, s *wire.Spec, depth int) (hcldec.Spec, error) {
	if s == nil {
		return nil, fmt.Errorf("%q has no specification", name)
	}
	if depth > schemaDepth {
		return nil, fmt.Errorf("it is more than %d deep", schemaDepth)
	}
	named := func(own string) string {
		if own != "" {
			return own
		}
		return name
	}
	nested := func(in *wire.Spec) (hcldec.Spec, error) { return decoder("", in, depth+1) }
	switch {
	case s.Object != nil:
		out := hcldec.ObjectSpec{}
		for key, in := range s.Object.Attributes {
			spec, err := decoder(key, in, depth+1)
			if err != nil {
				return nil, err
			}
			out[key] = spec
		}
		return out, nil
	case s.Array != nil:
		out := hcldec.TupleSpec{}
		for _, in := range s.Array.Values {
			spec, err := nested(in)
			if err != nil {
				return nil, err
			}
			out = append(out, spec)
		}
		return out, nil
	case s.Attr != nil:
		t, err := typeOf(s.Attr.Type)
		return &hcldec.AttrSpec{Name: named(s.Attr.Name), Type: t, Required: s.Attr.Required}, err
	case s.Block != nil:
		in, err := nested(s.Block.Nested)
		return &hcldec.BlockSpec{TypeName: named(s.Block.Name), Nested: in, Required: s.Block.Required}, err
	case s.BlockAttrs != nil:
		t, err := typeOf(s.BlockAttrs.Type)
		return &hcldec.BlockAttrsSpec{TypeName: named(s.BlockAttrs.Name), ElementType: t, Required: s.BlockAttrs.Required}, err
	case s.BlockList != nil:
		in, err := nested(s.BlockList.Nested)
		return &hcldec.BlockListSpec{TypeName: named(s.BlockList.Name), Nested: in, MinItems: int(s.BlockList.Min), MaxItems: int(s.BlockList.Max)}, err
	case s.BlockSet != nil:
		in, err := nested(s.BlockSet.Nested)
		return &hcldec.BlockSetSpec{TypeName: named(s.BlockSet.Name), Nested: in, MinItems: int(s.BlockSet.Min), MaxItems: int(s.BlockSet.Max)}, err
	case s.BlockMap != nil:
		in, err := nested(s.BlockMap.Nested)
		return &hcldec.BlockMapSpec{TypeName: named(s.BlockMap.Name), LabelNames: s.BlockMap.Labels, Nested: in}, err
	case s.Default != nil:
		primary, err := decoder(name, s.Default.Primary, depth+1)
		if err != nil {
			return nil, err
		}
		other, err := decoder(name, s.Default.Default, depth+1)
		return &hcldec.DefaultSpec{Primary: primary, Default: other}, err
	case s.Literal != nil:
		v, err := evaluate(s.Literal.Value)
		return &hcldec.LiteralSpec{Value: v}, err
	}
	return nil, fmt.Errorf("%q is of a kind that this agent does not know", name)
}

// typeOf reads a type expression; "" is any type.
func typeOf(s string) (cty.Type, error) {
	if s == "" {
		return cty.DynamicPseudoType, nil
	}
	x, diags := hclsyntax.ParseExpression([]byte(s), "type", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilType, fmt.Errorf("type %q: %s", s, words(diags))
	}
	t, diags := typeexpr.TypeConstraint(x)
	if diags.HasErrors() {
		return cty.NilType, fmt.Errorf("type %q: %s", s, words(diags))
	}
	return t, nil
}

// evaluate returns the value of an expression.
func evaluate(s string) (cty.Value, error) {
	x, diags := hclsyntax.ParseExpression([]byte(s), "literal", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal, fmt.Errorf("literal %q: %s", s, words(diags))
	}
	v, diags := x.Value(&hcl.EvalContext{Functions: functions})
	if diags.HasErrors() {
		return cty.NilVal, fmt.Errorf("literal %q: %s", s, words(diags))
	}
	return v, nil
}
