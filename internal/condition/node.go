package condition

import (
	"cmp"
	"strings"

	"berth"
)

// Resolve returns the value of a constraint's target on a node of a region, which
// is global if it is not given. A target that is not an interpolation is its own
// value; one whose attribute the node lacks has none.
func Resolve(target string, n *berth.Node, region string) (string, bool) {
	inner, ok := strings.CutPrefix(target, "${")
	if !ok {
		return target, true
	}
	inner = strings.TrimSuffix(inner, "}")
	kind, key, _ := strings.Cut(inner, ".")
	switch kind {
	case "attr":
		v, ok := n.Attributes[key]
		return v, ok
	case "meta":
		v, ok := n.Meta[key]
		return v, ok
	case "node":
		switch key {
		case "unique.id":
			return n.ID.String(), true
		case "unique.name":
			return n.Name, true
		case "datacenter":
			return n.Datacenter, true
		case "class":
			return n.NodeClass, true
		case "pool":
			return n.NodePool, true
		case "region":
			return cmp.Or(region, berth.DefaultRegion), true
		}
	}
	return "", false
}
