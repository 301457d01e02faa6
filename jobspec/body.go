package jobspec

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"berth/internal/decode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth"
)

// walker turns bodies into trees with the fields of the structs that they will
// fill.
type walker struct{ *scope }

// instance is a block that was written or that a dynamic block generated.
type instance struct {
	kind   string // the block's type
	labels []string
	body   *hclsyntax.Body
	ctx    *hcl.EvalContext // what its expressions can refer to
	rng    hcl.Range        // where problems of the block are reported
}

// body reads the block of a struct into out, and the places of its fields into
// at.
func (w *walker) body(b *hclsyntax.Body, s *shape, ctx *hcl.EvalContext, out decode.Tree, at *place, path string) {
	for _, a := range inOrder(b.Attributes) {
		w.attribute(a, s, ctx, out, at, path)
	}
	w.blocks(b, ctx, path, func(in instance) {
		field, ok := s.fields[in.kind]
		switch {
		case !ok:
			w.unknownBlock(in, s, at, path)
		case field.form == attribute:
			w.problems.add(in.rng, decode.Join(path, in.kind), fmt.Sprintf("is an attribute; write %s = …", in.kind))
			at.fault(in.kind, in.rng)
		default:
			w.block(in, field, out, at, path)
		}
	})
}

// attribute evaluates one attribute and stores it under the key of its field.
// An unknown name, or a block written with =, is noted as a problem; the place
// of the field it was meant for is then faulty, so that it is not also reported
// missing.
func (w *walker) attribute(a *hclsyntax.Attribute, s *shape, ctx *hcl.EvalContext, out decode.Tree, at *place, path string) {
	field, ok := s.fields[a.Name]
	here := decode.Join(path, a.Name)
	switch {
	case !ok:
		w.problems.add(a.NameRange, here, "unknown attribute"+instead(a.Name, s.names, s.attributes()))
		at.fault(decode.Nearest(a.Name, s.names), a.NameRange)
		return
	case field.form == oneBlock || field.form == manyBlocks || field.form == labeledBlocks:
		w.problems.add(a.NameRange, here, fmt.Sprintf("is a block; write %s { … } without =", a.Name))
		at.fault(a.Name, a.NameRange)
		return
	}
	v, ok := w.value(a.Expr, ctx, here)
	p := at.field(a.Name, a.NameRange)
	if !ok {
		p.faulty = true
		return
	}
	w.keyPlaces(a.Expr, p)
	if v != nil {
		field.home(out)[field.key] = v
	}
}

// keyPlaces notes the places of the keys of an object literal.
func (w *walker) keyPlaces(e hclsyntax.Expression, p *place) {
	m, is := e.(*metered)
	if !is {
		return
	}
	object, is := m.Expression.(*hclsyntax.ObjectConsExpr)
	if !is {
		return
	}
	for _, it := range object.Items {
		if k, diags := it.KeyExpr.Value(nil); !diags.HasErrors() && k.Type() == cty.String && k.IsKnown() && !k.IsMarked() && !k.IsNull() {
			p.field(k.AsString(), it.KeyExpr.Range())
		}
	}
}

// value evaluates an expression of the job.
func (w *walker) value(e hclsyntax.Expression, ctx *hcl.EvalContext, path string) (any, bool) {
	v := w.eval(e, ctx, path)
	w.m.blame, w.m.path = e.Range(), path
	w.m.look(v)
	w.m.path = ""
	return treeOf(v)
}

// block reads a block into the field it belongs to.
func (w *walker) block(in instance, f *slot, out decode.Tree, at *place, path string) {
	w.m.block(in.rng)
	out = f.home(out)
	here := decode.Join(path, in.kind)
	if f.form == textMap || f.form == freeMap {
		w.mapBlock(in, f, out, at, here)
		return
	}
	s := shapeOf(f.elem)
	tree := decode.Tree{}
	// Without a valid label the block has no name to store it under.
	if !w.label(in, f, s, tree, here) {
		at.fault(in.kind, in.rng)
		return
	}
	switch f.form {
	case oneBlock:
		if out[f.key] != nil {
			w.problems.add(in.rng, here, "is defined twice")
			return
		}
		out[f.key] = tree
		w.fill(in, f.elem, tree, at.field(in.kind, in.rng), here)
	case labeledBlocks:
		all, _ := out[f.key].(decode.Tree)
		if all == nil {
			all = decode.Tree{}
			out[f.key] = all
		}
		key := in.labels[0]
		here = fmt.Sprintf("%s[%s]", here, berth.Clip(key, 64))
		if all[key] != nil {
			w.problems.add(in.rng, here, "is defined twice")
			return
		}
		all[key] = tree
		w.fill(in, f.elem, tree, at.field(in.kind, in.rng).field(key, in.rng), here)
	default:
		// A list of blocks: problems name an element by its label, else
		// by its number.
		list, _ := out[f.key].([]any)
		p := newPlace(in.rng)
		name := fmt.Sprint(len(list))
		if len(in.labels) > 0 {
			name = berth.Clip(in.labels[0], 64)
		}
		w.fill(in, f.elem, tree, p, fmt.Sprintf("%s[%s]", here, name))
		out[f.key] = append(list, tree)
		group := at.field(in.kind, in.rng)
		group.items = append(group.items, item{itemName(tree), p})
	}
}

// itemName returns the name of a list item in paths.
func itemName(tree decode.Tree) string {
	for _, key := range []string{"Name", "Label"} {
		if s, ok := tree[key].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// label checks a block's label and stores it in its field.
func (w *walker) label(in instance, f *slot, s *shape, tree decode.Tree, path string) bool {
	want := 0
	if s.label != nil || f.form == labeledBlocks {
		want = 1
	}
	if f.elem == reflect.TypeFor[berth.ScalingPolicy]() && f.form == manyBlocks { // of a task: "cpu" or "mem"
		want = 1
	}
	if len(in.labels) != want {
		w.problems.add(in.rng, path, labelProblem(in.kind, want, len(in.labels)))
		return false
	}
	if want == 1 {
		key := "Type"
		text := in.labels[0]
		if s.label != nil {
			key = s.label.key
		} else if text == "cpu" || text == "mem" {
			text = "vertical_" + text
		}
		tree[key] = text
	}
	return true
}

// labelProblem returns the text for a block that has the wrong number of
// labels. want is 0 or 1 and differs from have.
func labelProblem(kind string, want, have int) string {
	switch {
	case want == 0:
		return fmt.Sprintf("%s takes no label; write %s { … }", kind, kind)
	case have == 0:
		return fmt.Sprintf("%s needs a label; write %s \"name\" { … }", kind, kind)
	}
	return fmt.Sprintf("%s takes one label, got %d", kind, have)
}

// mapBlock reads a block with arbitrary keys.
func (w *walker) mapBlock(in instance, f *slot, out decode.Tree, at *place, path string) {
	if len(in.labels) > 0 {
		w.problems.add(in.rng, path, labelProblem(in.kind, 0, len(in.labels)))
		at.fault(in.kind, in.rng)
		return
	}
	if out[f.key] != nil {
		w.problems.add(in.rng, path, "is defined twice")
		return
	}
	p := at.field(in.kind, in.rng)
	if f.form == freeMap {
		out[f.key] = w.free(in, p, path)
		return
	}
	tree := decode.Tree{}
	for _, a := range inOrder(in.body.Attributes) {
		v, ok := w.value(a.Expr, in.ctx, decode.Join(path, a.Name))
		kp := p.field(a.Name, a.NameRange)
		kp.faulty = !ok
		if ok && v != nil {
			tree[a.Name] = v
		}
	}
	w.blocks(in.body, in.ctx, path, func(inner instance) {
		w.problems.add(inner.rng, decode.Join(path, inner.kind), fmt.Sprintf("is not a block; write %s = …", inner.kind))
	})
	out[f.key] = tree
}

// free reads a body with arbitrary content, such as a driver's config. Blocks
// become lists of objects, with one level for each label, as in the API.
func (w *walker) free(in instance, at *place, path string) decode.Tree {
	tree := decode.Tree{}
	for _, a := range inOrder(in.body.Attributes) {
		v, ok := w.value(a.Expr, in.ctx, decode.Join(path, a.Name))
		kp := at.field(a.Name, a.NameRange)
		kp.faulty = !ok
		if ok && v != nil {
			tree[a.Name] = v
		}
	}
	w.blocks(in.body, in.ctx, path, func(inner instance) {
		w.m.block(inner.rng)
		here := decode.Join(path, inner.kind)
		list, isList := tree[inner.kind].([]any)
		if tree[inner.kind] != nil && (!isList || at.fields[inner.kind].items == nil) {
			w.problems.add(inner.rng, here, "is already defined as an attribute")
			return
		}
		p := newPlace(inner.rng)
		var v any = w.free(inner, p, here)
		for _, label := range slices.Backward(inner.labels) {
			v = decode.Tree{label: []any{v}}
		}
		tree[inner.kind] = append(list, v)
		group := at.field(inner.kind, inner.rng)
		group.items = append(group.items, item{at: p})
	})
	return tree
}

// unknownBlock notes a block that the shape does not have, and proposes the
// nearest name. "dynamic" is allowed in every block.
func (w *walker) unknownBlock(in instance, s *shape, at *place, path string) {
	names := append(slices.Clone(s.names), "dynamic")
	w.problems.add(in.rng, decode.Join(path, in.kind), "unknown block"+instead(in.kind, names, append(s.blocks(), "dynamic")))
	at.fault(decode.Nearest(in.kind, names), in.rng)
}

// blocks calls each for every block of a body, generated ones included, in the
// order of the text.
func (w *walker) blocks(b *hclsyntax.Body, ctx *hcl.EvalContext, path string, each func(instance)) {
	for _, block := range b.Blocks {
		if block.Type == "dynamic" {
			w.dynamic(block, ctx, path, each)
			continue
		}
		each(instance{block.Type, block.Labels, block.Body, ctx, block.DefRange()})
	}
}

// keys returns the keys in order, so that problems come in the same order on
// each run.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
