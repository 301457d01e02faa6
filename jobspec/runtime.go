package jobspec

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// runtimeRoots begin the names that agents and schedulers fill in, as Nomad's
// public page on variable interpolation lists them: of the node, of a device
// that is asked for, of the task's environment, of its secrets.
var runtimeRoots = []string{"attr", "device", "env", "meta", "node", "secret", "unique"}

// isRuntime says whether only an agent knows what the traversal names. inText
// is true for one that stands alone in ${…}: there a single word is a variable
// of the task's environment.
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

// deferred is a mark on a value: part of it is text like ${attr.x} that an
// agent replaces. The mark is that text.
type deferred string

// runtimeValue is what stands for a name until an agent replaces it: the name
// as it was written, in ${…}.
func runtimeValue(name string) cty.Value {
	text := "${" + name + "}"
	return cty.StringVal(text).Mark(deferred(text))
}

// runtimeIn returns something in v that only an agent knows, or "".
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

// fixed is an expression whose value is settled, at the place of another.
func fixed(v cty.Value, at hcl.Range) hclsyntax.Expression {
	return &hclsyntax.LiteralValueExpr{Val: v, SrcRange: at}
}
