// Package condition evaluates constraints and affinities: it compares the value
// of a node's or device's attribute with a second value.
package condition

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"berth"

	"github.com/hashicorp/go-version"
)

// Meets reports whether a condition holds for the values of its two sides. A
// missing attribute meets only != and is_not_set.
func Meets(operand, left string, hasLeft bool, right string, hasRight bool) bool {
	switch operand {
	case berth.OpIsSet:
		return hasLeft
	case berth.OpIsNotSet:
		return !hasLeft
	case berth.OpNotEqual, "not":
		return hasLeft != hasRight || left != right
	}
	if !hasLeft || !hasRight {
		return false
	}
	switch operand {
	case berth.OpEqual, "==", "is":
		return left == right
	case berth.OpLess, berth.OpLessEqual, berth.OpGreater, berth.OpGreaterEqual:
		return ordered(operand, compare(left, right))
	case berth.OpRegexp:
		re := compiled(right)
		return re != nil && re.MatchString(left)
	case berth.OpVersion:
		return inVersions(left, right)
	case berth.OpSemver:
		return inSemver(left, right)
	case berth.OpSetContains, berth.OpSetContainsAll:
		return containsSet(left, right, true)
	case berth.OpSetContainsAny:
		return containsSet(left, right, false)
	}
	return false
}

// ordered reports whether the result c of a comparison meets the operand, which
// is <, <=, > or >=.
func ordered(operand string, c int) bool {
	switch operand {
	case berth.OpLess:
		return c < 0
	case berth.OpLessEqual:
		return c <= 0
	case berth.OpGreater:
		return c > 0
	}
	return c >= 0
}

// compare orders two values: as integers if both are, otherwise as numbers if
// both are, otherwise as text.
func compare(a, b string) int {
	if x, err := strconv.ParseInt(a, 10, 64); err == nil {
		if y, err := strconv.ParseInt(b, 10, 64); err == nil {
			return sign(x < y, x > y)
		}
	}
	if x, err := strconv.ParseFloat(a, 64); err == nil {
		if y, err := strconv.ParseFloat(b, 64); err == nil {
			return sign(x < y, x > y)
		}
	}
	return strings.Compare(a, b)
}

// sign returns -1, 0 or 1.
func sign(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}

// containsSet reports whether the list left has all elements of the list right,
// or at least one of them.
func containsSet(left, right string, all bool) bool {
	have := splitSet(left)
	for _, want := range splitSet(right) {
		if slices.Contains(have, want) != all {
			return !all
		}
	}
	return all
}

// splitSet splits a comma-separated list and trims the elements.
func splitSet(s string) []string {
	out := strings.Split(s, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// inVersions reports whether a version is in a range, by the rules of package
// managers: a prerelease is only in ranges that name a prerelease.
func inVersions(left, right string) bool {
	v, err := version.NewVersion(left)
	if err != nil {
		return false
	}
	c, err := version.NewConstraint(right)
	return err == nil && c.Check(v)
}

// CheckVersions returns an error unless text is a list of comparisons that the
// version operators can read.
func CheckVersions(text string) error {
	_, err := version.NewConstraint(text)
	return err
}

// inSemver reports whether a version meets every comparison of a list, such as
// ">= 1.6, < 2", by the order of Semantic Versioning 2.0: a prerelease sorts
// before its release and has no other special role.
func inSemver(left, right string) bool {
	v, err := version.NewSemver(left)
	if err != nil {
		return false
	}
	for part := range strings.SplitSeq(right, ",") {
		part = strings.TrimSpace(part)
		number := strings.TrimLeft(part, "<>=!~")
		w, err := version.NewSemver(strings.TrimSpace(number))
		if err != nil || !compares(part[:len(part)-len(number)], v.Compare(w)) {
			return false
		}
	}
	return true
}

// compares reports whether an operator accepts the result of a comparison.
func compares(operand string, c int) bool {
	switch operand {
	case "", berth.OpEqual:
		return c == 0
	case berth.OpNotEqual:
		return c != 0
	case berth.OpLess, berth.OpLessEqual, berth.OpGreater, berth.OpGreaterEqual:
		return ordered(operand, c)
	}
	return false
}

// regexps caches compiled expressions, because jobs use the same ones again and
// again.
var regexps = struct {
	sync.Mutex
	byText map[string]*regexp.Regexp
}{byText: map[string]*regexp.Regexp{}}

// maxRegexps is how many compiled expressions are kept.
const maxRegexps = 1000

// compiled returns the compiled expression, nil if it is invalid.
func compiled(text string) *regexp.Regexp {
	regexps.Lock()
	defer regexps.Unlock()
	re, ok := regexps.byText[text]
	if !ok {
		if len(regexps.byText) >= maxRegexps {
			clear(regexps.byText)
		}
		re, _ = regexp.Compile(text)
		regexps.byText[text] = re
	}
	return re
}
