package invariant

import (
	"fmt"

	"berth"
	"berth/internal/state"
)

// Violation is a broken invariant.
type Violation struct {
	ID   string // such as I-08
	Text string
}

// String returns the rule and the text on one line.
func (v Violation) String() string { return v.ID + ": " + v.Text }

// checker collects violations of one snapshot.
type checker struct {
	*state.Snapshot
	found []Violation
	// members counts the allocations of each deployment by group: placed,
	// healthy and unhealthy.
	members map[berth.DeploymentID]map[string]*[3]int
}

// addf adds a violation of the rule id.
func (c *checker) addf(id, format string, args ...any) {
	c.found = append(c.found, Violation{id, fmt.Sprintf(format, args...)})
}

// Check returns the violations in a snapshot, nil if there are none.
func Check(s *state.Snapshot) []Violation {
	c := &checker{Snapshot: s, members: map[berth.DeploymentID]map[string]*[3]int{}}
	c.evals()
	c.capacity()
	c.allocs()
	c.jobs()
	c.orphans()
	c.lists()
	c.nodes()
	c.pools()
	c.quotas()
	c.services()
	c.preemptions()
	c.children()
	c.deployments()
	c.deletions()
	c.claims()
	c.streams()
	return c.found
}
