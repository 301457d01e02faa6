package place

import (
	"berth/internal/fit"
)

// The balanced algorithm packs as binpack does, but also considers what a
// placement strands: memory that nobody can use because the node's CPU is used
// up, or the other way round. The imbalance of what is free on a node is
//
//	|free(cpu) - free(memory)| / (free(cpu) + free(memory))
//
// It counts squared, so that a small imbalance, which later asks will even out,
// costs almost nothing. It is relative to what is free, so that it counts more
// the fuller the node is: the last asks must fit exactly. An unbalanced ask
// goes to a node that is unbalanced the other way, or to an empty one, before
// it spoils a good one. docs/decisions/0005-balanced-placement.md lists the
// alternatives.
//
// Instances of a batch job have no anti-affinity under this algorithm: it is
// chosen for packing, and spreading a batch over nodes does not make it more
// available.
const (
	imbalanceWeight = 1.8
	// imbalanceFloor is added to the sum of what is free: a node that is full
	// except for crumbs is not unbalanced.
	imbalanceFloor = 0.02
)

// balance returns a node's fit by the balanced algorithm, between -1 and 1,
// given its fit by binpack: binpack minus a penalty for what is stranded.
func (g *fitScorer) balance(u *fit.Usage, binpack float64) float64 {
	if u.Capacity.CPU <= 0 || u.Capacity.MemoryMB <= 0 {
		return binpack // the node has only one of the two
	}
	cpu := 1 - float64(u.Used.CPU)*g.perCPU - g.cpuShare
	memory := 1 - float64(u.Used.MemoryMB)*g.perMemory - g.memShare
	x := (cpu - memory) / (cpu + memory + imbalanceFloor)
	return max(binpack-imbalanceWeight*x*x, -1)
}
