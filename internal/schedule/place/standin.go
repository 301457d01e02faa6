package place

import (
	"fmt"

	"berth"
)

// An allocation on a disconnected node is unknown. It may come back, so it
// counts for what keeps instances apart. A stand-in has its name until then, and
// only one of the two stays: for the stand-in it does not count.

// batch is some instances of a group, and the names of those among them that
// are stand-ins for unknown allocations with the same distinct values.
type batch struct {
	instances []Instance
	standIns  map[uint32]bool
}

// batches splits the instances of a group by the values of the unknown
// allocations for which they stand in. In most cases there is one batch.
func (p *Placer) batches(g *berth.TaskGroup, instances []Instance) []batch {
	values := p.unknownValues(g)
	if len(values) == 0 || len(instances) == 0 {
		return []batch{{instances: instances}}
	}
	var out []batch
	at := map[string]int{} // by value, "" if an instance is no stand-in
	for _, in := range instances {
		key := ""
		if !in.Previous.IsZero() { // a canary has none
			key = values[in.Index]
		}
		n, ok := at[key]
		if !ok {
			n = len(out)
			at[key], out = n, append(out, batch{standIns: map[uint32]bool{}})
		}
		out[n].instances = append(out[n].instances, in)
		if key != "" {
			out[n].standIns[in.Index] = true
		}
	}
	return out
}

// unknownValues returns what the unknown allocations of a group take of its
// distinct properties, by index.
func (p *Placer) unknownValues(g *berth.TaskGroup) map[uint32]string {
	var values map[uint32]string
	for _, x := range p.peers {
		if !x.unknown || x.group.Name != g.Name {
			continue
		}
		for _, k := range p.takes(g.Name, x.node) {
			if k.constraint.Operand != berth.OpDistinctProperty {
				continue
			}
			if values == nil {
				values = map[uint32]string{}
			}
			values[x.index] += fmt.Sprintf("%q ", k.value)
		}
	}
	return values
}

// counts reports whether an instance that is there counts for what keeps those
// apart that are about to be placed.
func (p *Placer) counts(x peer, g *berth.TaskGroup) bool {
	return !x.unknown || x.group.Name != g.Name || !p.standIns[x.index]
}

// add adds the outcome of more instances of the group.
func (o *Outcome) add(more Outcome) {
	if o.Placed == nil {
		o.Placed = more.Placed
	} else {
		o.Placed = append(o.Placed, more.Placed...)
	}
	if o.Chosen == nil {
		o.Chosen = more.Chosen
	}
	switch {
	case more.Failed > 0 && o.Failed > 0:
		o.Why.CoalescedFailures += more.Why.CoalescedFailures + 1
		addMissed(o.Missed, more.Missed)
	case more.Failed > 0 || o.Why == nil:
		o.Why, o.Missed = more.Why, more.Missed
	}
	o.Failed += more.Failed
}
