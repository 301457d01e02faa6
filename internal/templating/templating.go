// Package templating knows the language of templates: which functions there are,
// which of them Berth refuses and why, and what a text uses. It renders nothing:
// that is done by a confined process of the agent.
package templating

import (
	"fmt"
	"slices"
	"strings"
	"text/template/parse"

	"berth"
)

// refused are the functions that are not supported, with the reason.
var refused = map[string]string{}

func init() {
	for _, f := range strings.Fields("caLeaf caRoots connect datacenters exportedServices key keyExists keyOrDefault ls node nodes partitions peerings safeLs safeTree service services tree") {
		refused[f] = "needs Consul, which is not supported"
	}
	for _, f := range strings.Fields("pkiCert secret secrets") {
		refused[f] = "needs Vault, which is not supported"
	}
	for _, f := range strings.Fields("plugin writeToFile") {
		refused[f] = "would act on the host, which no template may"
	}
	for _, f := range strings.Fields("sockaddr sprig_getHostByName sprig_env sprig_expandenv") {
		refused[f] = "would read the host, which no template may"
	}
}

// instead says what stands for a refused function with us.
var instead = map[string]string{"key": "nomadVar", "secret": "nomadVar", "service": "nomadService", "services": "nomadServices", "ls": "nomadVarList"}

// Refused returns the names of the functions that are not supported, in order.
func Refused() (names []string) {
	for f := range refused {
		names = append(names, f)
	}
	slices.Sort(names)
	return names
}

// The functions of the library. A test of the renderer compares them with it.
var own = strings.Fields(`
	file nomadServices nomadService nomadVarList nomadVarListSafe nomadVar nomadVarExists scratch base64Decode base64Encode base64URLDecode
	base64URLEncode byKey byPort byTag contains containsAll containsAny containsNone containsNotAll env mustEnv envOrDefault executeTemplate explode
	explodeMap mergeMap mergeMapWithOverride in indent loop join trim trimPrefix trimSuffix trimSpace parseBool parseFloat parseInt parseJSON parseUint
	parseYAML regexReplaceAll regexMatch replaceAll sha256Hex md5sum hmacSHA256Hex timestamp toLower toJSON toJSONPretty toUnescapedJSON
	toUnescapedJSONPretty toTitle toTOML toUpper toYAML split splitToMap byMeta add subtract multiply divide modulo minimum maximum spew_dump
	spew_printf spew_sdump spew_sprintf`)

// builtin are the functions of Go's templates.
var builtin = strings.Fields("and or not len index slice print printf println html js urlquery call eq ne lt le gt ge break continue")

// Known reports whether there is a function of that name, refused ones included.
func Known(name string) bool {
	return refused[name] != "" || slices.Contains(own, name) || slices.Contains(builtin, name) || strings.HasPrefix(name, "sprig_")
}

// Check returns what is wrong with the text of a template: that it cannot be
// read, or uses a function that is not supported. "" as a delimiter is the
// usual one.
func Check(text, left, right string) error {
	t := parse.New("template")
	t.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := t.Parse(text, left, right, set); err != nil {
		return berth.Errorf(berth.Invalid, "cannot be read: %s", strings.TrimPrefix(err.Error(), "template: "))
	}
	var bad []string
	for _, tree := range set {
		if tree.Root != nil {
			walk(tree.Root, func(name string) {
				if why := why(name); why != "" && !slices.Contains(bad, why) {
					bad = append(bad, why)
				}
			})
		}
	}
	if t.Root != nil {
		walk(t.Root, func(name string) {
			if why := why(name); why != "" && !slices.Contains(bad, why) {
				bad = append(bad, why)
			}
		})
	}
	slices.Sort(bad)
	if len(bad) > 0 {
		return berth.Errorf(berth.Invalid, "%s", strings.Join(bad, "; "))
	}
	return nil
}

// why returns why a function cannot be used, or "".
func why(name string) string {
	switch reason := refused[name]; {
	case reason != "" && instead[name] != "":
		return fmt.Sprintf("the function %s %s; use %s", name, reason, instead[name])
	case reason != "":
		return fmt.Sprintf("the function %s %s", name, reason)
	case !Known(name):
		return fmt.Sprintf("there is no function %q", name)
	}
	return ""
}

// walk calls f with the name of each function that a node uses.
func walk(n parse.Node, f func(string)) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, c := range n.Nodes {
				walk(c, f)
			}
		}
	case *parse.ActionNode:
		walk(n.Pipe, f)
	case *parse.PipeNode:
		if n != nil {
			for _, c := range n.Cmds {
				walk(c, f)
			}
		}
	case *parse.CommandNode:
		for _, a := range n.Args {
			walk(a, f)
		}
	case *parse.ChainNode:
		walk(n.Node, f)
	case *parse.IdentifierNode:
		f(n.Ident)
	case *parse.IfNode:
		branch(&n.BranchNode, f)
	case *parse.RangeNode:
		branch(&n.BranchNode, f)
	case *parse.WithNode:
		branch(&n.BranchNode, f)
	case *parse.TemplateNode:
		walk(n.Pipe, f)
	}
}

func branch(b *parse.BranchNode, f func(string)) {
	walk(b.Pipe, f)
	walk(b.List, f)
	walk(b.ElseList, f)
}
