package place

import (
	"strings"

	"berth/internal/state"
)

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
