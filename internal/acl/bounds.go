package acl

import (
	"berth/internal/limit"
)

// Limits of policies, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("policy_rules", "Bytes of the rules of a policy", limit.Bytes, int64(MaxRules), "the request is refused (400)"),
	limit.Bound("policy_label", "Bytes of a label in the rules of a policy", limit.Bytes, int64(maxLabel), "the request is refused (400)"),
	limit.Bound("policy_nesting", "Braces and brackets inside each other in the rules of a policy", limit.Count, int64(maxNesting), "the request is refused (400)"),
	limit.Bound("policy_problems", "Problems of the rules of a policy that are reported", limit.Count, int64(maxProblems), "further ones are left out"),
}
