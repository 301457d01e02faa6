package jobspec

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// runtimeRoots are the first words of references that agents and schedulers
// resolve, as listed in Nomad's documentation of variable interpolation.
var runtimeRoots = []string{"attr", "device", "env", "meta", "node", "secret", "unique"}

// isRuntime reports whether only an agent can resolve the traversal. inText is
// true for the sole content of ${…}, where a single word is a variable of the
// task's environment.
func isRuntime(t hcl.Traversal, inText bool) bool {
	root := t.RootName()
	if strings.HasPrefix(root, "NOMAD_") {
		return true
	}
	for _, r := range runtimeRoots {
		if r == root {
			return len(t) > 1
		}
	}
	return inText && len(t) == 1
}

// deferred marks a value that contains text like ${attr.x}, which an agent
// replaces. The mark is that text.
type deferred string

// runtimeValue returns the value of a reference until an agent replaces it:
// ${…} with the reference as written.
func runtimeValue(name string) cty.Value {
	text := "${" + name + "}"
	return cty.StringVal(text).Mark(deferred(text))
}

// runtimeIn returns a reference in v that only an agent can resolve, or "".
func runtimeIn(v cty.Value) string {
	if !v.ContainsMarked() {
		return ""
	}
	_, marks := v.UnmarkDeep()
	least := ""
	for m := range marks {
		if d, ok := m.(deferred); ok && (least == "" || string(d) < least) {
			least = string(d)
		}
	}
	return least
}

// fixed returns an expression with a known value at a place in the text.
func fixed(v cty.Value, at hcl.Range) hclsyntax.Expression {
	return &hclsyntax.LiteralValueExpr{Val: v, SrcRange: at}
}
