package condition

import (
	"fmt"
	"strings"
	"testing"

	"berth"
)

// Every operator, on values that are there and that are not. "-" is absent.
func TestMeets(t *testing.T) {
	for _, c := range []struct {
		left, operand, right string
		want                 bool
	}{
		{"a", "=", "a", true}, {"a", "==", "a", true}, {"a", "is", "a", true}, {"a", "=", "b", false}, {"-", "=", "a", false}, {"-", "=", "-", false},
		{"a", "!=", "b", true}, {"a", "not", "b", true}, {"a", "!=", "a", false}, {"-", "!=", "a", true}, {"a", "!=", "-", true}, {"-", "!=", "-", false},
		{"9", "<", "10", true}, {"10", "<", "9", false}, {"9", "<", "9", false}, {"9", "<=", "9", true}, {"a", "<", "b", true}, {"B", "<", "a", true},
		{"10", ">", "9", true}, {"10", ">", "10", false}, {"10", ">=", "10", true}, {"b", ">", "a", true}, {"-", ">", "0", false}, {"-", "<", "9", false},
		{"1.5", ">", "1.25", true}, {"1.5", "<", "2", true}, {"10", ">", "9.5", true}, {"-3", "<", "-2", true}, {"1e3", ">", "999", true},
		{"9007199254740993", ">", "9007199254740992", true}, // whole numbers, not floats
		{"10", "<", "9a", true},                             // text, since one is no number
		{"linux-6.1", "regexp", "^linux", true}, {"linux", "regexp", "^x", false}, {"-", "regexp", ".*", false}, {"a", "regexp", "(", false},
		{"1.10", "version", ">= 1.9", true}, {"1.10", "version", "> 1.9, < 1.10", false}, {"v2", "version", "~> 2.0", true}, {"1", "version", "= 1.0.0", true},
		{"1.7.0-beta", "version", ">= 1.6", false}, {"x", "version", ">= 0", false}, {"-", "version", ">= 0", false}, {"1", "version", "nonsense", false},
		{"1.7.0-beta", "semver", ">= 1.6.0", true}, {"1.7.0-beta", "semver", ">= 1.7.0", false}, {"1.7", "semver", ">= 1", true},
		{"1.7.0-rc1", "semver", ">= 1.6.0-beta1", true}, {"1.7.0", "semver", ">1.6,<2, != 1.7.0", false}, {"1.7.0", "semver", "1.7.0", true},
		{"1.7.0", "semver", "= 1.7.0", true}, {"1.7.0-a", "semver", "< 1.7.0", true}, {"x", "semver", ">= 1", false}, {"1.7.0", "semver", "~> 1.0", false},
		{"1.7.0", "semver", "nonsense", false}, {"-", "semver", ">= 0", false},
		{"a,b,c", "set_contains", "c,a", true}, {"a, b", "set_contains", " b ,a", true}, {"a,b", "set_contains_all", "a,c", false}, {"-", "set_contains", "a", false},
		{"a,b", "set_contains_any", "c,b", true}, {"a,b", "set_contains_any", "c,d", false}, {"ab", "set_contains_any", "a", false},
		{"a", "is_set", "-", true}, {"", "is_set", "-", true}, {"-", "is_set", "-", false}, {"-", "is_not_set", "-", true}, {"a", "is_not_set", "-", false},
		{"a", "unheard of", "a", false},
	} {
		t.Run(fmt.Sprint(c.left, " ", c.operand, " ", c.right), func(t *testing.T) {
			if got := Meets(c.operand, c.left, c.left != "-", c.right, c.right != "-"); got != c.want {
				t.Errorf("is %v", got)
			}
		})
	}
}

// What was parsed is kept: the same text is read once. The number and the size
// of what is kept are bounded, and a text too long to keep still works.
func TestParsedConditionsAreKeptAndBounded(t *testing.T) {
	if a, b := Parse(berth.OpVersion, ">= 1.2, < 2"), Parse(berth.OpVersion, ">= 1.2, < 2"); a != b {
		t.Error("parsed twice")
	}
	if Parse(berth.OpSemver, ">= 1.2, < 2") == Parse(berth.OpVersion, ">= 1.2, < 2") {
		t.Error("two operators share a result")
	}
	for i := range 3 * maxParsed {
		Parse(berth.OpRegexp, fmt.Sprint("x", i))
	}
	long := ">= 1.0" + strings.Repeat(", >= 1.0", maxCachedText/16)
	for i := range 2 * maxParsedBytes / len(long) {
		Parse(berth.OpVersion, fmt.Sprint(long, i))
	}
	if n := len(parsed.bySource); n > maxParsed || parsed.bytes > maxParsedBytes {
		t.Errorf("%d are kept, with %d bytes", n, parsed.bytes)
	}
	huge := long + long[6:] + long[6:]
	if p := Parse(berth.OpVersion, huge); parsed.get(source{berth.OpVersion, huge}) != nil || !p.Meets("1.5") || p.Meets("0.9") {
		t.Error("a huge list is kept, or does not work")
	}
}

// A check of a long list costs steps in proportion to its parts, whatever the
// operator.
func TestStepsGrowWithTheCondition(t *testing.T) {
	for operand, part := range map[string]string{
		berth.OpVersion: ">= 1.0", berth.OpSemver: ">= 1.0.0", berth.OpSetContains: "abcdef", berth.OpSetContainsAny: "abcdef", berth.OpRegexp: "abcdef",
	} {
		short, long := Parse(operand, part), Parse(operand, part+strings.Repeat(","+part, 999))
		if a, b := short.Steps(5), long.Steps(5); a > 40 || b < 10*a {
			t.Errorf("%s: %d steps for one part, %d for a thousand", operand, a, b)
		}
		if a, b := long.Steps(5), long.Steps(1<<20); b < 100*a && b < 1<<15 {
			t.Errorf("%s: %d steps for a short value, %d for a megabyte", operand, a, b)
		}
		if a, b := ParseSteps(operand, part), ParseSteps(operand, strings.Repeat(part, 1000)); b < 100*a {
			t.Errorf("%s: %d steps to parse one part, %d for a thousand", operand, a, b)
		}
	}
}

func BenchmarkMeetsVersions(b *testing.B) {
	long := ">= 1.0" + strings.Repeat(", >= 1.0", 400)
	for b.Loop() {
		Meets(berth.OpVersion, "1.7.3", true, long, true)
	}
}
