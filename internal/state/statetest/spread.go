package statetest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// spreads sets the spread blocks that a line gives under a name: an attribute,
// an optional weight, and targets as value=percent.
func spreads(t testing.TB, l *Line, tree map[string]any, group, name string) {
	t.Helper()
	var out []any
	for _, prefix := range slices.Compact([]string{"", group}) {
		for i := 1; ; i++ {
			text := named(l, prefix, name, i)
			if text == "" {
				break
			}
			words := strings.Fields(text)
			block := map[string]any{"Attribute": words[0]}
			var targets []any
			for _, w := range words[1:] {
				// VALUE=PERCENT is a target, a number alone the weight.
				value, percent, isTarget := strings.Cut(w, "=")
				n, err := strconv.Atoi(percent)
				if !isTarget {
					n, err = strconv.Atoi(w)
					block["Weight"] = n
				} else {
					targets = append(targets, map[string]any{"Value": value, "Percent": n})
				}
				if err != nil {
					t.Fatalf("%s: %q is neither a weight nor a target", l, w)
				}
			}
			if targets != nil {
				block["SpreadTarget"] = targets
			}
			out = append(out, block)
		}
	}
	if out != nil {
		tree["Spreads"] = out
	}
}
