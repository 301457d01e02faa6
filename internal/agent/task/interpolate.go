package task

import (
	"strings"

	"berth"
)

// Names is what ${…} in a task's config, env and user can stand for: the node's
// properties, its attributes and metadata, and the task's environment. The
// words are those of Nomad's documentation of runtime interpolation.
type Names struct {
	Node   *berth.Node
	Region string
	Env    map[string]string

	Secrets map[string]string // by name and key, as in ${secret.name.key}
}

// Replace puts values in place of the names in s, once: a value is not looked
// at again. What stands for nothing stays as it is, for it may be meant for a
// shell.
func (n *Names) Replace(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i:]
		name, length := reference(s)
		if length == 0 {
			b.WriteString("${")
			s = s[2:]
			continue
		}
		if v, ok := n.lookup(name); ok {
			b.WriteString(v)
		} else {
			b.WriteString(s[:length])
		}
		s = s[length:]
	}
}

// reference reads ${name} or ${env["name"]} at the beginning of s and returns
// the name, and how long all of it is: 0 if it is not whole.
func reference(s string) (name string, length int) {
	if rest, ok := strings.CutPrefix(s, `${env["`); ok {
		if i := strings.Index(rest, `"]}`); i >= 0 {
			return `env["` + rest[:i], len(s) - len(rest) + i + len(`"]}`)
		}
		return "", 0
	}
	i := strings.IndexByte(s, '}')
	if i < 0 {
		return "", 0
	}
	return s[2:i], i + 1
}

// lookup returns the value of what stands between ${ and }, and whether the
// name stands for anything. The node comes before a variable of the same name.
func (n *Names) lookup(name string) (string, bool) {
	if v, ok := strings.CutPrefix(name, `env["`); ok {
		v, ok := n.Env[v]
		return v, ok
	}
	kind, rest, dotted := strings.Cut(name, ".")
	if kind == "secret" && dotted {
		v, ok := n.Secrets[rest]
		return v, ok
	}
	if dotted && n.Node != nil {
		switch kind {
		case "node":
			return n.property(rest)
		case "attr":
			v, ok := n.Node.Attributes[rest]
			return v, ok
		case "meta":
			v, ok := n.Node.Meta[rest]
			return v, ok
		}
	}
	v, ok := n.Env[name]
	return v, ok
}

// property returns the value of ${node.name}, for the few properties of a node
// that Nomad's documentation lists.
func (n *Names) property(name string) (string, bool) {
	switch name {
	case "unique.id":
		return n.Node.ID.String(), true
	case "unique.name":
		return n.Node.Name, true
	case "datacenter":
		return n.Node.Datacenter, true
	case "class":
		return n.Node.NodeClass, true
	case "pool":
		return n.Node.NodePool, true
	case "region":
		return n.Region, true
	}
	return "", false
}

// Value replaces in every string of a value as a driver's config holds them.
// Keys stay as they are.
func (n *Names) Value(v any) any {
	switch v := v.(type) {
	case string:
		return n.Replace(v)
	case []byte:
		return n.Replace(string(v))
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = n.Value(v[i])
		}
		return out
	case []string:
		out := make([]string, len(v))
		for i := range v {
			out[i] = n.Replace(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = n.Value(v[k])
		}
		return out
	}
	return v
}
