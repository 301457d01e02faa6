package berth

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
)

func (c *checker) conditions(at string, cons []Constraint, affs []Affinity) {
	if n := max(len(cons), len(affs)); n > MaxConditions {
		c.addf(at, "%d constraints or affinities are too many; allowed are %d", n, MaxConditions)
		return
	}
	for i, x := range cons {
		c.condition(fmt.Sprintf("%s.constraint[%d]", at, i), x.LTarget, x.Operand, x.RTarget)
	}
	for i, x := range affs {
		aat := fmt.Sprintf("%s.affinity[%d]", at, i)
		if x.Operand == OpDistinctHosts || x.Operand == OpDistinctProperty {
			c.addf(aat+".operator", "%s is for constraints only", x.Operand)
			continue
		}
		c.condition(aat, x.LTarget, x.Operand, x.RTarget)
		if x.Weight == 0 || x.Weight < -100 || x.Weight > 100 {
			c.addf(aat+".weight", "%d is out of range; allowed are -100 to 100, except 0", x.Weight)
		}
	}
}

var operators = []string{
	OpEqual, OpNotEqual, OpLess, OpLessEqual, OpGreater, OpGreaterEqual, OpRegexp, OpVersion, OpSemver,
	OpSetContains, OpSetContainsAll, OpSetContainsAny, OpIsSet, OpIsNotSet, OpDistinctHosts, OpDistinctProperty,
	"==", "is", "not",
}

func (c *checker) condition(at, left, operand, right string) {
	c.oneOf(at+".operator", operand, operators...)
	if c.ofDevice && (operand == OpDistinctHosts || operand == OpDistinctProperty) {
		c.addf(at+".operator", "%s is not for devices", operand)
		return
	}
	switch operand {
	case OpDistinctHosts:
		c.oneOf(at+".value", right, "", "true", "false")
		return
	case OpDistinctProperty:
		if right != "" {
			n, err := strconv.Atoi(right)
			if err != nil || n < 1 {
				c.addf(at+".value", "%q is not a count of at least 1", clip(right, 64))
			}
		}
	case OpRegexp:
		if len(right) > MaxRegexpLen {
			c.addf(at+".value", "%d bytes are too long for a regexp; allowed are %d", len(right), MaxRegexpLen)
		} else if _, err := regexp.Compile(right); err != nil {
			c.addf(at+".value", "is not a regexp: %v", err)
		}
	case OpVersion, OpSemver:
		if _, err := version.NewConstraint(right); err != nil {
			c.addf(at+".value", "%q is not a version constraint such as \">= 1.2, < 2\"", clip(right, 64))
		}
	case OpSetContains, OpSetContainsAll, OpSetContainsAny:
		if right == "" {
			c.addf(at+".value", "a comma-separated list is wanted")
		}
	}
	if left == "" {
		c.addf(at+".attribute", "is missing")
	}
	c.target(at+".attribute", left)
	c.target(at+".value", right)
}

// nodeProperties are what ${node.…} may name.
var nodeProperties = []string{"unique.id", "unique.name", "datacenter", "class", "pool", "region"}

// deviceProperties are what ${device.…} may name beside attributes.
var deviceProperties = []string{"vendor", "type", "model", "ids"}

// target checks an interpolation that stands for something of the node.
func (c *checker) target(at, s string) {
	inner, ok := strings.CutPrefix(s, "${")
	if !ok {
		return
	}
	inner, ok = strings.CutSuffix(inner, "}")
	if !ok {
		c.addf(at, "%q lacks its closing brace", clip(s, 64))
		return
	}
	switch kind, rest, _ := strings.Cut(inner, "."); {
	case c.ofDevice && kind == "device":
		if key, isAttr := strings.CutPrefix(rest, "attr."); !isAttr || key == "" {
			c.oneOf(at, rest, deviceProperties...)
		}
		return
	case c.ofDevice:
		c.addf(at, "%q is not known; allowed here are ${device.attr.…}, ${device.vendor}, ${device.type}, ${device.model} and ${device.ids}", clip(s, 64))
		return
	}
	switch kind, rest, _ := strings.Cut(inner, "."); kind {
	case "node":
		c.oneOf(at, rest, nodeProperties...)
	case "attr", "meta":
		if rest == "" {
			c.addf(at, "%q names nothing", clip(s, 64))
		}
	default:
		c.addf(at, "%q is not known; allowed are ${node.…}, ${attr.…} and ${meta.…}", clip(s, 64))
	}
}
