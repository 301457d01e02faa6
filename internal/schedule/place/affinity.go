package place

import (
	"math"

	"berth"
	"berth/internal/state"
)

// affinities is a group's weighted preference for nodes.
type affinities struct {
	list   []preference
	work   *Budget
	group  *berth.TaskGroup
	total  float64   // sum of the weights, without their signs
	unique bool      // an affinity depends on the node, not only on its class
	scores []float64 // by class, where asked
	asked  []bool    // by class: its score is known
}

// preference is one affinity.
type preference struct {
	check
	weight float64
}

// newAffinities gathers the affinities of the job, the group and its tasks,
// which all count the same.
func newAffinities(snap *state.Snapshot, job *berth.Job, group *berth.TaskGroup, work *Budget) *affinities {
	a := &affinities{work: work, group: group}
	add := func(list []berth.Affinity) {
		for _, x := range list {
			c := berth.Constraint{LTarget: x.LTarget, RTarget: x.RTarget, Operand: x.Operand}
			a.list = append(a.list, preference{check{Constraint: c, region: job.Region}, float64(x.Weight)})
			a.total += math.Abs(float64(x.Weight))
			a.unique = a.unique || unique(x.LTarget) || unique(x.RTarget)
		}
	}
	add(job.Affinities)
	add(group.Affinities)
	for _, t := range group.Tasks {
		add(t.Affinities)
	}
	if len(a.list) > 0 {
		a.scores, a.asked = make([]float64, snap.Classes()), make([]bool, snap.Classes())
	}
	return a
}

// score returns the preference for a node, between -1 and 1.
func (a *affinities) score(class uint32, n *berth.Node) float64 {
	if len(a.list) == 0 {
		return 0
	}
	if !a.unique && a.asked[class] {
		return a.scores[class]
	}
	sum := 0.0
	for i := range a.list {
		if x := &a.list[i]; x.holds(n, a.work, a.group) {
			sum += x.weight
		}
	}
	sum /= a.total
	a.scores[class], a.asked[class] = sum, true
	return sum
}
