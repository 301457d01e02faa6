package place

import (
	"berth/internal/condition"
	"slices"
	"strconv"

	"berth"
)

// Distinct reports whether instances of the job exclude each other from nodes.
func (p *Placer) Distinct() bool {
	has := func(list []berth.Constraint) bool {
		return slices.ContainsFunc(list, func(c berth.Constraint) bool {
			return c.Operand == berth.OpDistinctHosts || c.Operand == berth.OpDistinctProperty
		})
	}
	return has(p.job.Constraints) || slices.ContainsFunc(p.job.TaskGroups, func(g *berth.TaskGroup) bool {
		return has(g.Constraints) || slices.ContainsFunc(g.Tasks, func(t *berth.Task) bool { return has(t.Constraints) })
	})
}

// Full returns a function that returns, of what an instance of the group with that
// number takes on a node, what no further instance may take: distinct_hosts or
// distinct_property do not allow more than there are, placements included.
func (p *Placer) Full() func(group int, node berth.NodeID) []Apart {
	if !p.Distinct() {
		return func(int, berth.NodeID) []Apart { return nil }
	}
	used := p.used()
	return func(group int, node berth.NodeID) []Apart {
		keys := p.takes(p.job.TaskGroups[group].Name, p.snap.Node(node))
		return slices.DeleteFunc(keys, func(k Apart) bool { return used[k] < most(k.constraint) })
	}
}

// used counts what instances take, placements included.
func (p *Placer) used() map[Apart]int {
	out := map[Apart]int{}
	for _, x := range p.peers {
		for _, k := range p.takes(x.group.Name, x.node) {
			out[k]++
		}
	}
	return out
}

// MayStay returns a function that reports whether an allocation that leaves may
// stay after all: with it, distinct_hosts and distinct_property must still allow
// each of the placements. What may stay counts from then on.
func (p *Placer) MayStay(placements []berth.Placement) func(*berth.Alloc) bool {
	if !p.Distinct() {
		return func(*berth.Alloc) bool { return true }
	}
	placed, used := map[Apart]bool{}, p.used()
	for _, x := range placements {
		for _, k := range p.takes(p.job.TaskGroups[x.Group].Name, p.snap.Node(x.NodeID)) {
			placed[k] = true
		}
	}
	return func(a *berth.Alloc) bool {
		keys := p.takes(a.Group.Name, p.snap.Node(a.NodeID))
		if slices.ContainsFunc(keys, func(k Apart) bool { return placed[k] && used[k] >= most(k.constraint) }) {
			return false
		}
		for _, k := range keys {
			used[k]++
		}
		return true
	}
}

// Apart is a value that a limited number of instances may have, of the job or of a
// group.
type Apart struct {
	constraint berth.Constraint
	group      string // "": of the job
	value      string
}

// takes returns what an instance of a group takes on a node.
func (p *Placer) takes(group string, n *berth.Node) (out []Apart) {
	if n == nil {
		return nil
	}
	add := func(list []berth.Constraint, group string) {
		for _, c := range list {
			switch c.Operand {
			case berth.OpDistinctHosts:
				if c.RTarget != "false" {
					out = append(out, Apart{c, group, n.ID.String()})
				}
			case berth.OpDistinctProperty:
				if v, ok := condition.Resolve(c.LTarget, n, p.job.Region); ok {
					out = append(out, Apart{c, group, v})
				}
			}
		}
	}
	add(p.job.Constraints, "")
	if g := p.job.Group(group); g != nil {
		add(g.Constraints, group)
		for _, t := range g.Tasks {
			add(t.Constraints, group)
		}
	}
	return out
}

// most returns how many instances may have one value of a constraint that keeps
// them apart: 1 unless distinct_property gives a number.
func most(c berth.Constraint) int {
	if n, err := strconv.Atoi(c.RTarget); err == nil && c.Operand == berth.OpDistinctProperty {
		return n
	}
	return 1
}
