package acl

import "strings"

// isGlob reports whether a label stands for more than one name.
func isGlob(label string) bool { return strings.Contains(label, "*") }

// letters is how much of a name a label spells out.
func letters(label string) int { return len(label) - strings.Count(label, "*") }

// match reports whether a name matches a label, in which each * stands for any
// text, even none.
func match(label, name string) bool {
	parts := strings.Split(label, "*")
	if len(parts) == 1 {
		return label == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return true
}

// Match reports whether a name matches a pattern, in which each * stands for any
// text.
func Match(pattern, name string) bool { return match(pattern, name) }
