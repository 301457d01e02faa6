package berth

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-version"
)

// Meets says whether a condition holds for the values of its two sides. An
// attribute that is absent meets only != and is_not_set.
func Meets(operand, left string, hasLeft bool, right string, hasRight bool) bool {
	switch operand {
	case OpIsSet:
		return hasLeft
	case OpIsNotSet:
		return !hasLeft
	case OpNotEqual, "not":
		return hasLeft != hasRight || left != right
	}
	if !hasLeft || !hasRight {
		return false
	}
	switch operand {
	case OpEqual, "==", "is":
		return left == right
	case OpLess, OpLessEqual, OpGreater, OpGreaterEqual:
		return ordered(operand, compare(left, right))
	case OpRegexp:
		re := compiled(right)
		return re != nil && re.MatchString(left)
	case OpVersion:
		return inVersions(left, right)
	case OpSemver:
		return inSemver(left, right)
	case OpSetContains, OpSetContainsAll:
		return containsSet(left, right, true)
	case OpSetContainsAny:
		return containsSet(left, right, false)
	}
	return false
}

func ordered(operand string, c int) bool {
	switch operand {
	case OpLess:
		return c < 0
	case OpLessEqual:
		return c <= 0
	case OpGreater:
		return c > 0
	}
	return c >= 0
}

// compare orders two values: as whole numbers if both are, else as numbers if
// both are, else as text.
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

func sign(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}

func containsSet(left, right string, all bool) bool {
	have := splitSet(left)
	for _, want := range splitSet(right) {
		if slices.Contains(have, want) != all {
			return !all
		}
	}
	return all
}

func splitSet(s string) []string {
	out := strings.Split(s, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// inVersions says whether a version is in a range of them, as package managers
// mean it: a prerelease is in no range that does not name one.
func inVersions(left, right string) bool {
	v, err := version.NewVersion(left)
	if err != nil {
		return false
	}
	c, err := version.NewConstraint(right)
	return err == nil && c.Check(v)
}

// inSemver says whether a version meets every comparison of a list, such as
// ">= 1.6, < 2", by the order of Semantic Versioning 2.0: a prerelease is below
// its release and above what came before, nothing more.
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

// compares says whether an operator accepts the outcome of a comparison.
func compares(operand string, c int) bool {
	switch operand {
	case "", OpEqual:
		return c == 0
	case OpNotEqual:
		return c != 0
	case OpLess, OpLessEqual, OpGreater, OpGreaterEqual:
		return ordered(operand, c)
	}
	return false
}

// regexps keeps compiled expressions: jobs come again and again with the same.
var regexps = struct {
	sync.Mutex
	byText map[string]*regexp.Regexp
}{byText: map[string]*regexp.Regexp{}}

const mostRegexps = 1000

// compiled returns the expression, nil if it is none.
func compiled(text string) *regexp.Regexp {
	regexps.Lock()
	defer regexps.Unlock()
	re, ok := regexps.byText[text]
	if !ok {
		if len(regexps.byText) >= mostRegexps {
			clear(regexps.byText)
		}
		re, _ = regexp.Compile(text)
		regexps.byText[text] = re
	}
	return re
}
