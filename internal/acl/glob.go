package acl

import (
	"strings"

	"berth/internal/glob"
)

// isGlob reports whether a label stands for more than one name.
func isGlob(label string) bool { return strings.Contains(label, "*") }

// letters is how much of a name a label spells out.
func letters(label string) int { return len(label) - strings.Count(label, "*") }

// match reports whether a name matches a label.
func match(label, name string) bool { return glob.Match(label, name) }
