package condition

import (
	"fmt"
	"testing"
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

// Expressions are kept compiled, but not more than so many of them.
func TestRegexpsAreBounded(t *testing.T) {
	for i := range 3 * maxRegexps {
		if compiled(fmt.Sprint("x", i)) == nil {
			t.Fatal("not compiled")
		}
	}
	if n := len(regexps.byText); n > maxRegexps {
		t.Errorf("%d are kept", n)
	}
}
