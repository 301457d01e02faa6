package jobspec

import (
	"math/big"
	"slices"
	"strconv"

	"berth/internal/decode"

	"github.com/zclconf/go-cty/cty"
)

// treeOf converts the value of an expression to a value in a tree. ok is false
// if part of it is unknown, whose problem has been noted. Null means absent,
// but stays in lists so that the positions of others do not change.
func treeOf(v cty.Value) (tree any, ok bool) {
	v, _ = v.Unmark()
	if !v.IsKnown() {
		return nil, false
	}
	if v.IsNull() {
		return nil, true
	}
	t := v.Type()
	switch {
	case t == cty.String:
		return v.AsString(), true
	case t == cty.Bool:
		return v.True(), true
	case t == cty.Number:
		return decode.Number(numberText(v.AsBigFloat())), true
	case t.IsListType(), t.IsSetType(), t.IsTupleType():
		out := make([]any, 0, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			_, x := it.Element()
			item, ok := treeOf(x)
			if !ok {
				return nil, false
			}
			out = append(out, item)
		}
		return out, true
	case t.IsMapType(), t.IsObjectType():
		out := make(decode.Tree, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			k, x := it.Element()
			item, ok := treeOf(x)
			if !ok {
				return nil, false
			}
			// null is the same as an absent key.
			if k, _ = k.Unmark(); item != nil {
				out[k.AsString()] = item
			}
		}
		return out, true
	}
	return nil, false // a type, which only convert knows what to do with
}

// numberText writes a number without an exponent, as job files do.
func numberText(f *big.Float) string {
	if i, accuracy := f.Int64(); accuracy == big.Exact {
		return strconv.FormatInt(i, 10)
	}
	return f.Text('f', -1)
}

// valueOf turns a tree that came from JSON into a value.
func valueOf(tree any) cty.Value {
	switch v := tree.(type) {
	case string:
		return cty.StringVal(v)
	case bool:
		return cty.BoolVal(v)
	case decode.Number:
		n, err := cty.ParseNumberVal(string(v))
		if err != nil {
			return cty.StringVal(string(v))
		}
		return n
	case []any:
		out := make([]cty.Value, len(v))
		for i := range v {
			out[i] = valueOf(v[i])
		}
		return cty.TupleVal(slices.Clip(out))
	case decode.Tree:
		out := make(map[string]cty.Value, len(v))
		for k, x := range v {
			out[k] = valueOf(x)
		}
		return cty.ObjectVal(out)
	}
	return cty.NullVal(cty.DynamicPseudoType)
}
