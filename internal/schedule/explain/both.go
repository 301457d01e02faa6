package explain

import (
	"cmp"
	"iter"
	"slices"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/op"
)

// dropsTried is how many constraints are tried as the first of two changes,
// firstsTried how many changes of each other kind.
const (
	dropsTried  = 4
	firstsTried = 2
)

// both looks for two changes that help together, where none does alone: a node
// can fail a condition and lack capacity, fail two conditions, or lack two
// resources. One pair is enough.
func (f *finder) both(x *op.GroupExplanation, all []place.Verdict) {
	for first, cmd := range f.firsts(x, all) {
		second, then, left, ok := f.after(cmd)
		if !ok {
			continue
		}
		second.single(then, left)
		second.out = slices.DeleteFunc(second.out, func(c rankedChange) bool { // two of them is more than somebody would do
			return c.Datacenter != "" && first.Datacenter != "" || c.NodePool != "" && first.NodePool != ""
		})
		if c, ok := least(second.out); ok {
			first.And = &c.Change
			f.add(first.cost+c.cost, first.Change)
			return
		}
	}
	f.twoLess(x)
}

// least returns the change with the lowest cost.
func least(out []rankedChange) (c rankedChange, ok bool) {
	if len(out) == 0 {
		return c, false
	}
	return slices.MinFunc(out, func(a, b rankedChange) int { return cmp.Compare(a.cost, b.cost) }), true
}

// after returns a finder for the state after a change, with what is still wrong
// there; not ok if the change is refused.
func (f *finder) after(cmd state.Command) (second *finder, x *op.GroupExplanation, all []place.Verdict, ok bool) {
	w, ok := f.with(cmd)
	if !ok {
		return nil, nil, nil, false
	}
	job := w.snap.Job(f.key)
	second, x = &finder{sandbox: w, job: job, index: f.index, group: job.TaskGroups[f.index], queued: f.queued}, &op.GroupExplanation{}
	return second, x, second.survey(x), true
}

// firsts are the changes that are tried as the first of two, with the commands
// that make them.
func (f *finder) firsts(x *op.GroupExplanation, all []place.Verdict) iter.Seq2[rankedChange, state.Command] {
	return func(yield func(rankedChange, state.Command) bool) {
		tried, stop := map[string]int{}, false
		// try tries a change of a kind. make returns its command, and is called only
		// then: a job can have thousands of constraints.
		try := func(kind string, most int, cost float64, c op.Change, make func() state.Command) {
			if stop || tried[kind] == most {
				return
			}
			tried[kind]++
			stop = !yield(rankedChange{cost, c}, make())
		}
		edit := func(change func() *berth.Job) func() state.Command {
			return func() state.Command { return f.register(change()) }
		}
		for _, u := range x.Unknown {
			if u.Similar != "" {
				try("spell", firstsTried, costSpell, op.Change{Misspelt: &op.Misspelt{Attribute: u.Attribute, Instead: u.Similar}}, edit(func() *berth.Job { return f.renamed(u.Attribute, u.Similar) }))
			}
		}
		for n := range f.ineligible() {
			try("eligible", firstsTried, costEnable, op.Change{Present: &op.Present{NodeID: n.ID, NodeName: n.Name, Eligible: true}}, func() state.Command { return f.enabled(n) })
		}
		for _, v := range all {
			if drivers := f.lackedDrivers(v.Node); len(drivers) > 0 {
				try("drivers", firstsTried, costEnable, op.Change{Present: &op.Present{NodeID: v.Node.ID, NodeName: v.Node.Name, Drivers: drivers}}, func() state.Command {
					return f.equipped(v.Node, drivers)
				})
			}
		}
		for _, d := range f.staticPorts(all) {
			try("port", firstsTried, costDynamic, op.Change{Port: dynamicPort(d)}, edit(func() *berth.Job { return f.dynamic(d) }))
		}
		for _, c := range f.constraints() {
			if text := c.String(); x.Conditions[text] > 0 {
				try("drop", dropsTried, costDrop, op.Change{Drop: []string{text}}, edit(func() *berth.Job { return f.without(text) }))
			}
		}
		seen := map[string]bool{}
		for _, v := range all {
			if dc := v.Node.Datacenter; !seen["dc "+dc] && f.outside(x, dc) {
				seen["dc "+dc] = true
				try("datacenter", firstsTried, costPlace, op.Change{Datacenter: dc}, edit(func() *berth.Job { return f.inDatacenter(dc) }))
			}
			if pool := v.Node.NodePool; !seen["pool "+pool] && f.inOtherPool(x, pool) {
				seen["pool "+pool] = true
				try("pool", firstsTried, costPlace, op.Change{NodePool: pool}, edit(func() *berth.Job { return f.inPool(pool) }))
			}
		}
	}
}

// twoLess looks for two resources that the group could ask less of. It reduces one
// as far as it goes to find the smallest reduction of the other, and then the
// smallest of the first that still helps.
func (f *finder) twoLess(x *op.GroupExplanation) {
	for _, s := range x.Shortages {
		most := s.Wanted - f.floor(s.Dimension)
		if s.Unit == "" || most <= 0 {
			continue
		}
		one, ok := f.lessAfter(s.Dimension, most)
		if !ok {
			continue
		}
		if two, ok := f.lessAfter(one.Less.Dimension, one.Less.Amount); ok {
			two.And = &one.Change
			f.add(one.cost+two.cost, two.Change)
			return
		}
	}
}

// lessAfter returns the smallest reduction that helps after that of a dimension.
func (f *finder) lessAfter(dim string, amount int64) (rankedChange, bool) {
	j, _ := f.withSmallerAsk(dim, amount)
	second, then, _, ok := f.after(f.register(j))
	if !ok {
		return rankedChange{}, false
	}
	second.asksLess(then)
	return least(second.out)
}
