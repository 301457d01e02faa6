package berth

// Constraint is a condition that a node must meet.
type Constraint struct {
	LTarget string `hcl:"attribute"` // what is looked at, such as ${attr.kernel.name}
	RTarget string `hcl:"value"`     // what it is compared with
	Operand string `hcl:"operator"`
}

// String returns the constraint as explanations show it.
func (c Constraint) String() string {
	switch c.Operand {
	case OpDistinctHosts:
		return OpDistinctHosts
	case OpDistinctProperty:
		if c.RTarget != "" {
			return OpDistinctProperty + " " + c.LTarget + " " + c.RTarget
		}
		return OpDistinctProperty + " " + c.LTarget
	case OpIsSet, OpIsNotSet:
		return c.LTarget + " " + c.Operand
	}
	return c.LTarget + " " + c.Operand + " " + c.RTarget
}

// Affinity is a preference for nodes, or against them.
type Affinity struct {
	LTarget string `hcl:"attribute"`
	RTarget string `hcl:"value"`
	Operand string `hcl:"operator"`
	Weight  int    // -100 to 100, not 0; below 0 the node is avoided
}

// The operators of constraints and affinities.
const (
	OpEqual            = "="
	OpNotEqual         = "!="
	OpLess             = "<"
	OpLessEqual        = "<="
	OpGreater          = ">"
	OpGreaterEqual     = ">="
	OpRegexp           = "regexp"
	OpVersion          = "version"
	OpSemver           = "semver"
	OpSetContains      = "set_contains" // all of them
	OpSetContainsAll   = "set_contains_all"
	OpSetContainsAny   = "set_contains_any"
	OpIsSet            = "is_set"
	OpIsNotSet         = "is_not_set"
	OpDistinctHosts    = "distinct_hosts"
	OpDistinctProperty = "distinct_property"
)

// Spread asks for allocations to be distributed over the values of an attribute.
type Spread struct {
	Attribute    string
	Weight       int            // 0 to 100, beside other spread blocks of the job and group
	SpreadTarget []SpreadTarget `hcl:"target"`
}

// SpreadTarget is the share that one value should get. The rest is distributed
// evenly over the values that no target names.
type SpreadTarget struct {
	Value   string `hcl:",label"` // "*": all values that no target names
	Percent int    // of the group's count
}
