package state

import (
	"slices"

	"berth"
	"berth/internal/fit"
)

// carriedOver returns the allocation and the group of the job's newest version
// that it moves to, or nil if it cannot be carried over.
func (tx *Tx) carriedOver(id berth.AllocID, job *berth.Job) (*berth.Alloc, *berth.TaskGroup) {
	a := tx.Alloc(id)
	if a == nil || !a.Live() || a.Job.UID != job.UID {
		return nil, nil
	}
	g := job.Group(a.Group.Name)
	if g == nil {
		return nil, nil
	}
	return a, g
}

// fitsInPlace reports whether an allocation keeps within its capacity and the
// existing names when it moves to another version of its group.
func fitsInPlace(a *berth.Alloc, g *berth.TaskGroup) bool {
	was, is := fit.RequestOf(a.Group), fit.RequestOf(g)
	return int64(a.Index) < int64(g.Count) && was.Same(&is)
}

// carryOver moves an allocation to the job's newest version, in place.
func (tx *Tx) carryOver(id berth.AllocID, job *berth.Job, c *ApplyPlan, now int64) {
	old, g := tx.carriedOver(id, job)
	if old == nil {
		return
	}
	a := *old
	a.Job, a.Group, a.EvalID = job, g, c.Eval
	a.Ports = relabel(old.Ports, old.Group, g)
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	c.joins.add(&a, false, now)
	tx.changeAlloc(old, &a)
}

// relabel reorders dynamic ports from the order of one version's labels to that
// of the other's, so that each label keeps its port.
func relabel(ports []uint16, was, is *berth.TaskGroup) []uint16 {
	before, after := dynamicLabels(was), dynamicLabels(is)
	if len(ports) != len(before) || len(ports) != len(after) || slices.Equal(before, after) {
		return ports
	}
	byLabel := map[string]uint16{}
	for i, l := range before {
		byLabel[l] = ports[i]
	}
	out := make([]uint16, len(ports))
	for i, l := range after {
		p, ok := byLabel[l]
		if !ok { // labels were renamed, so any assignment will do
			return ports
		}
		out[i] = p
	}
	return out
}

// dynamicLabels returns the labels of a group's dynamic ports in the order of
// an allocation's Ports. Those of a task have its name before them.
func dynamicLabels(g *berth.TaskGroup) (out []string) {
	for t, nw := range g.AllNetworks() {
		of := ""
		if t != nil {
			of = t.Name + "/"
		}
		for _, p := range nw.DynamicPorts {
			out = append(out, of+p.Label)
		}
	}
	return out
}
