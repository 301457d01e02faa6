// Package validate says what is wrong with what operators and users store beside
// jobs: namespaces, quotas, node pools, variables, policies, settings of the
// cluster. The API, the command line and the commands of the state ask it alike,
// so what one accepts the others do. Each function returns all problems at once,
// with the paths of their fields. Package admit does the same for jobs.
package validate

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"berth"
)

// Meta notes keys of meta that cannot be used, and values that are not
// valid UTF-8.
func Meta(ps *berth.Problems, path string, meta map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		if k == "" || strings.ContainsRune(k, 0) || !utf8.ValidString(k) || !utf8.ValidString(meta[k]) {
			ps.Addf(path, "%q is not a usable key, or its value is not valid UTF-8", berth.Clip(k, 64))
		}
	}
}
