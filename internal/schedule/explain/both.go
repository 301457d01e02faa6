package explain

import (
	"berth"
	"berth/internal/schedule/place"
	"berth/op"
)

// bothTried is how many changes are tried as the first of two.
const bothTried = 4

// both looks for two changes that help together, where none does alone: a node
// can fail a condition and lack capacity, or fail two conditions.
func (f *finder) both(x *op.GroupExplanation, all []place.Verdict) {
	tried := 0
	try := func(first op.Change, j *berth.Job) {
		if tried == bothTried {
			return
		}
		tried++
		w, ok := f.with(f.register(j))
		if !ok {
			return
		}
		job := w.snap.Job(f.key)
		second := &finder{sandbox: w, job: job, index: f.index, group: job.TaskGroups[f.index], queued: f.queued}
		var then op.GroupExplanation
		left := second.survey(&then)
		second.asksLess(&then)
		second.conditions(&then, left)
		for _, c := range second.out {
			if c.Datacenter != "" && first.Datacenter != "" || c.NodePool != "" && first.NodePool != "" {
				continue // two of them is more than somebody would do
			}
			c.Drop = append(append([]string{}, first.Drop...), c.Drop...)
			if first.Datacenter != "" {
				c.Datacenter = first.Datacenter
			}
			if first.NodePool != "" {
				c.NodePool = first.NodePool
			}
			f.add(costBoth+c.cost, c.Change)
			tried = bothTried // one pair is enough
			return
		}
	}
	for _, c := range f.constraints() {
		if text := c.String(); x.Conditions[text] > 0 {
			try(op.Change{Drop: []string{text}}, f.without(text))
		}
	}
	seen := map[string]bool{}
	for _, v := range all {
		if dc := v.Node.Datacenter; !seen["dc "+dc] && f.outside(x, dc) {
			seen["dc "+dc] = true
			try(op.Change{Datacenter: dc}, f.inDatacenter(dc))
		}
		if pool := v.Node.NodePool; !seen["pool "+pool] && f.inOtherPool(x, pool) {
			seen["pool "+pool] = true
			try(op.Change{NodePool: pool}, f.inPool(pool))
		}
	}
}
