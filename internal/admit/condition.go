package admit

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/condition"
)

// conditions checks constraints and affinities. distinct_hosts and
// distinct_property cannot be preferences, so affinities do not have them.
func (c *checker) conditions(at string, cons []berth.Constraint, affs []berth.Affinity) {
	if !c.atMost(at+".constraint", conditionsLimit, len(cons), "constraints") || !c.atMost(at+".affinity", conditionsLimit, len(affs), "affinities") {
		return
	}
	for i, x := range cons {
		c.condition(fmt.Sprintf("%s.constraint[%d]", at, i), x.LTarget, x.Operand, x.RTarget)
	}
	for i, x := range affs {
		aat := fmt.Sprintf("%s.affinity[%d]", at, i)
		if x.Operand == berth.OpDistinctHosts || x.Operand == berth.OpDistinctProperty {
			c.addf(aat+".operator", "%s is only for constraints", x.Operand)
			continue
		}
		c.condition(aat, x.LTarget, x.Operand, x.RTarget)
		if x.Weight == 0 || x.Weight < -100 || x.Weight > 100 {
			c.addf(aat+".weight", "must be -100 to 100 and not 0, got %d", x.Weight)
		}
	}
}

// operators are all operands of constraints; affinities have fewer.
var operators = []string{
	berth.OpEqual, berth.OpNotEqual, berth.OpLess, berth.OpLessEqual, berth.OpGreater, berth.OpGreaterEqual, berth.OpRegexp, berth.OpVersion, berth.OpSemver,
	berth.OpSetContains, berth.OpSetContainsAll, berth.OpSetContainsAny, berth.OpIsSet, berth.OpIsNotSet, berth.OpDistinctHosts, berth.OpDistinctProperty,
	"==", "is", "not",
}

// condition checks one condition. What the right side must be depends on the
// operand; distinct_hosts has no left side.
func (c *checker) condition(at, left, operand, right string) {
	c.oneOf(at+".operator", operand, operators...)
	// Schedulers compare with it again and again, so nothing long is parsed.
	if !c.short(at+".attribute", left) || !c.short(at+".value", right) {
		return
	}
	// Devices are chosen within one node, where these mean nothing.
	if c.ofDevice && (operand == berth.OpDistinctHosts || operand == berth.OpDistinctProperty) {
		c.addf(at+".operator", "%s is not supported for devices", operand)
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
				c.addf(at+".value", "must be an integer of at least 1, got %q", berth.Clip(right, 64))
			}
		}
	case berth.OpRegexp:
		if len(right) > MaxRegexpLen {
			c.addf(at+".value", "must be at most %d bytes for operator regexp, got %d", MaxRegexpLen, len(right))
		} else if _, err := regexp.Compile(right); err != nil {
			c.addf(at+".value", "must be a regular expression: %v", err)
		}
	case berth.OpVersion, berth.OpSemver:
		if err := condition.CheckVersions(right); err != nil {
			c.addf(at+".value", "must be a version constraint such as \">= 1.2, < 2\", got %q", berth.Clip(right, 64))
		}
	case berth.OpSetContains, berth.OpSetContainsAll, berth.OpSetContainsAny:
		if right == "" {
			c.addf(at+".value", "is missing: want a comma-separated list")
		}
	}
	if left == "" {
		c.addf(at+".attribute", "is missing: want an attribute such as ${attr.kernel.name}")
	}
	c.target(at+".attribute", left)
	c.target(at+".value", right)
}

// short checks the length of a condition's attribute or value.
func (c *checker) short(at, s string) bool {
	valueLimit.Use(int64(len(s)), MaxValueLen, "at", at)
	if len(s) <= MaxValueLen {
		return true
	}
	valueLimit.Refuse("at", at)
	c.addf(at, "must be at most %d bytes, got %d", MaxValueLen, len(s))
	return false
}

// nodeProperties are the properties that ${node.…} can name.
var nodeProperties = []string{"unique.id", "unique.name", "datacenter", "class", "pool", "region"}

// deviceProperties are the properties that ${device.…} can name, besides
// attributes.
var deviceProperties = []string{"vendor", "type", "model", "ids"}

// target checks a reference to a property of the node, or of the device.
func (c *checker) target(at, s string) {
	inner, ok := strings.CutPrefix(s, "${")
	if !ok {
		return
	}
	inner, ok = strings.CutSuffix(inner, "}")
	if !ok {
		c.addf(at, "must end with a closing brace, got %q", berth.Clip(s, 64))
		return
	}
	switch kind, rest, _ := strings.Cut(inner, "."); {
	case c.ofDevice && kind == "device":
		if key, isAttr := strings.CutPrefix(rest, "attr."); !isAttr || key == "" {
			c.property(at, "device", rest, deviceProperties)
		}
		return
	case c.ofDevice:
		c.addf(at, "unknown reference %q: want ${device.attr.…}, ${device.vendor}, ${device.type}, ${device.model} or ${device.ids}", berth.Clip(s, 64))
		return
	}
	switch kind, rest, _ := strings.Cut(inner, "."); kind {
	case "node":
		c.property(at, "node", rest, nodeProperties)
	case "attr", "meta":
		if rest == "" {
			c.addf(at, "%q must name a key after the dot", berth.Clip(s, 64))
		}
	default:
		c.addf(at, "unknown reference %q: want ${node.…}, ${attr.…} or ${meta.…}", berth.Clip(s, 64))
	}
}

// property checks the name of a property of a node or device.
func (c *checker) property(at, of, name string, allowed []string) {
	if !slices.Contains(allowed, name) {
		c.addf(at, "unknown %s property %q: want %s", of, berth.Clip(name, 64), orList(allowed))
	}
}

// spreads checks the spread blocks of a job or group.
func (c *checker) spreads(at string, list []berth.Spread) {
	if !c.atMost(at+".spread", conditionsLimit, len(list), "spread blocks") {
		return
	}
	for i := range list {
		c.spread(fmt.Sprintf("%s.spread[%d]", at, i), &list[i])
	}
}

// spread checks one spread. The percentages may add up to less than 100; the
// rest goes to other values.
func (c *checker) spread(at string, s *berth.Spread) {
	if s.Attribute == "" {
		c.addf(at+".attribute", "is missing: want an attribute such as ${node.datacenter}")
	}
	if !c.short(at+".attribute", s.Attribute) {
		return
	}
	c.between(at+".weight", int64(s.Weight), 0, 100)
	if !c.atMost(at+".target", conditionsLimit, len(s.SpreadTarget), "targets") {
		return
	}
	// The sum is checked only if each percentage is valid by itself.
	seen, sum, inRange := map[string]bool{}, 0, true
	for _, t := range s.SpreadTarget {
		tat := fmt.Sprintf("%s.target[%s]", at, berth.Clip(t.Value, 64))
		if !c.short(tat+".value", t.Value) {
			return
		}
		if seen[t.Value] {
			c.addf(tat, "is defined twice")
		}
		seen[t.Value] = true
		c.between(tat+".percent", int64(t.Percent), 0, 100)
		inRange = inRange && t.Percent >= 0 && t.Percent <= 100
		sum += t.Percent
	}
	if inRange && sum > 100 {
		c.addf(at+".target", "the percentages must add up to at most 100, got %d", sum)
	}
}
