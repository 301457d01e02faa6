package place

import (
	"strings"

	"berth"
	"berth/internal/condition"
	"berth/internal/state"
)

// resolve returns the value of a target on a node; see condition.Resolve.
func resolve(target string, n *berth.Node) (string, bool) { return condition.Resolve(target, n) }

// unique reports whether a target's value can differ between nodes of one
// class, so that each node must be checked.
func unique(target string) bool {
	inner, ok := strings.CutPrefix(target, "${")
	if !ok {
		return false
	}
	_, key, _ := strings.Cut(inner, ".")
	return state.UniqueKey(key)
}
