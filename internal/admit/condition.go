package admit

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"berth"
	"berth/internal/condition"
)

func (c *checker) conditions(at string, cons []berth.Constraint, affs []berth.Affinity) {
	if n := max(len(cons), len(affs)); n > MaxConditions {
		c.addf(at, "%d constraints or affinities are too many; allowed are %d", n, MaxConditions)
		return
	}
	for i, x := range cons {
		c.condition(fmt.Sprintf("%s.constraint[%d]", at, i), x.LTarget, x.Operand, x.RTarget)
	}
	for i, x := range affs {
		aat := fmt.Sprintf("%s.affinity[%d]", at, i)
		if x.Operand == berth.OpDistinctHosts || x.Operand == berth.OpDistinctProperty {
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
	berth.OpEqual, berth.OpNotEqual, berth.OpLess, berth.OpLessEqual, berth.OpGreater, berth.OpGreaterEqual, berth.OpRegexp, berth.OpVersion, berth.OpSemver,
	berth.OpSetContains, berth.OpSetContainsAll, berth.OpSetContainsAny, berth.OpIsSet, berth.OpIsNotSet, berth.OpDistinctHosts, berth.OpDistinctProperty,
	"==", "is", "not",
}

func (c *checker) condition(at, left, operand, right string) {
	c.oneOf(at+".operator", operand, operators...)
	if c.ofDevice && (operand == berth.OpDistinctHosts || operand == berth.OpDistinctProperty) {
		c.addf(at+".operator", "%s is not for devices", operand)
		return
	}
	switch operand {
	case berth.OpDistinctHosts:
		c.oneOf(at+".value", right, "", "true", "false")
		return
	case berth.OpDistinctProperty:
		if right != "" {
			n, err := strconv.Atoi(right)
			if err != nil || n < 1 {
				c.addf(at+".value", "%q is not a count of at least 1", berth.Clip(right, 64))
			}
		}
	case berth.OpRegexp:
		if len(right) > MaxRegexpLen {
			c.addf(at+".value", "%d bytes are too long for a regexp; allowed are %d", len(right), MaxRegexpLen)
		} else if _, err := regexp.Compile(right); err != nil {
			c.addf(at+".value", "is not a regexp: %v", err)
		}
	case berth.OpVersion, berth.OpSemver:
		if err := condition.CheckVersions(right); err != nil {
			c.addf(at+".value", "%q is not a version constraint such as \">= 1.2, < 2\"", berth.Clip(right, 64))
		}
	case berth.OpSetContains, berth.OpSetContainsAll, berth.OpSetContainsAny:
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
		c.addf(at, "%q lacks its closing brace", berth.Clip(s, 64))
		return
	}
	switch kind, rest, _ := strings.Cut(inner, "."); {
	case c.ofDevice && kind == "device":
		if key, isAttr := strings.CutPrefix(rest, "attr."); !isAttr || key == "" {
			c.oneOf(at, rest, deviceProperties...)
		}
		return
	case c.ofDevice:
		c.addf(at, "%q is not known; allowed here are ${device.attr.…}, ${device.vendor}, ${device.type}, ${device.model} and ${device.ids}", berth.Clip(s, 64))
		return
	}
	switch kind, rest, _ := strings.Cut(inner, "."); kind {
	case "node":
		c.oneOf(at, rest, nodeProperties...)
	case "attr", "meta":
		if rest == "" {
			c.addf(at, "%q names nothing", berth.Clip(s, 64))
		}
	default:
		c.addf(at, "%q is not known; allowed are ${node.…}, ${attr.…} and ${meta.…}", berth.Clip(s, 64))
	}
}

// spreads checks the spread blocks of a job or a group.
func (c *checker) spreads(at string, list []berth.Spread) {
	if len(list) > MaxConditions {
		c.addf(at, "%d spread blocks are too many; allowed are %d", len(list), MaxConditions)
		return
	}
	for i := range list {
		c.spread(fmt.Sprintf("%s.spread[%d]", at, i), &list[i])
	}
}

func (c *checker) spread(at string, s *berth.Spread) {
	if s.Attribute == "" {
		c.addf(at+".attribute", "is missing; one such as ${node.datacenter} is wanted")
	}
	c.between(at+".weight", int64(s.Weight), 0, 100)
	if len(s.SpreadTarget) > MaxConditions {
		c.addf(at+".target", "%d targets are too many; allowed are %d", len(s.SpreadTarget), MaxConditions)
		return
	}
	seen, sum, inRange := map[string]bool{}, 0, true
	for _, t := range s.SpreadTarget {
		tat := fmt.Sprintf("%s.target[%s]", at, berth.Clip(t.Value, 64))
		if seen[t.Value] {
			c.addf(tat, "is there twice")
		}
		seen[t.Value] = true
		c.between(tat+".percent", int64(t.Percent), 0, 100)
		inRange = inRange && t.Percent >= 0 && t.Percent <= 100
		sum += t.Percent
	}
	if inRange && sum > 100 {
		c.addf(at+".target", "the percentages add up to %d; allowed are 100", sum)
	}
}
