package place

import (
	"strings"

	"berth"
	"berth/internal/condition"
)

// check is a condition of a group, prepared for comparing many nodes with it: its
// right side is parsed once, and a value that was compared before is not
// compared again. Unlike nodes usually share most values.
type check struct {
	berth.Constraint
	region string // of the nodes
	parsed *condition.Parsed
	known  map[string]bool // by left value, for operators that are parsed
}

// maxKnown is how many values a check remembers.
const maxKnown = 4096

// holds reports whether a node meets a condition of the group, its variables
// replaced by the node's values.
func (c *check) holds(n *berth.Node, work *Budget, group *berth.TaskGroup) bool {
	left, hasLeft := condition.Resolve(c.LTarget, n, c.region)
	if !condition.Parses(c.Operand) || strings.HasPrefix(c.RTarget, "${") {
		right, hasRight := condition.Resolve(c.RTarget, n, c.region)
		steps := 1 + (len(left)+len(right))/64
		if condition.Parses(c.Operand) && hasLeft && hasRight {
			steps += condition.ParseSteps(c.Operand, right)
		}
		work.spendOn(steps, group.Name, &c.Constraint)
		return condition.Meets(c.Operand, left, hasLeft, right, hasRight)
	}
	if !hasLeft {
		work.Spend(1)
		return false
	}
	if met, known := c.known[left]; known {
		work.Spend(1 + len(left)/64)
		return met
	}
	if c.parsed == nil {
		work.spendOn(condition.ParseSteps(c.Operand, c.RTarget), group.Name, &c.Constraint)
		c.parsed, c.known = condition.Parse(c.Operand, c.RTarget), map[string]bool{}
	}
	work.spendOn(c.parsed.Steps(len(left)), group.Name, &c.Constraint)
	met := c.parsed.Meets(left)
	if len(c.known) < maxKnown {
		c.known[left] = met
	}
	return met
}
