package place

import (
	"strings"

	"berth"
	"berth/internal/state"
)

// resolve returns what a target of a constraint stands for on a node. A target
// that is no interpolation stands for itself; one whose attribute the node
// lacks stands for nothing.
func resolve(target string, n *berth.Node) (string, bool) {
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
			return berth.DefaultRegion, true
		}
	}
	return "", false
}

// unique says whether a target stands for something that nodes of one class
// do not share, so that each node must be asked.
func unique(target string) bool {
	inner, ok := strings.CutPrefix(target, "${")
	if !ok {
		return false
	}
	_, key, _ := strings.Cut(inner, ".")
	return state.UniqueKey(key)
}
