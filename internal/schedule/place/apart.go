package place

import (
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

// KeptApart returns a function that reports whether one of the placements and an
// allocation of the job exclude each other: by distinct_hosts, or by
// distinct_property if one instance may have each value.
func (p *Placer) KeptApart(placements []berth.Placement) func(*berth.Alloc) bool {
	if !p.Distinct() {
		return func(*berth.Alloc) bool { return false }
	}
	taken := map[apart]bool{}
	for _, x := range placements {
		for _, k := range p.takes(p.job.TaskGroups[x.Group], x.NodeID) {
			taken[k] = true
		}
	}
	return func(a *berth.Alloc) bool {
		return slices.ContainsFunc(p.takes(p.job.Group(a.Group.Name), a.NodeID), func(k apart) bool { return taken[k] })
	}
}

// apart is a value that one instance may have, of those of the job or of a group.
type apart struct {
	constraint berth.Constraint
	group      string // "": of the job
	value      string
}

// takes returns what an instance of a group takes on a node.
func (p *Placer) takes(g *berth.TaskGroup, id berth.NodeID) (out []apart) {
	n := p.snap.Node(id)
	if g == nil || n == nil {
		return nil
	}
	add := func(list []berth.Constraint, group string) {
		for _, c := range list {
			switch c.Operand {
			case berth.OpDistinctHosts:
				if c.RTarget != "false" {
					out = append(out, apart{c, group, id.String()})
				}
			case berth.OpDistinctProperty:
				most, err := strconv.Atoi(c.RTarget)
				if v, ok := resolve(c.LTarget, n); ok && (err != nil || most == 1) {
					out = append(out, apart{c, group, v})
				}
			}
		}
	}
	add(p.job.Constraints, "")
	add(g.Constraints, g.Name)
	for _, t := range g.Tasks {
		add(t.Constraints, g.Name)
	}
	return out
}
