package jobspec

import (
	"fmt"
	"slices"

	"berth"

	"berth/internal/decode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// iteratorOf returns the name of the current element in a dynamic block.
func iteratorOf(b *hclsyntax.Block) string {
	if a := b.Body.Attributes["iterator"]; a != nil {
		return hcl.ExprAsKeyword(a.Expr)
	}
	if len(b.Labels) == 1 {
		return b.Labels[0]
	}
	return ""
}

// dynamicAttrs are the attributes of a dynamic block, in order.
var dynamicAttrs = []string{"for_each", "iterator", "labels"}

// dynamic calls each for every block that a dynamic block generates.
func (w *walker) dynamic(b *hclsyntax.Block, ctx *hcl.EvalContext, path string, each func(instance)) {
	w.m.block(b.DefRange())
	if len(b.Labels) != 1 || b.Labels[0] == "" {
		w.problems.add(b.DefRange(), decode.Join(path, "dynamic"), `a dynamic block needs the name of the block that it generates: write dynamic "name" { … }`)
		return
	}
	kind := b.Labels[0]
	here := fmt.Sprintf("%s[%s]", decode.Join(path, "dynamic"), berth.Clip(kind, 64))
	content, ok := w.dynamicContent(b, here)
	if !ok {
		return
	}
	iterator := iteratorOf(b)
	if iterator == "" {
		w.problems.add(b.Body.Attributes["iterator"].Expr.Range(), here+".iterator", "must be an identifier without quotes")
		return
	}
	all := w.eval(b.Body.Attributes["for_each"].Expr, ctx, here+".for_each")
	// An unknown collection had a problem before, so it is not reported
	// again.
	all, _ = all.Unmark()
	rng := b.Body.Attributes["for_each"].Expr.Range()
	switch {
	case !all.IsKnown():
		return
	case all.IsNull(), !all.CanIterateElements():
		w.problems.add(rng, here+".for_each", "must be a list, set or map")
		return
	}
	for it := all.ElementIterator(); it.Next(); {
		w.m.blame = rng
		w.m.step(16)
		key, value := it.Element()
		// Each generated block sees its own element through the
		// iterator.
		inner := ctx.NewChild()
		inner.Variables = map[string]cty.Value{iterator: cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})}
		labels, ok := w.dynamicLabels(b, inner, here)
		if !ok {
			return
		}
		each(instance{kind, labels, content.Body, inner, content.DefRange()})
	}
}

// dynamicContent checks the form of a dynamic block and returns its content
// block. ok is false if there was a problem; content can then still be set and
// must not be used.
func (w *walker) dynamicContent(b *hclsyntax.Block, path string) (content *hclsyntax.Block, ok bool) {
	ok = true
	bad := func(rng hcl.Range, at, text string) {
		w.problems.add(rng, at, text)
		ok = false
	}
	for _, a := range inOrder(b.Body.Attributes) {
		if !slices.Contains(dynamicAttrs, a.Name) {
			bad(a.NameRange, decode.Join(path, a.Name), "unknown attribute of a dynamic block"+meant(a.Name, dynamicAttrs))
		}
	}
	for _, inner := range b.Body.Blocks {
		switch {
		case inner.Type != "content":
			bad(inner.DefRange(), decode.Join(path, inner.Type), "unknown block: a dynamic block can only have content { … }")
		case content != nil:
			bad(inner.DefRange(), decode.Join(path, inner.Type), "is defined twice")
		case len(inner.Labels) > 0:
			bad(inner.DefRange(), decode.Join(path, inner.Type), "content takes no label; use the attribute labels")
		default:
			content = inner
		}
	}
	// A content block that was refused above is not missing as well.
	if content == nil && ok {
		bad(b.DefRange(), path, "needs a content { … } block")
	}
	if b.Body.Attributes["for_each"] == nil {
		bad(b.DefRange(), path, "needs for_each")
	}
	return content, ok
}

// dynamicLabels returns the labels that each generated block gets, none if the
// attribute is absent. They must be known now: a reference that only the agent
// can resolve is a problem. ok is false if one was noted.
func (w *walker) dynamicLabels(b *hclsyntax.Block, ctx *hcl.EvalContext, path string) ([]string, bool) {
	a := b.Body.Attributes["labels"]
	if a == nil {
		return nil, true
	}
	// A label is part of the job's structure, which the agent cannot fill
	// in.
	known := &knownNow{Expression: a.Expr, m: w.m, what: "a label"}
	v, ok := w.value(known, ctx, path+".labels")
	if !ok {
		return nil, false
	}
	list, ok := v.([]any)
	var labels []string
	for _, x := range list {
		switch x := x.(type) {
		case string:
			labels = append(labels, x)
		case decode.Number:
			labels = append(labels, string(x))
		default:
			ok = false
		}
	}
	if !ok {
		w.problems.add(a.Expr.Range(), path+".labels", "must be a list of strings")
	}
	return labels, ok
}
